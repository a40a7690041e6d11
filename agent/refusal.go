package agent

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/oacp-go/oacp/internal/visible"
)

// A Refusal is something that an agent wanted to do in a turn and was not permitted.
type Refusal struct {
	// Tool is the agent's name for what it wanted to use. What is the command, the file or the
	// address. A long text is cut.
	Tool string `json:"tool"`
	What string `json:"what,omitempty"`
	// Count is how often it was refused.
	Count int `json:"count"`
	// Allow is the smallest permission with which it is not refused. It is empty if unknown, for
	// example if the program's own settings forbid the action.
	Allow Permission `json:"allow,omitempty"`
}

// maxRefusals bounds the refusals of a turn.
const maxRefusals = 20

// mergeRefusals returns the refusals of all lists, with equal ones counted together, but at most
// maxRefusals.
func mergeRefusals(lists ...[]Refusal) []Refusal {
	var all []Refusal
	for _, r := range slices.Concat(lists...) {
		r.What = visible.ShortBytes(r.What, maxQuote)
		i := slices.IndexFunc(all, func(other Refusal) bool {
			return other.Tool == r.Tool && other.What == r.What && other.Allow == r.Allow
		})
		switch {
		case i >= 0:
			all[i].Count += r.Count
		case len(all) < maxRefusals:
			all = append(all, r)
		}
	}
	return all
}

// claudeDenial is a use of a tool as claude's result message lists it if it was denied. A request for
// permission has the same fields, but another name for the input.
type claudeDenial struct {
	Tool  string          `json:"tool_name"`
	ID    string          `json:"tool_use_id"`
	Input json.RawMessage `json:"tool_input"`
}

// command returns what the tool would give to a shell, "" for other tools.
func (d *claudeDenial) command() string {
	if d.Tool != "Bash" {
		return ""
	}
	return mainArgument(d.Input)
}

// claudeEdits are the tools that change files in the working folder under PermitEdits.
var claudeEdits = []string{"Write", "Edit", "MultiEdit", "NotebookEdit"}

// permission returns the smallest permission, above the present one, with which the driver does not
// deny the use.
func (d *claudeDenial) permission(present Permission) Permission {
	if slices.Contains(claudeEdits, d.Tool) && present != PermitEdits {
		return PermitEdits
	}
	return PermitAll
}

// claudeRefusals returns the denials of a turn. Denied has the permissions that allow those that the
// driver denied; the program's settings forbid the others.
func claudeRefusals(denials []claudeDenial, denied map[string]Permission) []Refusal {
	var all []Refusal
	for _, d := range denials {
		all = append(all, Refusal{Tool: visible.CutBytes(d.Tool, maxQuote), What: strings.TrimSpace(mainArgument(d.Input)), Count: 1, Allow: denied[d.ID]})
	}
	return mergeRefusals(all)
}
