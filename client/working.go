package client

import (
	"cmp"
	"context"
	"time"

	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn/track"
)

// A StatusFileError says that what the agent works on is recorded, but not in its status file, which other machines read.
type StatusFileError struct{ Err error }

func (e *StatusFileError) Error() string {
	return "the journal has it, but not the file: " + e.Err.Error()
}

func (e *StatusFileError) Unwrap() error { return e.Err }

// Working tells the sender of a pending message that the agent works on it, and how far it is: a line of at most 200
// characters, or nothing. From then on the sender cannot recall the message. The error matches track.ErrWorkingText for
// another text; a *StatusFileError comes with the message.
func (c *Client) Working(ctx context.Context, id, text string) (m *schema.Message, err error) {
	err = track.Exclusively(ctx, c.w, c.agent, func() error {
		e, err := c.Pending(ctx, id)
		if err = cmp.Or(err, e.Err); err != nil {
			return err
		}
		m = e.Message
		return track.NoteWorking(c.w, c.agent, track.KeyOf(m), text, c.holder())
	})
	if err != nil {
		return m, err
	}
	return m, c.setStatus(project.Busy, track.Task(m, text))
}

// Finished records that the agent works on none of its messages any more. A *StatusFileError says that it is recorded.
func (c *Client) Finished() error {
	if err := track.NoteFinished(c.w, c.agent); err != nil {
		return err
	}
	return c.setStatus(project.Available, "")
}

func (c *Client) setStatus(status, task string) error {
	if err := project.SetStatus(c.w, c.agent, status, task, time.Now()); err != nil {
		return &StatusFileError{err}
	}
	return nil
}
