package conversation

import (
	"context"
	"errors"
	"slices"

	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// A Copy is an agent's copy of a message that the agent has handled.
type Copy struct {
	// ID is empty for a file that is not a message.
	ID schema.ID
	// Gone reports whether the message has left the inbox already. Acknowledging it again is not an error:
	// the caller may have missed the result of the first call.
	Gone bool

	entry mailbox.Entry
}

// FindCopy returns the agent's copy of a message that w.FindNamed finds. If the message has left the inbox, the
// copy is gone. For a dead letter, FindCopy returns an error instead, unless the sender took the message back.
// Errors are those of w.Pending.
func FindCopy(ctx context.Context, w *mailbox.Workspace, idOrName string, agent schema.AgentName) (Copy, error) {
	e, err := w.Pending(ctx, idOrName, agent)
	if gone, ok := errors.AsType[*mailbox.NotPendingError](err); ok && acknowledgedBy(w, agent, gone) {
		return Copy{ID: gone.ID, Gone: true}, nil
	}
	c := Copy{entry: e}
	if e.Message != nil {
		c.ID = e.Message.ID
	}
	return c, err
}

// acknowledgedBy reports whether a message that is not in the agent's inbox was for the agent and is
// not among its dead letters, except as one that its sender took back.
func acknowledgedBy(w *mailbox.Workspace, agent schema.AgentName, gone *mailbox.NotPendingError) bool {
	isDeadLetter := func(e mailbox.Entry) bool {
		return e.Agent == agent && e.Box == mailbox.DeadLetters && mailbox.RecalledBy(w, e) == ""
	}
	isForAgent := func(e mailbox.Entry) bool { return e.Message != nil && e.Message.IsFor(agent) }
	return slices.ContainsFunc(gone.Elsewhere, isForAgent) && !slices.ContainsFunc(gone.Elsewhere, isDeadLetter)
}

// Acknowledge moves the copy from the inbox to the archive.
func (c *Copy) Acknowledge(w *mailbox.Workspace) error {
	if c.Gone {
		return nil
	}
	err := w.Acknowledge(c.entry)
	if mailbox.IsGone(err) {
		c.Gone, err = true, nil
	}
	return err
}
