package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn/track"
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
	if m := h.entry.Message; err == nil && m != nil {
		err = c.checkFence(ctx, m)
	}
	if err == nil {
		err = h.acknowledge(ctx, c.w)
	}
	return Acknowledged{ID: h.id, Already: h.gone}, err
}

// Acknowledge marks the message as handled, without an answer.
func (r *Request) Acknowledge(ctx context.Context) (Acknowledged, error) {
	return r.client.Acknowledge(ctx, string(r.Message.ID))
}

// AcknowledgeAll marks files in the inboxes of agents as handled. The errors are in the order of the entries. Failed says why
// nothing was done.
func AcknowledgeAll(ctx context.Context, w *mailbox.Workspace, caller Caller, entries []mailbox.Entry) (errs []error, failed error) {
	messages := make(map[schema.AgentName][]*schema.Message)
	for _, e := range entries {
		all := messages[e.Agent]
		if e.Message != nil {
			all = append(all, e.Message)
		}
		messages[e.Agent] = all
	}
	for agent, all := range messages {
		c, err := For(w, agent, caller)
		if err == nil {
			err = c.checkFence(ctx, all...)
		}
		if err != nil {
			return nil, err
		}
	}
	errs = w.AcknowledgeAll(entries)
	for i, e := range entries {
		if mailbox.IsGone(errs[i]) && e.Message != nil {
			errs[i] = cmp.Or(track.FindRecall(ctx, w, e.Agent, e.Message.ID), errs[i])
		}
	}
	return errs, nil
}

// Pending returns the file in the agent's inbox of that id or name. The error is a *RecalledError if the sender took the
// message back, and matches *mailbox.HeldError for one that the agent does not read.
func (c *Client) Pending(ctx context.Context, idOrName string) (mailbox.Entry, error) {
	e, err := c.w.Pending(ctx, idOrName, c.agent)
	if gone, ok := errors.AsType[*mailbox.NotPendingError](err); ok {
		err = cmp.Or(track.CheckRecalled(c.w, c.agent, gone.Elsewhere), c.checkHeld(ctx, gone.ID), err)
		if isSender := slices.ContainsFunc(gone.Elsewhere, func(e mailbox.Entry) bool {
			return e.Message != nil && e.Message.From == c.agent && !e.Message.IsFor(c.agent)
		}); isSender {
			err = failure.WithHint(err, fmt.Sprintf("%s sent it: oacp status %s shows how far it got, oacp recall %[2]s takes it back", c.agent, gone.ID.Short()))
		}
	}
	return e, err
}

// checkHeld returns a *mailbox.HeldError if the agent has the message in its inbox and does not read it.
func (c *Client) checkHeld(ctx context.Context, id schema.ID) error {
	files, err := mailbox.HeldCopies(ctx, c.w, id, c.agent)
	if err == nil && len(files) > 0 {
		err = files[0].Err
	}
	return err
}

// held is the copy of a message in the agent's inbox.
type held struct {
	id    schema.ID
	gone  bool
	entry mailbox.Entry
}

// findHeld returns the agent's copy of a message, or the file that is named. Gone reports that the agent has handled it.
func (c *Client) findHeld(ctx context.Context, idOrName string) (held, error) {
	e, err := c.Pending(ctx, idOrName)
	if gone, ok := errors.AsType[*mailbox.NotPendingError](err); ok && c.hasHandled(gone) {
		return held{id: gone.ID, gone: true}, nil
	}
	h := held{entry: e}
	if err == nil && e.Message != nil {
		h.id = e.Message.ID
	}
	return h, err
}

// hasHandled reports whether the agent had a message that has left its inbox, and did not give it up.
func (c *Client) hasHandled(gone *mailbox.NotPendingError) bool {
	isForAgent := func(e mailbox.Entry) bool { return e.Message != nil && e.Message.IsFor(c.agent) }
	return slices.ContainsFunc(gone.Elsewhere, isForAgent) && !c.gaveUp(gone)
}

// gaveUp reports whether the message is a dead letter of the agent.
func (c *Client) gaveUp(gone *mailbox.NotPendingError) bool {
	return slices.ContainsFunc(gone.Elsewhere, func(e mailbox.Entry) bool { return e.Agent == c.agent && e.Box == mailbox.DeadLetters })
}

// acknowledge takes the message out of the inbox.
func (h *held) acknowledge(ctx context.Context, w *mailbox.Workspace) error {
	if h.gone {
		return nil
	}
	err := w.Acknowledge(h.entry)
	if mailbox.IsGone(err) { // since it was found
		err = track.FindRecall(ctx, w, h.entry.Agent, h.id)
		h.gone = err == nil
	}
	return err
}
