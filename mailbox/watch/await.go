package watch

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/validate"
)

// awaitPoll is how often AwaitAcknowledged and AwaitReply look without a notification: network file systems send none.
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

// AwaitAcknowledged waits until every recipient of a sent message has taken it out of its inbox. It returns a
// *DeadLetterError if the message became a dead letter.
func AwaitAcknowledged(ctx context.Context, w *mailbox.Workspace, r *mailbox.Receipt) error {
	return await(ctx, recipientFolders(w, r, mailbox.Inbox, mailbox.DeadLetters), func() (bool, error) {
		return isAcknowledged(w, r)
	})
}

func isAcknowledged(w *mailbox.Workspace, r *mailbox.Receipt) (bool, error) {
	done := true
	for i, path := range r.Inboxes {
		_, err := os.Lstat(path)
		switch {
		case err == nil:
			done = false
		case !errors.Is(err, fs.ErrNotExist):
			return false, err
		default:
			if err := checkDeadLetter(w, r.Message.ID, r.Message.To[i], filepath.Base(path)); err != nil {
				return false, err
			}
		}
	}
	return done, nil
}

// checkDeadLetter returns a *DeadLetterError if the agent's dead letters include the message.
func checkDeadLetter(w *mailbox.Workspace, id schema.ID, agent schema.AgentName, name string) error {
	reason, err := w.Reason(mailbox.Entry{Agent: agent, Box: mailbox.DeadLetters, Name: name})
	switch {
	case err == nil && reason.ID == id:
		return &DeadLetterError{Agent: agent, Reason: reason}
	case errors.Is(err, fs.ErrNotExist):
		return nil
	}
	return err
}

// AwaitReply waits until a message that answers the sent one is in its sender's inbox or in the outbox of a recipient,
// where it stays if the sender's runner takes it out of the inbox first. It returns a *DeadLetterError if the message
// became a dead letter.
func AwaitReply(ctx context.Context, w *mailbox.Workspace, r *mailbox.Receipt) (reply mailbox.Entry, err error) {
	boxes := []*replyBox{newReplyBox(r.Message.From, mailbox.Inbox)}
	folders := []string{w.BoxPath(r.Message.From, mailbox.Inbox)}
	for _, to := range r.Message.To {
		boxes = append(boxes, newReplyBox(to, mailbox.Outbox))
	}
	folders = append(folders, recipientFolders(w, r, mailbox.Outbox, mailbox.DeadLetters)...)
	err = await(ctx, folders, func() (bool, error) {
		for _, b := range boxes {
			found, err := b.find(w, r.Message)
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
	agent schema.AgentName
	name  mailbox.Box
	// read are the files that are not the answer.
	read map[string]bool
}

func newReplyBox(agent schema.AgentName, name mailbox.Box) *replyBox {
	return &replyBox{agent: agent, name: name, read: make(map[string]bool)}
}

// find looks for an answer among the files that were not read before. It does not read files that
// are older than the message by their name.
func (b *replyBox) find(w *mailbox.Workspace, m *schema.Message) (reply mailbox.Entry, err error) {
	dir, err := durable.OpenDir(w.Root(), w.Dir(), mailbox.BoxName(b.agent, b.name))
	if errors.Is(err, fs.ErrNotExist) {
		return reply, nil
	}
	if err != nil {
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
		data, modified, err := dir.AppendFile(nil, name, schema.MaxFileSize)
		e := mailbox.Entry{Agent: b.agent, Box: b.name, Name: name, Path: dir.Path(name), Modified: modified}
		if err == nil {
			e.Message, err = validate.Read(data)
		}
		if time.Since(modified) < Quiet && (err != nil || !isCopied(w, e, e.Message, data)) {
			continue // another program may still be writing the file: look again
		}
		if err == nil && e.Message.ParentID == m.ID && e.Message.IsFor(m.From) {
			return e, nil
		}
		b.read[name] = true
	}
	return reply, nil
}

func recipientFolders(w *mailbox.Workspace, r *mailbox.Receipt, boxes ...mailbox.Box) []string {
	var folders []string
	for _, to := range r.Message.To {
		for _, box := range boxes {
			folders = append(folders, w.BoxPath(to, box))
		}
	}
	return folders
}

// await calls check at once, when something changes in the folders, and every awaitPoll, until it is done, fails, or the
// context ends.
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
