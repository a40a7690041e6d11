package gitmail

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/replica"
	"github.com/oacp-go/oacp/schema"
)

// leftOutName is the file that lists the agents that the last sync left out. There is none if it left out none.
const leftOutName = stateFolder + "/left-out.json"

// A LeftOut is an agent of other machines that a sync leaves out, because its name differs from that of an agent here only in
// case, and many file systems have one folder for both. It is an error: syncs fail until one of the two is renamed.
type LeftOut struct {
	Agent schema.AgentName `json:"agent"`
	// Here is the agent here.
	Here schema.AgentName `json:"here"`
	// Pending are the names of the files of its pending messages.
	Pending []string `json:"pending"`
}

func (l *LeftOut) Error() string {
	return fmt.Sprintf("agents/%s is left out here: its name differs from that of %s only in case", l.Agent, l.Here)
}

// Explain says how to rename one of the agents.
func (l *LeftOut) Explain() (code, hint string) {
	return "same_name", fmt.Sprintf("rename one of them: oacp remove-agent %s, and oacp add-agent NAME, on its machine; or oacp remove-agent %s here", l.Agent, l.Here)
}

// ReadLeftOut returns the agents that the last sync left out.
func ReadLeftOut(w *mailbox.Workspace) (all []LeftOut, err error) {
	data, err := durable.ReadFile(w.Root(), w.Dir(), leftOutName, mostCache)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &all)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", leftOutName, err)
	}
	return all, nil
}

// leaveOut notes that an agent is left out.
func leaveOut(e *exchange, agent, here schema.AgentName) {
	pending := make(map[string]bool)
	for _, v := range e.remote() {
		for name, at := range v.folder(schema.BoxPath(agent, mailbox.Inbox)) {
			if c := (replica.Copy{Agent: agent, Name: name}); at.IsFile() && c.Check() == nil && v.look(c).Place() == replica.Pending {
				pending[name] = true
			}
		}
	}
	e.leftOut = append(e.leftOut, LeftOut{agent, here, slices.Sorted(maps.Keys(pending))})
	e.blocked(&e.leftOut[len(e.leftOut)-1])
}

// noteLeftOut notes for the commands that show mail which agents are left out.
func noteLeftOut(e *exchange) error {
	if len(e.leftOut) == 0 {
		if err := e.w.Root().Remove(leftOutName); !mailbox.IsGone(err) {
			return err
		}
		return nil
	}
	data, err := json.Marshal(e.leftOut)
	if err != nil {
		return err
	}
	return durable.ReplaceFile(e.w.Root(), e.w.Dir(), leftOutName, data, 0o644)
}
