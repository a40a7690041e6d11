package watch

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// DeadLetterError says that a message that was waited for became a dead letter.
type DeadLetterError struct {
	Agent  schema.AgentName
	Reason mailbox.DeadLetterReason
}

// Error names the agent and the reason.
func (e *DeadLetterError) Error() string {
	return fmt.Sprintf("%s could not handle message %s: %s", e.Agent, e.Reason.ID, e.Reason.Reason)
}

// AwaitAcknowledged waits until every recipient of a sent message has taken it out of its inbox. It
// returns a *DeadLetterError if the message became a dead letter.
func AwaitAcknowledged(ctx context.Context, w *mailbox.Workspace, r *mailbox.Receipt) error {
	var folders []string
	for _, to := range r.Message.To {
		folders = append(folders, w.BoxPath(to, mailbox.Inbox), w.BoxPath(to, mailbox.DeadLetters))
	}
	return await(ctx, folders, func() (bool, error) { return isAcknowledged(w, r) })
}

func isAcknowledged(w *mailbox.Workspace, r *mailbox.Receipt) (bool, error) {
	done := true
	for i, path := range r.Inboxes {
		_, err := os.Lstat(path)
		if err == nil {
			done = false
			continue
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return false, err
		}
		letter := mailbox.Entry{Agent: r.Message.To[i], Box: mailbox.DeadLetters, Name: filepath.Base(path)}
		switch reason, err := w.Reason(letter); {
		case err == nil && reason.ID == r.Message.ID:
			return false, &DeadLetterError{Agent: letter.Agent, Reason: reason}
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return false, err
		}
	}
	return done, nil
}

// AwaitReply waits until a message that answers the sent one is in its sender's inbox or in the
// outbox of a recipient, where it stays if the sender's runner takes it out of the inbox first. It
// returns a *DeadLetterError if the message became a dead letter.
func AwaitReply(ctx context.Context, w *mailbox.Workspace, r *mailbox.Receipt) (reply mailbox.Entry, err error) {
	boxes := []*box{newBox(Target{Workspace: w, Agent: r.Message.From}, &Options{})}
	folders := []string{boxes[0].path}
	for _, to := range r.Message.To {
		b := newBox(Target{Workspace: w, Agent: to, Box: mailbox.Outbox}, &Options{})
		boxes, folders = append(boxes, b), append(folders, b.path, w.BoxPath(to, mailbox.DeadLetters))
	}
	err = await(ctx, folders, func() (bool, error) {
		for _, b := range boxes {
			found, err := b.findReply(ctx, r.Message)
			if err != nil || found.Message != nil {
				reply = found
				return err == nil, err
			}
		}
		_, err := isAcknowledged(w, r)
		return false, err
	})
	return reply, err
}

// findReply looks for an answer among the files that have changed since it was called last. It does
// not read files that are older than the message by their name.
func (b *box) findReply(ctx context.Context, m *schema.Message) (mailbox.Entry, error) {
	since := m.CreatedAt.Time().Truncate(time.Minute)
	b.skip = func(name string) bool {
		parsed, err := schema.ParseFileName(name)
		return err == nil && parsed.At.Before(since)
	}
	for b.recheck = true; b.recheck || len(b.todo) > 0; {
		changes, err := b.look(ctx, time.Now(), true)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return mailbox.Entry{}, err
		}
		for _, c := range changes {
			b.apply(c)
			reply := c.entry.Message
			if c.kind == EventArrived && reply.ParentID == m.ID && reply.IsFor(m.From) {
				return c.entry, nil
			}
		}
	}
	return mailbox.Entry{}, nil
}

// await calls check at once, when something changes in the folders, and every second, because
// network file systems send no notifications. It ends when check is done or fails, or with the
// context.
func await(ctx context.Context, folders []string, check func() (bool, error)) (err error) {
	notifier, openErr := openNotifier()
	if openErr == nil { // otherwise the ticker has to do
		defer func() { err = errors.Join(err, notifier.close()) }()
		for _, folder := range folders {
			_ = notifier.add(folder)
		}
	}
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		if done, err := check(); done || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-notifier.events:
		case <-notifier.errors: // the next look finds what an overflow hid
		case <-ticker.C:
		}
	}
}
