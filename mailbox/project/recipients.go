package project

import (
	"fmt"
	"slices"

	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// everyone is a recipient that stands for all other agents of the workspace, unless an agent has that name.
const everyone schema.AgentName = "all"

// Recipients replaces everyone in a sender's list of recipients. It returns an error if there are no other
// agents, or more than a message of the type may have.
func Recipients(w *mailbox.Workspace, from schema.AgentName, t schema.Type, to []schema.AgentName) ([]schema.AgentName, error) {
	if !slices.Contains(to, everyone) || w.Knows(everyone) {
		return to, nil
	}
	if t.SingleRecipient() {
		return nil, fmt.Errorf("a %s has one recipient, not all agents", t)
	}
	agents, err := w.Agents()
	if err != nil {
		return nil, err
	}
	agents = slices.DeleteFunc(agents, func(a schema.AgentName) bool { return a == from || a == mailbox.Postmaster })
	switch n := len(agents); {
	case n == 0:
		return nil, fmt.Errorf("workspace %s has no agent other than %s", w.Dir(), from)
	case n > schema.MaxRecipients:
		return nil, fmt.Errorf("%s are %d agents, but a message has at most %d recipients: send several messages",
			everyone, n, schema.MaxRecipients)
	}
	return agents, nil
}
