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
	tickEvery = 2 * time.Second
	// pollEvery replaces tickEvery if the system cannot send notifications.
	pollEvery = 250 * time.Millisecond
	// recoverEvery is how often a Watcher completes deliveries that dead processes left behind.
	recoverEvery = 10 * time.Second
	// scanPatience is how long Scan waits for files to settle.
	scanPatience = time.Second
)

// An EventKind says what a Watcher saw.
type EventKind string

// The kinds of events. Their names are those of the reference implementation, which has no
// warnings.
const (
	// EventArrived reports a message that is in the box and was not reported before.
	EventArrived EventKind = "new_message"
	// EventArchived reports that a message is no longer in the box: it was acknowledged, moved or
	// replaced.
	EventArchived EventKind = "message_archived"
	// EventError reports a file that is not a message, a folder that cannot be read, or a cursor or
	// recovery that failed.
	EventError EventKind = "error"
	// EventWarning reports a limitation that delays events but loses none.
	EventWarning EventKind = "warning"
)

// Event is one thing that a Watcher saw.
type Event struct {
	Kind EventKind
	// Project is the project name of the workspace.
	Project string
	// Entry is the file. EventArrived has the whole message, EventArchived only its ID, From, Type,
	// Priority and Subject. Errors and warnings have Err; their Name is empty if they do not
	// concern a single file. The Message of an error is what can be read of one that is not valid.
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
// A message is reported once its file is complete; see Settled. A file that is not a message is
// reported once, and again when it has changed. A file that replaces one with the same message ID
// is the same message: editors, git and backups put files back. Hidden files and names that do not
// end in .yaml are ignored.
//
// With a cursor, an event counts as delivered when the loop asks for the next one. If the context
// ends the loop, the next Watcher continues exactly there. No event is lost, but some may be
// repeated: the last event of a loop that ended with break, return or panic, those of the last
// seconds before the process was killed, and those of a first look with Since that was interrupted.
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
	// tickAt is when the next tick is due, and recoverAt when to complete deliveries again: if
	// zero, after the first look.
	tickAt, recoverAt time.Time
	warned            bool
	// forgotten are the names that Forget was called with; woken ends a wait for their sake.
	mutex     sync.Mutex
	forgotten []string
	woken     chan struct{}
}

// New returns a Watcher of the targets. A target that cannot be watched, such as an unknown agent
// (*mailbox.UnknownAgentError) or one whose cursor is in use (*CursorInUseError), is reported as an
// error event and left out; if no target remains, New returns the error. The options may be nil.
// The caller closes the Watcher when its loop has ended, and the workspaces after that.
func New(targets []Target, options *Options) (*Watcher, error) {
	w := &Watcher{open: openNotifier, woken: make(chan struct{}, 1)}
	if options != nil {
		w.options = *options
	}
	var failed []error
	for _, target := range targets {
		b := newBox(target, &w.options)
		b.recovers = !slices.ContainsFunc(w.boxes, b.sharesWorkspace)
		if slices.ContainsFunc(w.boxes, func(other *box) bool { return other.path == b.path }) {
			continue
		}
		if err := b.open(&w.options); err != nil {
			failed = append(failed, err)
			w.fail(b, err)
			continue
		}
		w.boxes = append(w.boxes, b)
		if b.cursor != nil && b.cursor.warning != nil {
			w.fail(b, b.cursor.warning)
		}
	}
	if len(w.boxes) == 0 {
		return nil, errors.Join(failed...)
	}
	return w, nil
}

// Close saves the cursors and releases everything.
func (w *Watcher) Close() error {
	err := errors.Join(w.saveAll(), w.notifier.close())
	for _, b := range w.boxes {
		err = errors.Join(err, b.closeCursor())
	}
	return err
}

// Events reports the present files and then each change, until the context ends, which is not an error. If
// a workspace was removed or replaced, or if a cursor could not be saved in the end, the last element is
// that error. After a loop has ended, Events or Scan may be called again and continues with the undelivered
// events.
func (w *Watcher) Events(ctx context.Context) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) { w.run(ctx, yield, true) }
}

// Forget makes a file count as not reported: if it is in its box, or comes back, it is reported again.
// Without that, the same message in a file of the same name causes no event. Forget may be called at any
// time, even while a loop runs.
func (w *Watcher) Forget(name string) {
	w.mutex.Lock()
	w.forgotten = append(w.forgotten, name)
	w.mutex.Unlock()
	select {
	case w.woken <- struct{}{}:
	default: // the loop is to look already
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
			delete(b.reported.Messages, name)
			delete(b.reported.Unreadable, name)
			delete(b.unsettled, name)
		}
		b.todo = append(b.todo, names...)
	}
}

// Scan reports the present files and ends. It waits at most a second for files that are being written; the
// next Scan reports the rest. The last element is an error if the context ended early, or as for Events.
func (w *Watcher) Scan(ctx context.Context) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) { w.run(ctx, yield, false) }
}

