package turn

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"time"

	"github.com/oacp-go/oacp/internal/exclusive"
	"github.com/oacp-go/oacp/internal/orphans"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/watch"
)

// Runner works the inbox of one agent. Make one with New. It is for one Run at
// a time.
type Runner struct {
	workspace *mailbox.Workspace
	config    Config
	now       func() time.Time
	// poll is how often it looks whether somebody appended to the journal, and
	// troubleRetry how long it waits after trouble with the workspace.
	poll, troubleRetry time.Duration
	observing          sync.Mutex

	hold    *exclusive.Hold
	journal *journal
	drivers *drivers
	// schedule holds the messages of the inbox, invalid its other files.
	schedule *schedule
	invalid  badFiles
	// errands are what is left to do about messages that left the inbox.
	errands []*errand
	// late are events that the watch told when nobody listened any more.
	late []watch.Event
	// working counts those who are at work.
	working int
	done    chan outcome
	// pausedUntil is when to try to start the agent again, pauses how often in
	// a row it could not be started.
	pausedUntil time.Time
	pauses      int
	// troubles counts what went wrong with the workspace in a row.
	troubles int
	// lost gets an error that matches ErrStateLost.
	lost chan error
	// stop is why a run with Once cannot go on.
	stop error
	// dead are the messages that were given up.
	dead []string
	// finish is closed when no further turns are to begin.
	finish     chan struct{}
	finishOnce sync.Once
}

// Run works the inbox until the context ends, or with Once until nothing is
// left to do; messages that are held or expired do not count. Running turns
// are stopped when the context ends: their messages stay in the inbox, and the
// attempts do not count.
//
// It returns nil when the context ended, all is done, or Finish was called.
// Else it returns a *BusyError if another Runner works the inbox, an error
// matching agent.ErrUnavailable if the agent cannot be started at the begin (or
// at any time with Once), with Once a *DeadLettersError if some messages could
// not be handled, an *InvalidFilesError if there are files that may be given up
// later, and an *UnreadableFilesError if some could not be read, an error matching ErrStateLost if state was removed meanwhile,
// or what else is wrong with the workspace.
func (r *Runner) Run(ctx context.Context) (err error) {
	if r.hold, err = takeLock(ctx, r.workspace, r.config.Agent, r.now()); err != nil {
		return stoppedOr(ctx, err)
	}
	defer func() { err = errors.Join(err, r.hold.Release()) }()
	if r.journal, err = openJournal(r.workspace, r.config.Agent, r.now); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.journal.close()) }()
	r.journal.mayWrite = r.checkHeld
	r.forget()
	// First of all, so that nobody takes the turns of a dead Runner for ours.
	if err := r.takeUp(ctx); err != nil {
		return stoppedOr(ctx, err)
	}
	r.drivers = &drivers{make: r.config.NewDriver, most: r.config.Parallel}
	defer func() { err = errors.Join(err, r.drivers.stop(context.WithoutCancel(ctx))) }()
	if err := r.drivers.preflight(ctx); err != nil {
		return stoppedOr(ctx, err)
	}
	watcher, err := watch.New(ctx, []watch.Target{{Workspace: r.workspace, Agent: r.config.Agent}},
		&watch.Options{Archived: true})
	if err != nil {
		return stoppedOr(ctx, err)
	}
	defer func() { err = errors.Join(err, watcher.Close()) }()

	return stoppedOr(ctx, r.work(ctx, watcher))
}

// Finish has Run end when the turns that run now are over, with their answers
// sent and their messages acknowledged, and begin no further ones. It may be
// called from any goroutine, from Observe too, before Run as well, and more
// than once. With Once, Run returns what it came to until then.
func (r *Runner) Finish() { r.finishOnce.Do(func() { close(r.finish) }) }

func (r *Runner) finishing() bool {
	select {
	case <-r.finish:
		return true
	default:
		return false
	}
}

// forget begins with an empty inbox. What was done about messages is in the
// journal.
func (r *Runner) forget() {
	r.schedule, r.invalid = newSchedule(r.judge, r.tell), newBadFiles()
	r.errands, r.stop, r.dead = nil, nil, nil
	r.done, r.lost = make(chan outcome), make(chan error, 1)
}

// stoppedOr returns nil for an error that only says that the context ended.
func stoppedOr(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil && errors.Is(err, cause) {
		return nil
	}
	return err
}

// work takes everything that is there in before the first turn begins, so that
// the most urgent goes first.
func (r *Runner) work(ctx context.Context, watcher *watch.Watcher) error {
	for first := true; ; first = false {
		arrived, err := r.scan(ctx, watcher)
		if err != nil {
			return err
		}
		if r.config.Once && !arrived && !first {
			return r.verdict()
		}
		if err := r.follow(ctx, watcher); err != nil || ctx.Err() != nil {
			return err
		}
		if r.stop != nil {
			return r.stop
		}
		if r.finishing() {
			return r.verdict()
		}
	}
}

// verdict is what a run with Once comes to.
func (r *Runner) verdict() error {
	var errs []error
	if r.config.Once && len(r.dead) > 0 {
		errs = append(errs, &DeadLettersError{Messages: r.dead})
	}
	invalid, unread := r.invalid.names()
	if r.config.Once && len(invalid) > 0 {
		errs = append(errs, &InvalidFilesError{Files: invalid})
	}
	if r.config.Once && len(unread) > 0 {
		errs = append(errs, &UnreadableFilesError{Files: unread})
	}
	return errors.Join(errs...)
}

