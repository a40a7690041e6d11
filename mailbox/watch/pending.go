package watch

import (
	"context"
	"errors"
	"fmt"
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
	// that cannot be read. Nil ignores it.
	Problem func(mailbox.Entry)
	// Idle is called once if nothing is pending, before the wait. Nil does nothing.
	Idle func()
}

// AwaitPending waits until a message is pending in an inbox, and returns what is pending in
// processing order, at least one message. A message is pending if its file is complete and valid,
// and it has not expired. AwaitPending acknowledges nothing. It fails if an inbox cannot be read at first.
func AwaitPending(ctx context.Context, targets []Target, options PendingOptions) (found []mailbox.Entry, err error) {
	watcher, err := New(targets, nil)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, watcher.Close()) }()
	waiting := ctx
	if options.Timeout > 0 {
		var cancel context.CancelFunc
		waiting, cancel = context.WithTimeoutCause(ctx, options.Timeout, ErrTimeout)
		defer cancel()
	}
	for first := true; ; first = false {
		for event, err := range watcher.Scan(ctx) {
			if err != nil {
				return nil, err
			}
			if options.wants(event) {
				found = append(found, event.Entry)
			}
		}
		if err := watcher.Unread(); err != nil && first {
			return nil, err
		}
		if len(found) > 0 {
			found = mailbox.InOrder(found)
			if options.Most > 0 {
				found = found[:min(options.Most, len(found))]
			}
			return found, nil
		}
		if first && options.Idle != nil {
			options.Idle()
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