func (w *Watcher) run(ctx context.Context, yield func(Event, error) bool, follow bool) {
	w.start(follow)
	var err error
	deadline := time.Now().Add(scanPatience)
	for done := false; err == nil && !done; {
		if !w.deliver(ctx, yield) {
			return
		}
		if err = context.Cause(ctx); err != nil {
			break
		}
		for _, b := range w.boxes {
			if b.cursor != nil && time.Since(b.cursor.savedAt) >= saveEvery {
				w.report(b, &b.cursor.failure, b.saveCursor())
			}
		}
		w.look(ctx, follow)
		next := w.nextLook()
		switch {
		case len(w.queue) > 0 || !next.IsZero() && !next.After(time.Now()):
		case w.recoverAt.IsZero():
			w.recover(ctx)
		case follow:
			w.wait(ctx, earliest(next, w.tickAt))
			err = w.tick(ctx)
		case next.IsZero() || next.After(deadline):
			done = true
		default:
			w.wait(ctx, next)
		}
	}
	if follow && ctx.Err() != nil {
		err = nil
	}
	if err = errors.Join(err, w.saveAll()); err != nil {
		yield(Event{}, err)
	}
}

// start begins a loop. Notifications are asked for before the first look, so that nothing falls
// between them.
func (w *Watcher) start(follow bool) {
	for _, b := range w.boxes {
		b.recheck = true
		if follow {
			w.attach(b)
		}
	}
	w.recoverAt, w.tickAt = time.Time{}, time.Now().Add(w.tickInterval())
}

// deliver yields the queued events and records them as delivered. It reports whether the loop goes on.
func (w *Watcher) deliver(ctx context.Context, yield func(Event, error) bool) bool {
	for len(w.queue) > 0 && ctx.Err() == nil {
		c := w.queue[0]
		if c.kind != "" && !yield(Event{Kind: c.kind, Project: c.box.project, Entry: c.entry}, nil) {
			return false
		}
		c.box.apply(c)
		w.queue = w.queue[1:]
	}
	return true
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
		b.unread = err
		w.report(b, &b.failure, err)
	}
}

// nextLook returns when to look again, and the zero time if there is nothing to look at.
func (w *Watcher) nextLook() time.Time {
	var next time.Time
	for _, b := range w.boxes {
		next = earliest(next, b.nextLook(time.Now()))
	}
	return next
}

// recover completes deliveries that dead processes left behind. It comes after the first look:
// messages older than Options.Since count as reported, but not those that only arrive now.
func (w *Watcher) recover(ctx context.Context) {
	w.recoverAt = time.Now().Add(recoverEvery)
	relist := false
	for _, b := range w.boxes {
		if !b.recovers {
			continue
		}
		ids, _, err := b.workspace.Staged()
		if len(ids) > 0 {
			relist = true
			_, err = b.workspace.Recover(ctx)
		}
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			err = fmt.Errorf("completing deliveries: %w", err)
		}
		w.report(b, &b.recoverFailure, err)
	}
	for _, b := range w.boxes {
		b.relist = b.relist || relist
		b.endSeeding()
	}
}

// earliest returns the earlier of two times. The zero time stands for never.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// tick compares folders without notifications, at intervals. It returns an error if a workspace was
// removed or replaced.
func (w *Watcher) tick(ctx context.Context) error {
	now := time.Now()
	if now.Before(w.tickAt) || ctx.Err() != nil {
		return nil
	}
	for _, b := range w.boxes {
		replaced := b.tick(now)
		if replaced || b.folder == nil {
			if err := w.checkWorkspace(b); err != nil {
				return err
			}
		}
		if replaced || !b.attached {
			w.attach(b)
		}
	}
	if !now.Before(w.recoverAt) {
		w.recover(ctx)
	}
	w.tickAt = now.Add(w.tickInterval())
	return nil
}

// tickInterval returns how long it is to the next tick.
func (w *Watcher) tickInterval() time.Duration {
	if slices.ContainsFunc(w.boxes, func(b *box) bool { return !b.attached }) {
		return pollEvery
	}
	return tickEvery
}

// checkWorkspace returns an error if the folder of a box's workspace was removed or replaced:
// nothing that is open leads to the new one. The cursors of the workspace are not saved then.
func (w *Watcher) checkWorkspace(b *box) error {
	dir := b.workspace.Dir()
	there, err := os.Stat(dir)
	held, heldErr := b.workspace.Root().Stat(".")
	if !errors.Is(err, fs.ErrNotExist) && (err != nil || heldErr != nil || os.SameFile(there, held)) {
		return nil
	}
	err = fmt.Errorf("%w: %s was removed or replaced", mailbox.ErrNoWorkspace, dir)
	for _, other := range w.boxes {
		if other.sharesWorkspace(b) {
			err = errors.Join(err, other.closeCursor())
		}
	}
	return err
}

// report queues an error that does not concern a single file, unless it is the last one again.
func (w *Watcher) report(b *box, last *string, err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text != "" && text != *last {
		w.fail(b, err)
	}
	*last = text
}

func (w *Watcher) fail(b *box, err error) { w.queue = append(w.queue, b.problem(EventError, err)) }
