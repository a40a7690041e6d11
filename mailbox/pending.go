package mailbox

import (
	"context"
	"fmt"
	"strings"

	"github.com/oacp-go/oacp/schema"
)

// NotPendingError says that a message is not, or no longer, in an inbox.
type NotPendingError struct {
	ID schema.ID
	// Agent is whose inbox was looked into; empty means all of them.
	Agent schema.AgentName
	// Elsewhere are the files of the message that there are.
	Elsewhere []Entry
}

// Error names the message and where it is instead.
func (e *NotPendingError) Error() string {
	inbox := "any inbox"
	if e.Agent != "" {
		inbox = "the inbox of " + string(e.Agent)
	}
	places := make([]string, len(e.Elsewhere))
	for i, entry := range e.Elsewhere {
		places[i] = fmt.Sprintf("the %s of %s", entry.Box, entry.Agent)
	}
	return fmt.Sprintf("message %s is not in %s; it is in %s", e.ID, inbox, strings.Join(places, ", "))
}

// SeveralInboxesError says that a message waits in several inboxes, so whose
// is meant has to be said.
type SeveralInboxesError struct {
	ID     schema.ID
	Agents []schema.AgentName
}

// Error names the message and the agents.
func (e *SeveralInboxesError) Error() string {
	names := make([]string, len(e.Agents))
	for i, name := range e.Agents {
		names[i] = string(name)
	}
	return fmt.Sprintf("message %s is in the inboxes of %s", e.ID, strings.Join(names, ", "))
}

// InboxEntry returns the copy of a message that waits in the agent's inbox,
// or, for an empty agent, in the only inbox that has one. The id may be
// shortened as for Find. Besides the errors of Find it returns a
// *NotPendingError or a *SeveralInboxesError.
func (w *Workspace) InboxEntry(ctx context.Context, id string, agent schema.AgentName) (Entry, error) {
	if agent != "" {
		if err := w.CheckAgent(agent); err != nil {
			return Entry{}, err
		}
	}
	found, err := w.Find(ctx, id)
	if err != nil {
		return Entry{}, err
	}
	var pending []Entry
	for _, e := range found {
		if e.Box == Inbox && (agent == "" || e.Agent == agent) {
			pending = append(pending, e)
		}
	}
	switch len(pending) {
	case 0:
		return Entry{}, &NotPendingError{ID: found[0].Message.ID, Agent: agent, Elsewhere: found}
	case 1:
		return pending[0], nil
	}
	several := &SeveralInboxesError{ID: pending[0].Message.ID}
	for _, e := range pending {
		several.Agents = append(several.Agents, e.Agent)
	}
	return Entry{}, several
}
