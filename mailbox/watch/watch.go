// Package watch reports what arrives in mailboxes and what leaves them, and answers whether a message file is complete or
// still being written.
package watch

import (
	"context"
	"errors"
	"iter"
	"slices"
	"time"

	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// An EventKind says what a watch saw.
type EventKind string

// The kinds of events, as the reference implementation names them. Warnings
// are ours.
const (
	// EventArrived is a message that is in the inbox and was not reported
	// before.
	EventArrived EventKind = "new_message"
	// EventArchived is a reported message that is no longer in the inbox:
	// acknowledged, archived, moved or replaced by another one.
	EventArchived EventKind = "message_archived"
	// EventError is a file that is no message, a folder that cannot be
	// looked into, or a cursor or a recovery that failed.
	EventError EventKind = "error"
	// EventWarning is a limitation that costs time but no event.
	EventWarning EventKind = "warning"
)

// Event is one thing that a Watcher saw.
type Event struct {
	Kind EventKind
	// Project is the project name of the workspace.
	Project string
	// mailbox.Entry is the file. An arrived message is there whole. Of one that has
	// gone only ID, From, Type, Priority and Subject are known. Errors and
	// warnings have Err, and no Name where they are about no single file.
	mailbox.Entry
}

// Target is a mailbox whose inbox is watched.
type Target struct {
	Workspace *mailbox.Workspace
	Agent     schema.AgentName
}

// Options changes what a Watcher reports. The zero value reports every
// message in the inboxes, and then those that arrive.
type Options struct {
	// Cursor keeps in state/watch of the workspace which messages were
	// reported, so that the next Watcher goes on from there.
	Cursor bool
	// StateID names a cursor of one's own, 1 to 64 letters, digits, dots,
	// underscores and hyphens. Watchers with one name share one cursor.
	StateID string
	// Since makes messages that were last written then or earlier count as
	// reported where there is no cursor yet. The zero value is the epoch.
	Since time.Time
	// Archived reports messages that leave the inbox, too.
	Archived bool
}

// Watcher reports what arrives in inboxes and what leaves them. The inboxes
// are the truth; notifications of the file system only make it look sooner.
//
// A message is reported once its file stands still: at once when it was
// delivered by Send, and shortly after the last write when another tool
// writes it in place. A file that is no message is reported once, and again
// when it has changed. A file that takes the place of one with the same id,
// within a moment or while nobody watches, is the same message: an id names
// one, and editors, git and backups put files back. Hidden files and names that
// do not end in .yaml are passed over.
//
// With a cursor, each event counts as out when the loop asks for the next
// one. A loop that is ended by its context has everything out that it was
// given, and the next Watcher goes on exactly there. Nothing is ever missed,
// but some events come again: the last one of a loop left by break, return or
// panic, and those that a killed process had out and not yet saved. The
// cursor is saved at once when little happens, otherwise after ten times the
// time that saving it takes, so that it costs a fraction of a core, and at the
// latest when some two thousand events are out.
//
// A Watcher is used by one goroutine at a time.
type Watcher struct {
	options Options
	targets []*watched
	notify  notifications
	// queue holds what was seen and is not out yet.
	queue    []queued
	recovery []*recovery
	saved    chan saveResult
	seeded   bool
	// looked says that a loop has ended before.
	looked bool
	tickAt time.Time
	// warned says that the one warning was queued.
	warned bool
}

// queued is a change on its way out. A change without a kind of event is
// only written down.
type queued struct {
	change
	target *watched
}

// New prepares to watch the targets; one that is named twice is
// watched once. Targets that cannot be watched, such as an unknown agent
// (*mailbox.UnknownAgentError) or a cursor that another Watcher uses
// (*CursorInUseError), are reported as error events and left out; if none
// remains, that is the error. The options may be nil. The caller closes the
// Watcher when its loop has ended, and the workspaces after that.
func New(ctx context.Context, targets []Target, options *Options) (*Watcher, error) {
	if options == nil {
		options = &Options{}
	}
	w := &Watcher{options: *options, notify: notifications{open: openNotifier}, saved: make(chan saveResult, len(targets))}
	var failed []error
	for _, target := range targets {
		if slices.ContainsFunc(w.targets, func(t *watched) bool { return t.is(target) }) {
			continue
		}
		t := &watched{workspace: target.Workspace, agent: target.Agent, project: target.Workspace.Project(), tracker: newTracker()}
		if err := t.open(ctx, options); err != nil {
			failed = append(failed, err)
			w.fail(t, err)
			continue
		}
		w.targets = append(w.targets, t)
		w.notify.route(t)
	}
	if len(w.targets) == 0 {
		return nil, errors.Join(failed...)
	}
	for _, t := range w.targets {
		if t.cursor != nil && t.cursor.warning != nil {
			w.fail(t, t.cursor.warning)
		}
	}
	w.recovery = newRecoveries(w.targets)
	return w, nil
}

// Close saves the cursors and releases everything.
func (w *Watcher) Close() error {
	err := errors.Join(w.flush(), w.notify.close())
	for _, t := range w.targets {
		err = errors.Join(err, t.closeCursor())
	}
	return err
}

// Events reports what is there and then what happens, until the context ends;
// that is no error. An error is reported last: a cursor that could not be
// saved in the end, or that nothing is left to watch. Events may be called
// again after a loop has ended and goes on with what was not out.
func (w *Watcher) Events(ctx context.Context) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		w.run(ctx, yield, true)
	}
}

