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
	"github.com/oacp-go/oacp/validate"
)

// awaitPoll is how often AwaitAcknowledged and AwaitReply look without a notification: network file
// systems send none.
const awaitPoll = time.Second

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
	boxes := []*replyBox{newReplyBox(w, r.Message.From, mailbox.Inbox)}
	folders := []string{boxes[0].path}
	for _, to := range r.Message.To {
		b := newReplyBox(w, to, mailbox.Outbox)
		boxes, folders = append(boxes, b), append(folders, b.path, w.BoxPath(to, mailbox.DeadLetters))
	}
	err = await(ctx, folders, func() (bool, error) {
		for _, b := range boxes {
			found, err := b.find(r.Message)
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

// replyBox is a box in which an answer may arrive.
type replyBox struct {
	*box
	// read are the files that are not the answer.
	read map[string]bool
}

func newReplyBox(w *mailbox.Workspace, agent schema.AgentName, name mailbox.Box) *replyBox {
	b := newBox(Target{Workspace: w, Agent: agent, Box: name}, &Options{})
	return &replyBox{box: b, read: make(map[string]bool)}
}

// find looks for an answer among the files that were not read before. It does not read files that
// are older than the message by their name.
func (b *replyBox) find(m *schema.Message) (reply mailbox.Entry, err error) {
	dir, err := b.openDir()
	if err != nil || dir == nil {
		return reply, err
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	names, err := dir.Names()
	if err != nil {
		return reply, err
	}
	since := m.CreatedAt.Time().Truncate(time.Minute)
	for _, name := range names {
		parsed, parseErr := schema.ParseFileName(name)
		if b.read[name] || !schema.IsMessageFile(name) || parseErr == nil && parsed.At.Before(since) {
			continue
		}
		e := b.entry(name)
		data, modified, err := dir.AppendFile(nil, name, schema.MaxFileSize)
		if err == nil {
			e.Message, err = validate.Read(data)
		}
		e.Modified = modified
		switch {
		case time.Since(modified) < Quiet && (err != nil || !isCopied(b.workspace, e, data)):
			// Another program may still be writing the file: look again.
		case err == nil && e.Message.ParentID == m.ID && e.Message.IsFor(m.From):
			return e, nil
		default:
			b.read[name] = true
		}
	}
	return reply, nil
}

// await calls check at once, when something changes in the folders, and every awaitPoll, until it
// is done, fails, or the context ends.
func await(ctx context.Context, folders []string, check func() (bool, error)) (err error) {
	notifier, openErr := openNotifier()
	if openErr == nil { // otherwise only polling remains, as for folders that cannot be watched
		defer func() { err = errors.Join(err, notifier.close()) }()
		for _, folder := range folders {
			_ = notifier.add(folder)
		}
	}
	ticker := time.NewTicker(awaitPoll)
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
