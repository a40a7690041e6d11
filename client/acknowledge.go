package client

import (
	"context"
	"errors"
	"slices"

	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// An Acknowledged is a message that has left the inbox of the agent as handled.
type Acknowledged struct {
	// ID is empty for a file that is not a message.
	ID schema.ID
	// Already reports whether it had left the inbox before: the caller may have missed the result of the first call.
	Already bool
}

// Acknowledge marks a message, or the file of that name, as handled. The error is a *RecalledError for a message that was
// taken back.
func (c *Client) Acknowledge(ctx context.Context, idOrName string) (Acknowledged, error) {
	h, err := c.findHeld(ctx, idOrName)
	if err == nil {
		err = h.acknowledge(c.w)
	}
	return Acknowledged{ID: h.id, Already: h.gone}, err
}

// Acknowledge marks the message as handled, without an answer.
func (r *Request) Acknowledge(ctx context.Context) (Acknowledged, error) {
	return r.client.Acknowledge(ctx, string(r.Message.ID))
}

// AcknowledgeAll marks the files, which are in inboxes of agents, as handled. The errors are in the order of the entries.
func (c *Client) AcknowledgeAll(ctx context.Context, entries []mailbox.Entry) []error {
	for _, e := range entries {
		if e.Message == nil {
			continue
		}
		if err := c.checkFence(ctx, e.Message); err != nil {
			return slices.Repeat([]error{err}, len(entries))
		}
	}
	return c.w.AcknowledgeAll(entries)
}

// held is the copy of a message in the agent's inbox.
type held struct {
	id    schema.ID
	gone  bool
	entry mailbox.Entry
}

// findHeld returns the agent's copy of a message, or the file that is named. Gone reports that the agent has handled it.
func (c *Client) findHeld(ctx context.Context, idOrName string) (held, error) {
	e, err := c.w.Pending(ctx, idOrName, c.agent)
	if gone, ok := errors.AsType[*mailbox.NotPendingError](err); ok {
		if recalled := c.checkRecalled(gone.Elsewhere); recalled != nil {
			return held{}, recalled
		}
		if c.hasHandled(gone) {
			return held{id: gone.ID, gone: true}, nil
		}
	}
	h := held{entry: e}
	if err == nil && e.Message != nil {
		h.id = e.Message.ID
		err = c.checkFence(ctx, e.Message)
	}
	return h, err
}

// hasHandled reports whether the agent had a message that has left its inbox, and did not give it up.
func (c *Client) hasHandled(gone *mailbox.NotPendingError) bool {
	isDeadLetter := func(e mailbox.Entry) bool { return e.Agent == c.agent && e.Box == mailbox.DeadLetters }
	isForAgent := func(e mailbox.Entry) bool { return e.Message != nil && e.Message.IsFor(c.agent) }
	return slices.ContainsFunc(gone.Elsewhere, isForAgent) && !slices.ContainsFunc(gone.Elsewhere, isDeadLetter)
}

// acknowledge takes the message out of the inbox.
func (h *held) acknowledge(w *mailbox.Workspace) error {
	if h.gone {
		return nil
	}
	err := w.Acknowledge(h.entry)
	if mailbox.IsGone(err) {
		h.gone, err = true, nil
	}
	return err
}
