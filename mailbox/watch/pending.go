package watch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// ErrTimeout reports that a wait ended because its time was over.
var ErrTimeout = fmt.Errorf("waited in vain: %w", context.DeadlineExceeded)

// PendingOptions say what AwaitPending waits for. The zero value waits for any message, without a
// limit, and returns all.
type PendingOptions struct {
	// Match tells which messages are waited for. Nil means all.
	Match func(*schema.Message) bool
	// Timeout ends the wait with ErrTimeout. It does not cut short the first look at what is
	// pending already. 0 means no limit.
	Timeout time.Duration
	// Most is how many messages are returned at most. 0 means all.
	Most int
	// Problem gets what else is in the inboxes, once: files that are not valid messages, and folders
	// that can no longer be read. Nil ignores it.
	Problem func(mailbox.Entry)
	// Idle is called once if nothing is pending, before the wait. Nil does nothing.
	Idle func()
}

// AwaitPending waits until a message is pending in an inbox, and returns what is pending in
// processing order, at least one message. A message is pending if its file is complete and valid,
// and it has not expired. Each was still in its inbox, as it is returned, a moment ago. AwaitPending
// acknowledges nothing.
func AwaitPending(ctx context.Context, targets []Target, options PendingOptions) (found []mailbox.Entry, err error) {
	watcher, err := New(targets, nil)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, watcher.Close()) }()
	for _, b := range watcher.boxes {
		if err := b.check(); err != nil {
			return nil, err
		}
	}
	waiting := ctx
	if options.Timeout > 0 {
		var cancel context.CancelFunc
		waiting, cancel = context.WithTimeoutCause(ctx, options.Timeout, ErrTimeout)
		defer cancel()
	}
	for {
		var pending []mailbox.Entry
		for event, err := range watcher.Scan(ctx) {
			if err != nil {
				return nil, err
			}
			if options.wants(event) {
				pending = append(pending, event.Entry)
			}
		}
		if found = watcher.take(pending, options.Most); len(found) > 0 {
			return found, nil
		}
		if options.Idle != nil {
			options.Idle()
			options.Idle = nil
		}
		if err := watcher.awaitArrival(waiting, options); err != nil {
			return nil, err
		}
	}
}

// wants reports whether the event is the arrival of a message that is waited for.
func (o PendingOptions) wants(e Event) bool {
	switch {
	case e.Kind == EventError && o.Problem != nil:
		o.Problem(e.Entry)
		return false
	case e.Kind != EventArrived:
		return false
	}
	return !e.Message.ExpiredAt(time.Now()) && (o.Match == nil || o.Match(e.Message))
}

// awaitArrival waits until a wanted message arrives. The next Scan also has it.
func (w *Watcher) awaitArrival(ctx context.Context, options PendingOptions) error {
	for event, err := range w.Events(ctx) {
		if err != nil {
			return err
		}
		if options.wants(event) {
			return nil // the event does not count as delivered
		}
	}
	return context.Cause(ctx)
}

// take returns the first of the messages, in processing order, as they are in their files now. It
// leaves out those that are gone. Those that have changed count as not reported: they may still be
// being written.
func (w *Watcher) take(pending []mailbox.Entry, most int) (taken []mailbox.Entry) {
	for _, e := range mailbox.InOrder(pending) {
		at := slices.IndexFunc(w.boxes, func(b *box) bool { return b.agent == e.Agent })
		if w.boxes[at].isThere(e.Name) {
			taken = append(taken, e)
		}
		if len(taken) == most && most > 0 {
			break
		}
	}
	return taken
}

// isThere reports whether a reported message is in its file as it was reported. If the file has
// changed, the message counts as not reported from now on.
func (b *box) isThere(name string) bool {
	info, err := b.workspace.Root().Lstat(schema.BoxPath(b.agent, b.name) + "/" + name)
	if err == nil && versionOf(info).equal(b.reported.Messages[name].Version) {
		return true
	}
	delete(b.reported.Messages, name)
	return false
}

// check returns an error if the box cannot be listed.
func (b *box) check() error {
	dir, err := b.openDir()
	if dir != nil {
		err = errors.Join(err, dir.Close())
	}
	return err
}
