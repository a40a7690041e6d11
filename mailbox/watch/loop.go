package watch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/oacp-go/oacp/mailbox"
)

const (
	// tickEvery is how often a Watcher looks by itself whether an inbox has
	// changed: network file systems report nothing that other machines do.
	tickEvery = 2 * time.Second
	// pollEvery is the same where the system cannot notify of changes.
	pollEvery = 250 * time.Millisecond
	// scanPatience is how long Scan waits for files to stand still.
	scanPatience = stillBad + 200*time.Millisecond
	// recoverEvery is how often deliveries that stay incomplete are tried.
	recoverEvery = 10 * time.Second
	// drainMost is how many notifications are taken before their files are
	// looked at.
	drainMost = 1024
)

// wait waits until there may be something to do: a notification, a file that
// has to be looked at again, a cursor to be saved, the next tick.
func (w *Watcher) wait(ctx context.Context) {
	next := w.tickAt
	for _, at := range []time.Time{w.nextLook(true), w.nextSave()} {
		if !at.IsZero() && at.Before(next) {
			next = at
		}
	}
	timer := time.NewTimer(time.Until(next))
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case result := <-w.saved:
		w.saveDone(result)
	case err := <-w.notify.failures():
		w.lost(err)
	case event, ok := <-w.notify.changes():
		if !ok {
			w.lost(fsnotify.ErrClosed)
			return
		}
		w.take(event)
		w.drain()
	}
}

// drain takes the notifications that are there already.
func (w *Watcher) drain() {
	for range drainMost {
		select {
		case event, ok := <-w.notify.changes():
			if !ok {
				w.lost(fsnotify.ErrClosed)
				return
			}
			w.take(event)
		default:
			return
		}
	}
}

func (w *Watcher) take(event fsnotify.Event) {
	for _, t := range w.notify.take(event) {
		t.rescan = rescanFiles
		w.attachTo(t)
	}
}

// lost makes good for lost notifications: everything is looked at, and after
// anything but an overflow a new notifier is opened at the next tick.
func (w *Watcher) lost(err error) {
	for _, t := range w.targets {
		t.rescan = rescanFiles
		if !errors.Is(err, fsnotify.ErrEventOverflow) {
			t.attached = false
		}
	}
	if errors.Is(err, fsnotify.ErrEventOverflow) {
		return
	}
	if closeErr := w.notify.close(); closeErr != nil {
		w.warn(w.targets[0], closeErr)
	}
	w.tickAt = time.Now().Add(w.tickEvery())
}

func (w *Watcher) attach() {
	for _, t := range w.targets {
		w.attachTo(t)
	}
}

// attachTo asks for notifications of a mailbox, and says once if there are
// none.
func (w *Watcher) attachTo(t *watched) {
	if err := w.notify.attach(t); err != nil {
		w.warn(t, fmt.Errorf("changes are not notified, looking every %v instead: %w", pollEvery, err))
	}
}

// warn queues a warning, the first of its Watcher.
func (w *Watcher) warn(t *watched, err error) {
	if w.warned {
		return
	}
	w.warned = true
	w.queue = append(w.queue, queued{t.problem(EventWarning, err), t})
}

// tickEvery returns how long it is to the next tick.
func (w *Watcher) tickEvery() time.Duration {
	for _, t := range w.targets {
		if !t.attached {
			return pollEvery
		}
	}
	return tickEvery
}

// tick does what is done every now and then. It returns an error when
// nothing is left to watch.
func (w *Watcher) tick(ctx context.Context) error {
	now := time.Now()
	if now.Before(w.tickAt) || ctx.Err() != nil {
		return nil
	}
	for _, r := range slices.Clone(w.recovery) {
		if err := r.isGone(); err != nil {
			if err := w.drop(r.workspace, err); err != nil {
				return err
			}
			continue
		}
		if r.noticed(now) {
			w.recover(ctx, r)
		}
	}
	for _, t := range w.targets {
		if replaced := t.tick(now); replaced || !t.attached {
			w.attachTo(t)
		}
	}
	w.tickAt = now.Add(w.tickEvery())
	return nil
}

// drop gives up the mailboxes of a workspace, and their cursors unsaved. It
// returns the error if none remains.
func (w *Watcher) drop(workspace *mailbox.Workspace, err error) error {
	w.awaitSaves()
	var rest []*watched
	for _, t := range w.targets {
		if t.workspace.Dir() != workspace.Dir() {
			rest = append(rest, t)
			continue
		}
		w.fail(t, err)
		if closeErr := t.closeCursor(); closeErr != nil {
			w.fail(t, closeErr)
		}
	}
	w.targets = rest
	w.recovery = slices.DeleteFunc(w.recovery, func(r *recovery) bool { return r.workspace == workspace })
	if len(w.targets) == 0 {
		return err
	}
	return nil
}

// nextLook returns when the next file has to be looked at again, and the zero
// time if there is none. Those that have gone count if goneToo.
func (w *Watcher) nextLook(goneToo bool) time.Time {
	var next time.Time
	for _, t := range w.targets {
		if at := t.next(goneToo); !at.IsZero() && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	return next
}

func (w *Watcher) sleepUntil(ctx context.Context, at time.Time) {
	timer := time.NewTimer(time.Until(at))
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
