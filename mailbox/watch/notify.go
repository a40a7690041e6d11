package watch

import (
	"context"
	"path/filepath"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/oacp-go/oacp/schema"
)

// notifyBuffer is how many notifications wait in this process. The system holds many more.
const notifyBuffer = 256

// A notifier sends notifications about changes in folders. It may miss some. The zero notifier sends none.
type notifier struct {
	// add begins to watch a folder. Adding one again is not an error.
	add func(folder string) error
	// events have paths of entries of the folders.
	events <-chan fsnotify.Event
	// errors report that events were lost.
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

// attach asks for notifications about the boxes and their mailboxes, which show when a box comes back.
// Each tick calls attach again, for folders that were missing or replaced. It ignores errors, because
// ticks find all changes.
func (w *Watcher) attach() {
	if w.notifier.add == nil {
		var err error
		if w.notifier, err = w.open(); err != nil {
			return
		}
	}
	for _, b := range w.boxes {
		_ = w.notifier.add(filepath.Dir(b.path))
		_ = w.notifier.add(b.path)
	}
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
	case <-w.notifier.errors:
		w.startOver()
	case event, ok := <-w.notifier.events:
		if !ok {
			w.startOver()
			return
		}
		w.notice(event.Name)
		for len(w.notifier.events) > 0 {
			event := <-w.notifier.events
			w.notice(event.Name)
		}
	}
}

// notice asks for a look at a file that may have changed, or for a tick if a box appeared or disappeared.
func (w *Watcher) notice(path string) {
	folder, name := filepath.Split(path)
	for _, b := range w.boxes {
		switch {
		case b.path == path:
			b.recheck, w.tickAt = true, time.Time{}
		case b.path == filepath.Clean(folder) && schema.IsMessageFile(name):
			b.todo = append(b.todo, name)
		}
	}
}

// startOver looks at every file after notifications were lost, and opens a new notifier.
func (w *Watcher) startOver() {
	_ = w.notifier.close() // it is useless now
	w.tickAt = time.Now().Add(tickEvery)
	for _, b := range w.boxes {
		b.recheck = true
	}
}
