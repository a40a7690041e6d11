package agent

import (
	"encoding/json"
	"slices"
	"strings"
)

// A Refusal is something that an agent wanted to do in a turn and was not permitted.
type Refusal struct {
	// Tool is the agent's name for what it wanted to use. What says more: the command, the file or
	// the address. A long text is cut.
	Tool string `json:"tool"`
	What string `json:"what,omitempty"`
	// Count is how often it was refused.
	Count int `json:"count"`
	// Allow is the least permission with which it is not refused. It is empty if that is not known,
	// such as for what the program's own settings forbid.
	Allow Permission `json:"allow,omitempty"`
}

// maxRefusals bounds the refusals of a turn.
const maxRefusals = 20

// mergeRefusals returns the refusals with those of one kind counted together. It drops what is too
// much.
func mergeRefusals(lists ...[]Refusal) []Refusal {
	var all []Refusal
	for _, r := range slices.Concat(lists...) {
		if len(r.What) > maxQuote {
			r.What = cutText(r.What, maxQuote) + "…"
		}
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

// claudeDenial is the use of a tool as claude asks for it, and as its result message lists it if it
// was denied. The input has another name there.
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

// permission returns the least permission, above the present one, with which the driver does not
// deny the use.
func (d *claudeDenial) permission(present Permission) Permission {
	if slices.Contains(claudeEdits, d.Tool) && present != PermitEdits {
		return PermitEdits
	}
	return PermitAll
}

// claudeRefusals returns the denials of a turn. Denied are those by the driver, with the permission
// that each needs; the rest is forbidden by the program's settings.
func claudeRefusals(denials []claudeDenial, denied map[string]Permission) []Refusal {
	var all []Refusal
	for _, d := range denials {
		all = append(all, Refusal{Tool: cutText(d.Tool, maxQuote), What: strings.TrimSpace(mainArgument(d.Input)), Count: 1, Allow: denied[d.ID]})
	}
	return mergeRefusals(all)
}
