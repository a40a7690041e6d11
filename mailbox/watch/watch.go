// Package watch reports what arrives in mailboxes and what leaves them. It also decides whether a
// message file is complete or still being written.
package watch

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

const (
	// tickEvery is how often a Watcher compares folders with what it knows: network file systems
	// send no notifications.
	tickEvery = time.Second
	// scanPatience is how long Scan waits for files to settle.
	scanPatience = time.Second
)

// An EventKind says what a Watcher saw.
type EventKind string

// The kinds of events. Their names are those of the reference implementation.
const (
	// EventArrived reports a message that is in the box and was not reported before.
	EventArrived EventKind = "new_message"
	// EventArchived reports that a message is no longer in the box: it was acknowledged, moved or
	// replaced.
	EventArchived EventKind = "message_archived"
	// EventError reports a file that is not a message, a folder that cannot be read, or a recovery
	// that failed.
	EventError EventKind = "error"
)

// Event is one thing that a Watcher saw.
type Event struct {
	Kind EventKind
	// Project is the project name of the workspace.
	Project string
	// Entry is the file. EventArrived has the whole message, EventArchived only its ID, From, Type,
	// Priority and Subject. Errors have Err; their Name is empty if they do not concern a single
	// file. The Message of an error is what can be read of one that is not valid.
	mailbox.Entry
}

// Target is a folder of a mailbox to watch.
type Target struct {
	Workspace *mailbox.Workspace
	Agent     schema.AgentName
	// Box is the folder; empty means the inbox.
	Box mailbox.Box
}

// Options changes what a Watcher reports. The zero value reports every message in the boxes, and
// then those that arrive.
type Options struct {
	// Cursor keeps a record of the reported messages in state/watch of the workspace, so that the next
	// Watcher continues from there. Only inboxes have cursors.
	Cursor bool
	// StateID names a separate cursor: 1 to 64 letters, digits, dots, underscores and hyphens.
	StateID string
	// Since makes messages that were last written at that time or earlier count as reported if
	// there is no cursor yet.
	Since time.Time
	// Archived also reports messages that leave the box.
	Archived bool
}

// Watcher reports what arrives in boxes and what leaves them. It compares the folders with what it
// reported before; notifications of the file system only make it look sooner.
//
// A message is reported once its file is complete; see Sighting. A file that is not a message is
// reported once, and again when it has changed. A file that replaces one with the same message ID
// is the same message: editors, git and backups put files back. Hidden files and names that do not
// end in .yaml are ignored.
//
// With a cursor, an event counts as delivered when the loop asks for the next one. If the context
// ends the loop, the next Watcher continues exactly there. No event is lost, but some may be
// repeated: the last event of a loop that ended with break, return or panic, and those of the last
// seconds before the process was killed.
//
// A Watcher is not safe for concurrent use, except Forget.
type Watcher struct {
	options  Options
	boxes    []*box
	notifier notifier
	// open opens the notifier; tests replace it.
	open func() (notifier, error)
	// queue holds the changes that are not delivered yet.
	queue []change
	// tickAt is when the next tick is due.
	tickAt time.Time
	// forgotten are the names that Forget was called with; woken then ends a wait.
	mutex     sync.Mutex
	forgotten []string
	woken     chan struct{}
}

// New returns a Watcher of the targets, which must differ. It returns a *mailbox.UnknownAgentError if an
// agent is unknown, and another error if a cursor is in use. The options may be nil. The caller
// closes the Watcher when its loop has ended, and the workspaces after that.
func New(targets []Target, options *Options) (*Watcher, error) {
	w := &Watcher{open: openNotifier, woken: make(chan struct{}, 1)}
	if options != nil {
		w.options = *options
	}
	for _, target := range targets {
		b, err := openBox(target, &w.options)
		if err != nil {
			return nil, errors.Join(err, w.Close())
		}
		b.recovers = !slices.ContainsFunc(w.boxes, b.sharesWorkspace)
		w.boxes = append(w.boxes, b)
	}
	return w, nil
}

// Close saves the cursors and releases everything.
func (w *Watcher) Close() error {
	err := errors.Join(w.save(0), w.notifier.close())
	for _, b := range w.boxes {
		err = errors.Join(err, b.closeCursor())
	}
	return err
}

// Events reports the present files and then each change, until the context ends, which is not an error. If
// a workspace was removed or replaced, or if a cursor could not be saved, the last element is that error.
// After a loop has ended, Events or Scan may be called again and continues with the undelivered events.
func (w *Watcher) Events(ctx context.Context) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) { w.run(ctx, yield, true) }
}

// Scan reports the present files and ends. It waits at most a second for files that are being written; the
// next Scan reports the rest. The last element is an error if the context ended early, or as for Events.
func (w *Watcher) Scan(ctx context.Context) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) { w.run(ctx, yield, false) }
}

// Unread returns why boxes could not be read when the Watcher last looked, nil if all could. It must
// not be called during a loop.
func (w *Watcher) Unread() error {
	var err error
	for _, b := range w.boxes {
		err = errors.Join(err, b.unread)
	}
	return err
}

// Forget makes a file count as not reported: if it is in its box, or comes back, it is reported again.
// Otherwise, the same message in a file of the same name causes no event. Forget may be called at any
// time, even while a loop runs.
func (w *Watcher) Forget(name string) {
	w.mutex.Lock()
	w.forgotten = append(w.forgotten, name)
	w.mutex.Unlock()
	select {
	case w.woken <- struct{}{}:
	default: // the loop is about to look
	}
}

