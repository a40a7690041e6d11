package project

import (
	"fmt"
	"slices"

	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// Recipients replaces schema.Everyone in a sender's list of recipients, unless an old agent has that name. It
// returns the recipients in parts, one for each message, because a message has a limited number. It returns an
// error if there are no other agents, or if the type has one recipient.
func Recipients(w *mailbox.Workspace, from schema.AgentName, t schema.Type, to []schema.AgentName) (parts [][]schema.AgentName, err error) {
	if !slices.Contains(to, schema.Everyone) || w.Knows(schema.Everyone) {
		return [][]schema.AgentName{to}, nil
	}
	if t.SingleRecipient() {
		return nil, fmt.Errorf("a %s has one recipient, not all agents", t)
	}
	agents, err := w.Agents()
	if err != nil {
		return nil, err
	}
	agents = slices.DeleteFunc(agents, func(a schema.AgentName) bool { return a == from || a == mailbox.Postmaster })
	if len(agents) == 0 {
		return nil, fmt.Errorf("workspace %s has no agent other than %s", w.Dir(), from)
	}
	return slices.Collect(slices.Chunk(agents, schema.MaxRecipients)), nil
}