// Scan reports what is there and ends. It waits, for about a second at most,
// for files that are just being written; what is still growing then is left
// to the next Scan. Only the first loop of a Watcher waits for files that have
// gone to come back, as they do when somebody edits them; after it, what has
// just gone is left to the next one as well. The error, reported last, says
// that the context ended before all was seen, or what Events says.
func (w *Watcher) Scan(ctx context.Context) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		w.run(ctx, yield, false)
	}
}

func (w *Watcher) run(ctx context.Context, yield func(Event, error) bool, follow bool) {
	first := !w.looked
	w.looked = true
	err := w.start(ctx, follow)
	deadline := time.Now().Add(scanPatience)
	for err == nil {
		more := w.look(ctx)
		if !w.deliver(ctx, yield) {
			return
		}
		if err = context.Cause(ctx); err != nil {
			break
		}
		w.saveDue()
		switch next := w.nextLook(follow || first); {
		case more || len(w.queue) > 0:
			w.drain()
		case follow:
			w.wait(ctx)
			err = w.tick(ctx)
		case next.IsZero() || next.After(deadline):
			w.finish(yield, nil)
			return
		default:
			w.sleepUntil(ctx, next)
		}
	}
	if follow && ctx.Err() != nil {
		err = nil
	}
	w.finish(yield, err)
}

// finish saves the cursors and reports the error that ends a loop.
func (w *Watcher) finish(yield func(Event, error) bool, err error) {
	if err = errors.Join(err, w.flush()); err != nil {
		yield(Event{}, err)
	}
}

// start looks for notifications first, so that nothing falls between them and
// the first look; counts old messages as reported, once; and then completes
// deliveries, whose messages may be older than they look.
func (w *Watcher) start(ctx context.Context, follow bool) error {
	if follow {
		w.attach()
	}
	if !w.seeded {
		for _, t := range w.targets {
			err := t.seed(ctx, w.options.Since)
			if ctx.Err() != nil {
				return err
			}
			w.report(t, err)
		}
		w.seeded = true
	}
	for _, r := range w.recovery {
		w.recover(ctx, r)
	}
	for _, t := range w.targets {
		t.rescan = rescanFiles
	}
	w.tickAt = time.Now().Add(w.tickEvery())
	return nil
}

// look lets every mailbox look at some of what may have changed, and reports
// whether there is more to look at.
func (w *Watcher) look(ctx context.Context) (more bool) {
	for _, t := range w.targets {
		changes, err := t.look(ctx)
		for _, c := range changes {
			if c.kind == EventArchived && !w.options.Archived {
				c.kind = ""
			}
			w.queue = append(w.queue, queued{c, t})
		}
		if ctx.Err() != nil {
			return false
		}
		w.report(t, err)
		more = more || err == nil && t.busy()
	}
	return more
}

// report queues an error of a mailbox once, and again when it comes back after
// it has been gone for a while: folders come and go in a checkout.
func (w *Watcher) report(t *watched, err error) {
	if err == nil {
		t.failing = false
		return
	}
	now := time.Now()
	if err.Error() != t.failure || !t.failing && now.Sub(t.failedAt) >= failureAgain {
		w.fail(t, err)
	}
	t.failing, t.failure, t.failedAt = true, err.Error(), now
}

// fail queues an error that is about no single file.
func (w *Watcher) fail(t *watched, err error) {
	w.queue = append(w.queue, queued{t.problem(EventError, err), t})
}

// deliver hands out what is queued, and writes down what is out. It reports
// whether the loop goes on.
func (w *Watcher) deliver(ctx context.Context, yield func(Event, error) bool) bool {
	for len(w.queue) > 0 && ctx.Err() == nil {
		next := w.queue[0]
		if next.kind != "" && !yield(next.event(next.target.project), nil) {
			return false
		}
		next.target.out(next.change)
		w.queue = w.queue[1:]
	}
	return true
}
