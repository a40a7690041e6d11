package watch

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/oacp-go/oacp/schema"
)

const (
	// notifyBuffer is how many notifications wait in this process. The system holds many more.
	notifyBuffer = 256
	// noticeAtMost is how many notifications are taken before their files are looked at.
	noticeAtMost = 1024
)

// A notifier says which folders may have changed, as far as it can. The zero notifier is silent.
type notifier struct {
	// add begins to watch a folder. Adding one again is not an error.
	add func(folder string) error
	// events have paths of entries of the folders. The channel is closed when there are no more.
	events <-chan fsnotify.Event
	// errors say that events were lost: fsnotify.ErrEventOverflow, or that there may be no more.
	errors <-chan error
	stop   func() error
}

// openNotifier opens a notifier of the operating system. A goroutine receives its errors: fsnotify
// sends some of them while it holds the lock that Add needs.
func openNotifier() (notifier, error) {
	watcher, err := fsnotify.NewBufferedWatcher(notifyBuffer)
	if err != nil {
		return notifier{}, err
	}
	failures := make(chan error, 1)
	var receiving sync.WaitGroup
	receiving.Go(func() {
		for err := range watcher.Errors {
			select {
			case failures <- err:
			default: // the pending error already causes a recheck
			}
		}
	})
	stop := func() error {
		err := watcher.Close()
		receiving.Wait()
		return err
	}
	return notifier{add: watcher.Add, events: watcher.Events, errors: failures, stop: stop}, nil
}

func (n *notifier) close() (err error) {
	if n.stop != nil {
		err = n.stop()
	}
	*n = notifier{}
	return err
}

// attach asks for notifications about a box. It warns once if there are none.
func (w *Watcher) attach(b *box) {
	err := w.tryAttach(b)
	if b.attached = err == nil; b.attached || w.warned {
		return
	}
	w.warned = true
	err = fmt.Errorf("no notifications of changes, polling every %v instead: %w (the limits are "+
		"fs.inotify.max_user_watches, fs.inotify.max_user_instances and the number of open files)", pollEvery, err)
	w.queue = append(w.queue, b.problem(EventWarning, err))
}

// tryAttach watches the box and its mailbox: the mailbox shows when the box comes back.
func (w *Watcher) tryAttach(b *box) (err error) {
	if w.notifier.add == nil {
		if w.notifier, err = w.open(); err != nil {
			return err
		}
	}
	for _, folder := range []string{filepath.Dir(b.path), b.path} {
		if err := w.notifier.add(folder); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("watching %s: %w", folder, err)
		}
	}
	return nil
}

// wait waits until the time, a notification or the end of the context, and takes the notifications
// that have come in.
func (w *Watcher) wait(ctx context.Context, until time.Time) {
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-w.woken:
	case err := <-w.notifier.errors:
		w.lost(err)
	case event, ok := <-w.notifier.events:
		w.notice(event, ok)
	}
	for range noticeAtMost {
		select {
		case event, ok := <-w.notifier.events:
			w.notice(event, ok)
		default:
			return
		}
	}
}

// notice marks the file of a notification to be looked at. A notification about a box itself means
// that the box appeared or disappeared.
func (w *Watcher) notice(event fsnotify.Event, ok bool) {
	if !ok {
		w.lost(fsnotify.ErrClosed)
		return
	}
	folder, name := filepath.Split(event.Name)
	for _, b := range w.boxes {
		switch {
		case b.path == event.Name:
			b.recheck = true
			w.attach(b)
		case b.path == filepath.Clean(folder) && schema.IsMessageFile(name):
			b.todo = append(b.todo, name)
		}
	}
}

// lost rechecks everything after notifications were lost. Unless the queue merely overflowed, it also
// closes the notifier; the next tick opens another.
func (w *Watcher) lost(err error) {
	for _, b := range w.boxes {
		b.recheck = true
	}
	if errors.Is(err, fsnotify.ErrEventOverflow) {
		return
	}
	err = w.notifier.close()
	for _, b := range w.boxes {
		b.attached = false
		w.report(b, &b.failure, err)
	}
	w.tickAt = time.Now().Add(pollEvery)
}
