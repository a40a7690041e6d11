package watch

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"github.com/fsnotify/fsnotify"
)

// notifyBuffer is how many notifications wait in this process. The system
// holds many more.
const notifyBuffer = 256

// A notifier tells of changes in folders, as far as it can.
type notifier interface {
	// Add begins to watch a folder. Adding one again is no error.
	Add(folder string) error
	// changes are paths of entries of the folders. It is closed when there
	// will be no more.
	changes() <-chan fsnotify.Event
	// failures say that changes were lost: fsnotify.ErrEventOverflow, or
	// that there may be no more.
	failures() <-chan error
	Close() error
}

// systemNotifier is what the operating system offers. Its failures are taken
// by a goroutine of their own: fsnotify reports some of them while it holds
// the lock that Add needs.
type systemNotifier struct {
	*fsnotify.Watcher
	failed  chan error
	drained sync.WaitGroup
}

func openNotifier() (notifier, error) {
	watcher, err := fsnotify.NewBufferedWatcher(notifyBuffer)
	if err != nil {
		return nil, err
	}
	n := &systemNotifier{Watcher: watcher, failed: make(chan error, 1)}
	n.drained.Go(func() {
		for err := range watcher.Errors {
			select {
			case n.failed <- err:
			default: // one that waits has the same consequence
			}
		}
	})
	return n, nil
}

func (n *systemNotifier) changes() <-chan fsnotify.Event { return n.Events }
func (n *systemNotifier) failures() <-chan error         { return n.failed }

func (n *systemNotifier) Close() error {
	err := n.Watcher.Close()
	n.drained.Wait()
	return err
}

// notifications keeps a notifier attached to folders that come and go.
type notifications struct {
	open    func() (notifier, error)
	current notifier
	// attached are the folders as they were when they were added.
	attached map[string]fs.FileInfo
	// inboxes and chains say which mailboxes a changed entry of a folder, or
	// a changed folder, concerns.
	inboxes map[string]*watched
	chains  map[string][]*watched
}

// route notes which notifications concern the mailbox: those of the inbox,
// and those of the folders above it, by which it comes and goes.
func (n *notifications) route(t *watched) {
	if n.inboxes == nil {
		n.inboxes, n.chains = make(map[string]*watched), make(map[string][]*watched)
	}
	inbox := t.inbox()
	agent := filepath.Dir(inbox)
	agents := filepath.Dir(agent)
	t.chain = []string{t.workspace.Dir(), agents, agent, inbox}
	n.inboxes[inbox] = t
	for _, folder := range t.chain {
		n.chains[folder] = append(n.chains[folder], t)
	}
}

// attach watches the folders of the mailbox that are there and are not
// watched yet. An error says that some cannot be.
func (n *notifications) attach(t *watched) error {
	t.attached = false
	if n.current == nil {
		current, err := n.open()
		if err != nil {
			return explainLimit(err)
		}
		n.current, n.attached = current, make(map[string]fs.FileInfo)
	}
	for _, folder := range t.chain {
		info, err := os.Stat(folder)
		if errors.Is(err, fs.ErrNotExist) {
			delete(n.attached, folder)
			break
		}
		if err != nil {
			return err
		}
		if before := n.attached[folder]; before != nil && os.SameFile(before, info) {
			continue
		}
		if err := n.current.Add(folder); err != nil {
			return fmt.Errorf("watching %s: %w", folder, explainLimit(err))
		}
		n.attached[folder] = info
	}
	t.attached = true
	return nil
}

// explainLimit names the limits of Linux that the errors of inotify mean.
func explainLimit(err error) error {
	switch {
	case errors.Is(err, syscall.ENOSPC):
		return fmt.Errorf("%w: the limit fs.inotify.max_user_watches is reached", err)
	case errors.Is(err, syscall.EMFILE):
		return fmt.Errorf("%w: the limit fs.inotify.max_user_instances, or that of open files, is reached", err)
	}
	return err
}

// take routes one notification. It returns the mailboxes whose folders may
// have come or gone.
func (n *notifications) take(event fsnotify.Event) []*watched {
	if t := n.inboxes[filepath.Dir(event.Name)]; t != nil {
		t.hint(filepath.Base(event.Name))
	}
	moved := n.chains[event.Name]
	if len(moved) > 0 && event.Has(fsnotify.Remove|fsnotify.Rename) {
		// What is watched below has gone too, even if a folder of the same
		// name, or the very same folder, comes back.
		for _, t := range moved {
			for _, folder := range t.chain {
				if len(folder) >= len(event.Name) {
					delete(n.attached, folder)
				}
			}
		}
	}
	return moved
}

// close gives up the notifier, and with it all that was attached.
func (n *notifications) close() error {
	if n.current == nil {
		return nil
	}
	err := n.current.Close()
	n.current, n.attached = nil, nil
	return err
}

func (n *notifications) changes() <-chan fsnotify.Event {
	if n.current == nil {
		return nil
	}
	return n.current.changes()
}

func (n *notifications) failures() <-chan error {
	if n.current == nil {
		return nil
	}
	return n.current.failures()
}