// scan takes in what has become of the inbox. It reports whether there are
// messages in it that were not there before.
func (r *Runner) scan(ctx context.Context, watcher *watch.Watcher) (arrived bool, err error) {
	for _, event := range r.late {
		r.take(event)
		arrived = arrived || event.Kind == watch.EventArrived
	}
	r.late = nil
	for event, err := range watcher.Scan(ctx) {
		if err != nil {
			return arrived, err
		}
		r.take(event)
		arrived = arrived || event.Kind == watch.EventArrived
	}
	r.leftovers()
	return arrived, nil
}

// follow works until the context ends or, with Once, nothing is left to do,
// and returns when everybody has stopped. Where nothing can be written down any
// more, turns are broken off.
func (r *Runner) follow(ctx context.Context, watcher *watch.Watcher) error {
	ctx, breakOff := context.WithCancelCause(ctx)
	defer breakOff(nil)
	watching, stopWatching := context.WithCancel(ctx)
	arrivals := make(chan watch.Event)
	watched := make(chan error, 1)
	go func() { watched <- r.watch(watching, watcher, arrivals) }()
	err := r.loop(ctx, arrivals, watched)
	if err != nil {
		breakOff(err)
	}
	stopWatching()
	if watchErr := <-watched; err == nil {
		err = watchErr
	}
	for r.working > 0 {
		r.finished(<-r.done)
	}
	select {
	case lost := <-r.lost:
		return lost
	default:
		return err
	}
}

// watch passes on what happens in the inbox until the context ends. The last
// event may come too late for that, and is not told again: it is kept for the
// next scan.
func (r *Runner) watch(ctx context.Context, watcher *watch.Watcher, to chan<- watch.Event) error {
	for event, err := range watcher.Events(ctx) {
		if err != nil {
			return err
		}
		select {
		case to <- event:
		case <-ctx.Done():
			r.late = append(r.late, event)
		}
	}
	return nil
}

// loop gives out work, and takes in what arrives and what comes of the work. It
// returns early when the watch ends, and leaves its error where it is.
func (r *Runner) loop(ctx context.Context, arrivals <-chan watch.Event, watched chan error) error {
	finish := r.finish
	refresh := time.NewTicker(r.poll)
	defer refresh.Stop()
	for ctx.Err() == nil {
		next, more := r.now().Add(r.poll), true
		finishing := r.finishing()
		if r.stop == nil && !finishing {
			next, more = r.dispatch(ctx)
		}
		if r.working == 0 && (finishing || r.config.Once && (!more || r.stop != nil)) {
			return nil
		}
		timer := time.NewTimer(min(r.poll, max(0, next.Sub(r.now()))))
		select {
		case <-ctx.Done():
		case <-finish:
			finish = nil // once is enough to look again
		case <-timer.C:
		case <-refresh.C:
			if err := r.journal.refresh(); err != nil {
				timer.Stop()
				return err
			}
		case err := <-r.lost:
			timer.Stop()
			return err
		case event := <-arrivals:
			r.take(event)
		case err := <-watched:
			watched <- err
			timer.Stop()
			return nil
		case o := <-r.done:
			r.finished(o)
		}
		timer.Stop()
	}
	return nil
}

// entryOf returns the inbox entry of an item, as far as it takes to find the
// file.
func (r *Runner) entryOf(it *item) mailbox.Entry {
	inbox := r.workspace.BoxPath(r.config.Agent, mailbox.Inbox)
	return mailbox.Entry{Agent: r.config.Agent, Box: mailbox.Inbox, Name: it.File, Path: filepath.Join(inbox, it.File)}
}

// backoff returns how long to wait after so many failures in a row.
func (c *Config) backoff(failures int) time.Duration {
	wait := c.FirstRetry
	for range failures - 1 {
		if wait *= 2; wait >= c.LastRetry {
			break
		}
	}
	wait = min(wait, c.LastRetry)
	return wait - rand.N(wait/2+1)
}

// takeUp takes up what the Runner before left: turns that never ended count as
// attempts.
func (r *Runner) takeUp(ctx context.Context) error {
	var running []record
	r.journal.view(func(h *history) {
		for _, rec := range h.records {
			if rec.Running {
				running = append(running, *rec)
			}
		}
	})
	if bad := r.journal.bad; bad > 0 {
		r.problem(Event{}, fmt.Errorf("%s holds %d lines that are no facts, of a crash or another program; they are passed over", r.journal.path, bad))
	}
	if err := r.endOrphans(ctx, running); err != nil {
		return err
	}
	for _, rec := range running {
		f := lost.about(&rec)
		f.Reason = "the turn never ended: its runner was killed, or the machine went down"
		if err := r.journal.append(f, true); err != nil {
			return fmt.Errorf("taking up the turns of %s: %w", r.config.Agent, err)
		}
	}
	return nil
}

// endOrphans ends what still works on turns whose Runner is dead. What turns
// left behind that had ended was left there on purpose.
func (r *Runner) endOrphans(ctx context.Context, running []record) error {
	var marks []orphans.Mark
	for _, rec := range running {
		marks = append(marks, rec.Marks...)
	}
	ended, err := orphans.End(ctx, marks...)
	if len(ended) > 0 {
		r.observe(Event{Kind: EventWarning, Reason: "a runner was killed in a turn; what was still at work there was ended: " + orphans.List(ended)})
	}
	return err
}
