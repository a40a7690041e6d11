package turn

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/validate"
)

// Runner works the inbox of one agent. Make one with New. It is for one Run at
// a time.
type Runner struct {
	workspace *mailbox.Workspace
	config    Config
	now       func() time.Time
	// poll is how often it looks whether somebody appended to the journal.
	poll      time.Duration
	observing sync.Mutex

	journal *journal
	drivers *drivers
	queue   *queue
	// errands are what is left to do about messages that left the inbox.
	errands []*errand
	// invalid are files that are no messages, by name.
	invalid map[string]*badFile
	// busy are conversations in which somebody is at work, working how many.
	busy    map[schema.ConversationID]bool
	working int
	done    chan outcome
	// pausedUntil is when to try to start the agent again, pauses how often in
	// a row it could not be started.
	pausedUntil time.Time
	pauses      int
	// unavailable is why the agent could not be started, of interest with Once.
	unavailable error
	// dead are the messages that were given up.
	dead []string
}

// Run works the inbox until the context ends, or with Once until nothing is
// left to do; messages that are held or expired do not count. Running turns
// are stopped when the context ends: their messages stay in the inbox, and the
// attempts do not count.
//
// It returns nil when the context ended or all is done. Else it returns a
// *BusyError if another Runner works the inbox, an error matching
// agent.ErrUnavailable if the agent cannot be started at the begin (or at any
// time with Once), a *DeadLettersError if with Once some messages could not be
// handled, or what is wrong with the workspace.
func (r *Runner) Run(ctx context.Context) (err error) {
	release, err := takeLock(ctx, r.workspace, r.config.Agent, r.now())
	if err != nil {
		return stoppedOr(ctx, err)
	}
	defer func() { err = errors.Join(err, release()) }()
	if err := r.Preflight(ctx); err != nil {
		return stoppedOr(ctx, err)
	}
	if r.journal, err = openJournal(r.workspace, r.config.Agent, r.now); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.journal.close()) }()
	watcher, err := mailbox.NewWatcher(ctx, []mailbox.WatchTarget{{Workspace: r.workspace, Agent: r.config.Agent}},
		&mailbox.WatchOptions{Archived: true})
	if err != nil {
		return stoppedOr(ctx, err)
	}
	defer func() { err = errors.Join(err, watcher.Close()) }()

	r.drivers = &drivers{make: r.config.NewDriver, most: r.config.Parallel}
	defer func() { err = errors.Join(err, r.drivers.stop(context.WithoutCancel(ctx))) }()
	r.queue, r.errands, r.invalid, r.unavailable = newQueue(), nil, make(map[string]*badFile), nil
	r.busy, r.done, r.dead = make(map[schema.ConversationID]bool), make(chan outcome), nil
	return stoppedOr(ctx, r.work(ctx, watcher))
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
func (r *Runner) work(ctx context.Context, watcher *mailbox.Watcher) error {
	if err := r.takeUp(); err != nil {
		return err
	}
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
		if r.unavailable != nil {
			return r.unavailable
		}
	}
}

// verdict is what a run with Once comes to.
func (r *Runner) verdict() error {
	if len(r.dead) > 0 {
		return &DeadLettersError{Messages: r.dead}
	}
	return nil
}

// scan takes in what is in the inbox and was not taken in yet. It reports
// whether that was anything.
func (r *Runner) scan(ctx context.Context, watcher *mailbox.Watcher) (arrived bool, err error) {
	for event, err := range watcher.Scan(ctx) {
		if err != nil {
			return arrived, err
		}
		r.take(event)
		arrived = true
	}
	r.leftovers()
	return arrived, nil
}

// arrival is what a watch told: an event, or the error that ended it.
type arrival struct {
	event mailbox.Event
	err   error
}

// follow works until the context ends or, with Once, nothing is left to do,
// and returns when everybody has stopped.
func (r *Runner) follow(ctx context.Context, watcher *mailbox.Watcher) error {
	watching, stopWatching := context.WithCancel(ctx)
	arrivals := make(chan arrival)
	var watch sync.WaitGroup
	watch.Go(func() { forward(watching, watcher.Events(watching), arrivals) })
	err := r.loop(ctx, arrivals)
	stopWatching()
	watch.Wait()
	for r.working > 0 {
		r.finished(<-r.done)
	}
	return err
}

func forward(ctx context.Context, events iter.Seq2[mailbox.Event, error], to chan<- arrival) {
	for event, err := range events {
		select {
		case to <- arrival{event, err}:
		case <-ctx.Done():
			return
		}
	}
}

func (r *Runner) loop(ctx context.Context, arrivals <-chan arrival) error {
	for ctx.Err() == nil {
		next, more := r.dispatch(ctx)
		if r.config.Once && r.working == 0 && (!more || r.unavailable != nil) {
			return nil
		}
		timer := time.NewTimer(min(r.poll, max(0, next.Sub(r.now()))))
		select {
		case <-ctx.Done():
		case <-timer.C:
			if err := r.journal.refresh(); err != nil {
				timer.Stop()
				return err
			}
		case a := <-arrivals:
			if a.err != nil {
				timer.Stop()
				return a.err
			}
			r.take(a.event)
		case o := <-r.done:
			r.finished(o)
		}
		timer.Stop()
	}
	return nil
}

// take takes in what a watch saw.
func (r *Runner) take(event mailbox.Event) {
	switch event.Kind {
	case mailbox.EventArrived:
		delete(r.invalid, event.Name)
		r.takeMessage(event.Entry)
	case mailbox.EventArchived:
		delete(r.invalid, event.Name)
		if it := r.queue.byName[event.Name]; it != nil && !it.busy {
			r.drop(it)
		}
	case mailbox.EventError:
		var invalid *validate.InvalidError
		if event.Name != "" && (errors.As(event.Err, &invalid) || errors.Is(event.Err, durable.ErrTooLarge)) {
			r.invalid[event.Name] = &badFile{entry: event.Entry}
			return
		}
		r.problem(&record{File: event.Name}, event.Err)
	default:
		r.problem(&record{File: event.Name}, event.Err)
	}
}

func (r *Runner) takeMessage(e mailbox.Entry) {
	it, err := newItem(e)
	if err != nil {
		r.problem(&record{File: e.Name}, err)
		return
	}
	if old := r.queue.byName[e.Name]; old != nil && old.busy {
		old.replacement = it
		return
	}
	r.queue.add(it)
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
func (r *Runner) takeUp() error {
	var running []record
	r.journal.view(func(h *history) {
		for _, rec := range h.records {
			if rec.Running {
				running = append(running, *rec)
			}
		}
	})
	if bad := r.journal.bad; bad > 0 {
		r.problem(&record{}, fmt.Errorf("%s holds %d lines that are no facts, of a crash or another program; they are passed over", r.journal.path, bad))
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