// forget carries out the calls of Forget.
func (w *Watcher) forget() {
	w.mutex.Lock()
	names := w.forgotten
	w.forgotten = nil
	w.mutex.Unlock()
	for _, b := range w.boxes {
		for _, name := range names {
			b.record(name, nil, nil)
			delete(b.unsettled, name)
		}
		b.todo = append(b.todo, names...)
	}
}

func (w *Watcher) run(ctx context.Context, yield func(Event, error) bool, follow bool) {
	for _, b := range w.boxes {
		b.recheck = true
	}
	w.tickAt = time.Time{}
	var err error
	patience := time.Now().Add(scanPatience)
	for done := false; err == nil && !done; {
		var goesOn bool
		if goesOn, err = w.deliver(ctx, yield); !goesOn {
			return
		}
		if err == nil && ctx.Err() == nil {
			err = w.save(saveEvery)
		}
		if err != nil || ctx.Err() != nil {
			break
		}
		if now := time.Now(); !now.Before(w.tickAt) {
			err = w.tick(ctx, now, follow)
		}
		w.look(ctx, follow)
		next := w.nextLook(time.Now())
		switch {
		case !next.IsZero() && !next.After(time.Now()): // look again at once
		case follow:
			w.wait(ctx, earliest(next, w.tickAt))
		case next.IsZero() || next.After(patience):
			done = true
		default:
			w.wait(ctx, next)
		}
	}
	if !follow && err == nil {
		err = context.Cause(ctx)
	}
	if err = errors.Join(err, w.save(0)); err != nil {
		yield(Event{}, err)
	}
}

// deliver yields the queued events and records them as delivered. It reports whether the loop goes on.
func (w *Watcher) deliver(ctx context.Context, yield func(Event, error) bool) (goesOn bool, err error) {
	for len(w.queue) > 0 && ctx.Err() == nil {
		c := w.queue[0]
		if c.kind != "" && !yield(Event{Kind: c.kind, Project: c.box.project, Entry: c.entry}, nil) {
			return false, nil
		}
		c.box.apply(c)
		w.queue = w.queue[1:]
		cursor := c.box.cursor
		if cursor == nil {
			continue
		}
		if cursor.unsaved++; cursor.unsaved >= mostUnsaved && time.Since(cursor.savedAt) >= mostUnsavedTime*cursor.took {
			if err := c.box.saveCursor(); err != nil {
				return true, err
			}
		}
	}
	return true, nil
}

// save saves the cursors that were last saved at least so long ago.
func (w *Watcher) save(age time.Duration) error {
	var failed []error
	for _, b := range w.boxes {
		if b.cursor != nil && time.Since(b.cursor.savedAt) >= age {
			failed = append(failed, b.saveCursor())
		}
	}
	return errors.Join(failed...)
}

// tick asks for a look at every box, notified or not, and completes deliveries. It returns
// an error if a workspace was removed or replaced.
func (w *Watcher) tick(ctx context.Context, now time.Time, follow bool) error {
	w.tickAt = now.Add(tickEvery)
	if follow {
		w.attach() // before the look, so that nothing falls between them
	}
	for _, b := range w.boxes {
		if err := b.checkWorkspace(); err != nil {
			return err
		}
		if b.recovers {
			w.report(b, &b.unrecovered, b.recover(ctx))
		}
		b.relist = true
		b.recheck = b.recheck || now.Sub(b.checkedAt) >= recheckEvery
	}
	return nil
}

// recover completes deliveries that dead processes left behind.
func (b *box) recover(ctx context.Context) error {
	ids, err := b.workspace.Staged()
	if len(ids) > 0 {
		_, err = b.workspace.Recover(ctx)
	}
	if err == nil || ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("completing deliveries: %w", err)
}

// checkWorkspace returns an error if the folder of the box's workspace was removed or replaced: nothing
// that is open leads to the new one.
func (b *box) checkWorkspace() error {
	dir := b.workspace.Dir()
	there, err := os.Stat(dir)
	held, heldErr := b.workspace.Root().Stat(".")
	if !errors.Is(err, fs.ErrNotExist) && (err != nil || heldErr != nil || os.SameFile(there, held)) {
		return nil
	}
	if b.cursor != nil {
		b.cursor.dirty = false // it is gone with the workspace
	}
	return fmt.Errorf("%w: %s was removed or replaced", mailbox.ErrNoWorkspace, dir)
}

// look looks at some of what may have changed.
func (w *Watcher) look(ctx context.Context, follow bool) {
	w.forget()
	now := time.Now()
	for _, b := range w.boxes {
		if next := b.nextLook(now); next.IsZero() || next.After(now) {
			continue
		}
		changes, err := b.look(ctx, now, follow)
		if ctx.Err() != nil {
			return
		}
		for _, c := range changes {
			if c.kind == EventArchived && !w.options.Archived {
				c.kind = ""
			}
			w.queue = append(w.queue, c)
		}
		w.report(b, &b.unread, err)
	}
}

// nextLook returns when to look again, and the zero time if there is nothing to look at.
func (w *Watcher) nextLook(now time.Time) time.Time {
	if len(w.queue) > 0 {
		return now
	}
	var next time.Time
	for _, b := range w.boxes {
		next = earliest(next, b.nextLook(now))
	}
	return next
}

// earliest returns the earlier of two times. The zero time stands for never.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// report queues an error that does not concern a single file, unless it is the last one again.
func (w *Watcher) report(b *box, last *error, err error) {
	if err != nil && (*last == nil || (*last).Error() != err.Error()) {
		entry := mailbox.Entry{Agent: b.agent, Box: b.name, Path: b.path, Err: err}
		w.queue = append(w.queue, change{box: b, kind: EventError, entry: entry})
	}
	*last = err
}
