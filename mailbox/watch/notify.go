package watch

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/oacp-go/oacp/schema"
)

const (
	// notifyBuffer is how many notifications wait in this process. The system holds many more.
	notifyBuffer = 256
	// receiveAtMost is how many notifications are received before their files are looked at.
	receiveAtMost = 1024
)

// A notifier says which folders may have changed, as far as it can. The zero notifier says nothing.
type notifier struct {
	// add begins to watch a folder. Adding one again is not an error.
	add func(folder string) error
	// events have paths of entries of the folders. The channel is closed when there will be no more.
	events <-chan fsnotify.Event
	// errors say that notifications were lost: fsnotify.ErrEventOverflow, or that there may be no more.
	errors <-chan error
	stop   func() error
}

// openNotifier opens a notifier of the operating system. A goroutine receives its errors: fsnotify sends some of them
// while it holds the lock that Add needs.
func openNotifier() (notifier, error) {
	watcher, err := fsnotify.NewBufferedWatcher(notifyBuffer)
	if err != nil {
		return notifier{}, err
	}
	failures := make(chan error, 1)
	var received sync.WaitGroup
	received.Go(func() {
		for err := range watcher.Errors {
			select {
			case failures <- err:
			default: // the one that waits has the same consequence
			}
		}
	})
	stop := func() error {
		err := watcher.Close()
		received.Wait()
		return err
	}
	return notifier{add: watcher.Add, events: watcher.Events, errors: failures, stop: stop}, nil
}

func (n *notifier) close() error {
	stop := n.stop
	*n = notifier{}
	if stop == nil {
		return nil
	}
	return stop()
}

// wait waits until the time, a notification or the end of the context.
func (w *Watcher) wait(ctx context.Context, until time.Time) {
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case err := <-w.notifier.errors:
		w.lost(err)
	case event, ok := <-w.notifier.events:
		w.notice(event, ok)
	}
}

// attach asks for notifications about a box, and warns once if there are none. It watches the mailbox, too, to notice
// when the box comes back after it was removed or replaced.
func (w *Watcher) attach(b *box) {
	err := w.tryAttach(b)
	b.attached = err == nil
	if err != nil {
		w.warn(b, fmt.Errorf("changes are not notified, looking every %v instead: %w", pollEvery, err))
	}
}

func (w *Watcher) tryAttach(b *box) error {
	if w.notifier.add == nil {
		opened, err := w.open()
		if err != nil {
			return explainLimit(err)
		}
		w.notifier = opened
	}
	for _, folder := range []string{filepath.Dir(b.path), b.path} {
		if err := w.notifier.add(folder); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("watching %s: %w", folder, explainLimit(err))
		}
	}
	return nil
}

// explainLimit names the limits of Linux that errors of inotify stand for.
func explainLimit(err error) error {
	switch {
	case errors.Is(err, syscall.ENOSPC):
		return fmt.Errorf("%w: the limit fs.inotify.max_user_watches is reached", err)
	case errors.Is(err, syscall.EMFILE):
		return fmt.Errorf("%w: the limit fs.inotify.max_user_instances, or that of open files, is reached", err)
	}
	return err
}

// warn queues a warning, the first of the Watcher.
func (w *Watcher) warn(b *box, err error) {
	if !w.warned {
		w.warned = true
		w.queue = append(w.queue, b.problem(EventWarning, err))
	}
}

// receive takes the notifications that have come in.
func (w *Watcher) receive() {
	for range receiveAtMost {
		select {
		case event, ok := <-w.notifier.events:
			w.notice(event, ok)
		default:
			return
		}
	}
}

// notice notes which file a notification is about. If it is about a box itself, the box has come or gone.
func (w *Watcher) notice(event fsnotify.Event, ok bool) {
	if !ok {
		w.lost(fsnotify.ErrClosed)
		return
	}
	folder := filepath.Dir(event.Name)
	for _, b := range w.boxes {
		switch b.path {
		case folder:
			if name := filepath.Base(event.Name); schema.IsMessageFile(name) {
				b.hinted[name] = true
			}
		case event.Name:
			b.recheck = true
			w.attach(b)
		}
	}
}

// lost makes up for lost notifications: the Watcher looks at everything and, unless there were only too many, opens a new
// notifier at the next tick.
func (w *Watcher) lost(err error) {
	overflow := errors.Is(err, fsnotify.ErrEventOverflow)
	for _, b := range w.boxes {
		b.recheck = true
		b.attached = b.attached && overflow
	}
	if overflow {
		return
	}
	if err := w.notifier.close(); err != nil {
		w.warn(w.boxes[0], err)
	}
	w.tickAt = time.Now().Add(pollEvery)
}
