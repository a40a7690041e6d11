package watch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// After returns a Watcher of the boxes where mail that follows a sent message arrives: the inbox of its sender and the outboxes
// of its recipients. It leaves out older files in these, and completes no deliveries.
func After(w *mailbox.Workspace, m *schema.Message) (*Watcher, error) {
	targets := []Target{{w, m.From, mailbox.Inbox}}
	for _, to := range m.To {
		if w.Knows(to) {
			targets = append(targets, Target{w, to, mailbox.Outbox})
		}
	}
	watcher, err := New(targets, nil)
	if err != nil {
		return nil, err
	}
	since := m.CreatedAt.Time().Truncate(time.Minute)
	for _, b := range watcher.boxes {
		b.recovers = false
		b.skip = func(name string) bool {
			parsed, err := schema.ParseFileName(name)
			return b.name != mailbox.Inbox && err == nil && parsed.At.Before(since)
		}
	}
	return watcher, nil
}

// Await calls check at once, when something changes in the folders, and every second, because
// network file systems send no notifications. It ends when check is done or fails, or with the
// context.
func Await(ctx context.Context, folders []string, check func() (bool, error)) (err error) {
	notifier, openErr := openNotifier()
	if openErr == nil { // otherwise the ticker suffices
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
			for len(notifier.events) > 0 {
				<-notifier.events
			}
		case <-notifier.errors: // the next look finds what an overflow hid
		case <-ticker.C:
		}
	}
}

// ErrTimeout reports that a wait timed out.
var ErrTimeout = fmt.Errorf("timed out waiting for a message: %w", context.DeadlineExceeded)

// PendingOptions says what AwaitPending waits for. The zero value waits for any message, without a
// limit, and returns all.
type PendingOptions struct {
	// Match selects messages. Nil selects all.
	Match func(*schema.Message) bool
	// Timeout ends the wait with ErrTimeout, but not the first look at what is already pending. 0 means
	// no limit.
	Timeout time.Duration
	// Most is how many messages are returned at most. 0 means all.
	Most int
	// Problem is called once for each file that is not a valid message and each folder that cannot be
	// read. Nil ignores them.
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

// wants reports whether the event is the arrival of a selected message.
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
