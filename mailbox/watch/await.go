package watch

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// awaitPoll is how often a waiting command looks by itself: network file
// systems report no changes.
const awaitPoll = time.Second

// DeadLetterError says that a message that was waited for became a dead
// letter.
type DeadLetterError struct {
	Agent  schema.AgentName
	Reason mailbox.DeadLetterReason
}

// Error names the agent and the reason.
func (e *DeadLetterError) Error() string {
	return fmt.Sprintf("%s could not handle message %s: %s", e.Agent, e.Reason.ID, e.Reason.Reason)
}

// AwaitAcknowledged waits until every recipient of a sent message has taken
// it out of its inbox. It returns a *DeadLetterError when one gave it up.
func AwaitAcknowledged(ctx context.Context, w *mailbox.Workspace, r *mailbox.Receipt) error {
	return await(ctx, recipientFolders(w, r, mailbox.Inbox, mailbox.DeadLetters), func() (bool, error) {
		return acknowledged(w, r)
	})
}

func acknowledged(w *mailbox.Workspace, r *mailbox.Receipt) (bool, error) {
	done := true
	for i, path := range r.Inboxes {
		_, err := os.Lstat(path)
		switch {
		case err == nil:
			done = false
		case !errors.Is(err, fs.ErrNotExist):
			return false, err
		default:
			if err := deadLetterOf(w, r.Message, r.Message.To[i], filepath.Base(path)); err != nil {
				return false, err
			}
		}
	}
	return done, nil
}

// deadLetterOf returns a *DeadLetterError if the agent gave the message up.
func deadLetterOf(w *mailbox.Workspace, m *schema.Message, agent schema.AgentName, name string) error {
	reason, err := w.Reason(mailbox.Entry{Agent: agent, Box: mailbox.DeadLetters, Name: name})
	if err == nil && reason.ID == m.ID {
		return &DeadLetterError{Agent: agent, Reason: reason}
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// AwaitReply waits until a message that answers the sent one is in its
// sender's inbox, or in the outbox of a recipient, where it stays when the
// sender's own runner is quicker than we are. It returns a *DeadLetterError
// when a recipient gave the message up.
func AwaitReply(ctx context.Context, w *mailbox.Workspace, r *mailbox.Receipt) (reply mailbox.Entry, err error) {
	sources := []mailbox.Entry{{Agent: r.Message.From, Box: mailbox.Inbox}}
	for _, to := range r.Message.To {
		sources = append(sources, mailbox.Entry{Agent: to, Box: mailbox.Outbox})
	}
	folders := append(recipientFolders(w, r, mailbox.Outbox, mailbox.DeadLetters), w.BoxPath(r.Message.From, mailbox.Inbox))
	seen := make(map[string]bool)
	err = await(ctx, folders, func() (bool, error) {
		for _, source := range sources {
			found, err := findReply(ctx, w, r.Message, source, seen)
			if err != nil || found.Message != nil {
				reply = found
				return err == nil, err
			}
		}
		_, err := acknowledged(w, r)
		return false, err
	})
	return reply, err
}

// findReply looks for an answer among the files of a folder that were not
// seen before. A file older than the message by its name is none.
func findReply(ctx context.Context, w *mailbox.Workspace, m *schema.Message, in mailbox.Entry, seen map[string]bool) (mailbox.Entry, error) {
	since := m.CreatedAt.Time().Truncate(time.Minute)
	entries, err := load(ctx, w, in.Agent, in.Box, func(name string) bool {
		key := string(in.Agent) + "/" + string(in.Box) + "/" + name
		if seen[key] || !schema.IsMessageFile(name) {
			return false
		}
		seen[key] = true
		parsed, err := schema.ParseFileName(name)
		return err != nil || !parsed.At.Before(since)
	})
	for _, e := range entries {
		if e.Message != nil && e.Message.ParentID == m.ID && e.Message.IsFor(m.From) {
			return e, nil
		}
		if e.Err != nil {
			// Another tool may still be writing it: look again.
			delete(seen, string(in.Agent)+"/"+string(in.Box)+"/"+e.Name)
		}
	}
	return mailbox.Entry{}, err
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

// await calls check at once, whenever something changes in the folders, and
// every awaitPoll, until it is done, fails, or the context ends.
func await(ctx context.Context, folders []string, check func() (bool, error)) (err error) {
	// Without a watcher, or for folders it cannot watch, polling remains.
	var events <-chan fsnotify.Event
	var failures <-chan error
	if watcher, watchErr := fsnotify.NewWatcher(); watchErr == nil {
		defer func() { err = errors.Join(err, watcher.Close()) }()
		for _, folder := range folders {
			_ = watcher.Add(folder)
		}
		events, failures = watcher.Events, watcher.Errors
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
		case <-events:
		case <-failures: // an overflow, for one: the next look finds what it hid
		case <-ticker.C:
		}
	}
}
