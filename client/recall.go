package client

import (
	"context"
	"errors"
	"fmt"

	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn/track"
)

// A Recalled says what became of a recall.
type Recalled struct {
	Message *schema.Message
	// Requested reports whether other machines may have the message: if a recipient was shown it there, it comes back.
	Requested bool
	// Progress says for each recipient how far the message is now.
	Progress []track.Progress
}

// A NotSenderError says that an agent would take back the message of another.
type NotSenderError struct {
	Agent   schema.AgentName
	Message *schema.Message
}

func (e *NotSenderError) Error() string {
	return fmt.Sprintf("message %s is from %s, and only its sender can take it back", e.Message.ID, e.Message.From)
}

// Recall takes a message back from those of its recipients that have not been shown it: it becomes a dead letter of theirs.
// It tries all recipients; an error comes with what it did for the others.
func (c *Client) Recall(ctx context.Context, id string) (Recalled, error) {
	found, err := c.w.Find(ctx, id)
	unreadable, err := mailbox.SplitUnreadable(err)
	if err == nil {
		err = found[0].Err
	}
	if err != nil {
		return Recalled{}, err
	}
	m := found[0].Message
	if m.From != c.agent {
		return Recalled{}, &NotSenderError{c.agent, m}
	}
	progress, err := track.Recall(ctx, c.w, m)
	if err == nil && unreadable != nil {
		err = unreadable
	}
	return Recalled{Message: m, Requested: mailbox.MayBeElsewhere(c.w, m), Progress: progress}, err
}

// Restore returns messages to the inbox of each recipient that acknowledged them or gave them up, or only to the inbox of one
// agent. If an id is unknown, it does nothing.
func Restore(ctx context.Context, w *mailbox.Workspace, only schema.AgentName, ids ...string) (all []track.Restored, failed error) {
	if only != "" {
		if err := w.CheckAgent(only); err != nil {
			return nil, err
		}
	}
	whole := make([]string, len(ids))
	for i, id := range ids {
		found, err := mailbox.FindToRestore(ctx, w, id)
		if err != nil {
			return nil, err
		}
		whole[i] = string(found[0].Message.ID)
	}
	for _, id := range whole {
		restored, err := track.Restore(ctx, w, id, only)
		all, failed = append(all, restored...), errors.Join(failed, err)
	}
	return all, failed
}
