package turn

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/oacp-go/oacp/internal/exclusive"
	"github.com/oacp-go/oacp/internal/orphans"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/trust"
	"github.com/oacp-go/oacp/mailbox/watch"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn/track"
)

// Runner works the inbox of one agent. Create one with New. It must not run more than once at a
// time.
type Runner struct {
	workspace *mailbox.Workspace
	config    Config
	now       func() time.Time
	// poll is how often the Runner reads what others appended to the journal, and retryDelay how
	// long it waits after a failure of the workspace.
	poll, retryDelay time.Duration
	// patience is how long an invalid file may stay as it is: somebody may be editing it.
	patience time.Duration

	hold     *exclusive.Hold
	watcher  *watch.Watcher
	journal  *track.Journal
	schedule *schedule
	events   *events
	closer   *closer
	worker   *worker
	// followUps are what is left to do about messages that left the inbox, and about files in it
	// that are not messages.
	followUps []*followUp
	// unreadable are the errors of the files in the inbox that could not be read, by name.
	unreadable map[string]error
	// working counts the goroutines at work. Each sends an outcome to done. inWork are the messages that they work on.
	working int
	inWork  map[schema.ConversationID]*item
	done    chan outcome
	// released is the value of track.History.Released when the schedule was last woken for it.
	released int
	// pausedUntil is when turns may begin again, and pauses how often in a row none could.
	pausedUntil time.Time
	pauses      int
	// trusted is the state of the files that say which keys the agent trusts. withheld are the reasons why it
	// does not read files in the inbox, by name.
	trusted  trust.Stamp
	withheld map[string]string
	// failures counts the failures of the workspace in a row.
	failures int
	// stop is why a run with Once cannot go on.
	stop error
	// dead are the ids and files that became dead letters.
	dead []string
	// Finish closes finish, so that no further turns begin.
	finish     chan struct{}
	finishOnce sync.Once
}

// Run works the inbox until the context ends, or with Once until nothing is left to do; messages
// that are held, expired or claimed elsewhere do not count. When the context ends, running turns
// are stopped: their messages stay in the inbox, and the attempts do not count.
//
// Run returns nil if the context ended, everything is done, or Finish was called. The error is a
// *BusyError if another Runner works the inbox. It matches agent.ErrUnavailable if the agent cannot
// be started at first, or at any time with Once, and track.ErrStateLost if another program removed the lock
// or the journal. With Once it is a *DeadLettersError if messages became dead letters, a
// *mailbox.UnreadableError if files could not be read, and an *UnclaimedError if the remote with the claims does
// not answer. Other errors are about the workspace, such as an inbox that cannot be read.
func (r *Runner) Run(ctx context.Context) (err error) {
	if r.hold, err = track.LockInbox(ctx, r.workspace, r.config.Agent, r.now()); err != nil {
		return stoppedOr(ctx, err)
	}
	defer func() { err = errors.Join(err, r.hold.Release()) }()
	if r.journal, err = track.OpenJournal(r.workspace, r.config.Agent, r.now); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.journal.Close()) }()
	r.journal.MayWrite = r.checkHeld
	r.reset()
	if err := r.journal.Compact(track.CompactAbove); err != nil { // that can wait
		r.events.problem(Event{}, err)
	}
	// This comes first, so that the turns of a dead Runner do not count as ours.
	if err := r.endLostTurns(ctx); err != nil {
		return stoppedOr(ctx, err)
	}
	defer func() { err = errors.Join(err, r.worker.drivers.Stop(context.WithoutCancel(ctx))) }()
	// The agent keeps running for the first conversation, because some bridges say only once that they are ready.
	driver, err := r.worker.drivers.Get(ctx, "", "", false)
	if err == nil {
		err = r.worker.drivers.Keep(ctx, "", driver)
	}
	if err != nil {
		return stoppedOr(ctx, err)
	}
	defer func() { err = errors.Join(err, r.stopClaims(ctx)) }()
	if err := r.startClaims(ctx); err != nil {
		return stoppedOr(ctx, err)
	}
	r.watcher, err = watch.New([]watch.Target{{Workspace: r.workspace, Agent: r.config.Agent}},
		&watch.Options{Archived: true})
	if err != nil {
		return stoppedOr(ctx, err)
	}
	defer func() { err = errors.Join(err, r.watcher.Close()) }()
	if r.config.Ready != nil {
		r.config.Ready()
	}
	return stoppedOr(ctx, r.work(ctx))
}

// Finish makes Run return once the current turns have ended, their answers are sent and their
// messages acknowledged. No further turns begin. Finish may be called from any goroutine, including
// Observe, before Run, and more than once.
func (r *Runner) Finish() { r.finishOnce.Do(func() { close(r.finish) }) }

func (r *Runner) finishing() bool {
	select {
	case <-r.finish:
		return true
	default:
		return false
	}
}

// reset makes the state of a run that knows no message yet. The journal has the history of each message.
func (r *Runner) reset() {
	c := &r.config
	r.events = &events{config: c, now: r.now, problems: make(map[string]int), lost: make(chan error, 1)}
	r.closer = &closer{workspace: r.workspace, config: c, now: r.now, journal: r.journal, events: r.events}
	turns := track.OwnerOf(r.workspace, c.Agent)
	r.worker = &worker{r.closer, r.retryDelay, turns, newPool(turns, c.NewDriver, c.Parallel)}
	r.schedule = newSchedule(r.decide, r.report)
	r.unreadable, r.withheld = make(map[string]error), make(map[string]string)
	r.followUps, r.stop, r.dead = nil, nil, nil
	r.done, r.inWork = make(chan outcome), make(map[schema.ConversationID]*item)
}

// stoppedOr returns nil for an error that only means that the context ended.
func stoppedOr(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil && errors.Is(err, cause) {
		return nil
	}
	return err
}

// checkHeld returns an error that matches ErrStateLost if this process no longer holds the lock.
func (r *Runner) checkHeld() error {
	lost, err := r.hold.Lost()
	if lost {
		err = fmt.Errorf("%w: %s", track.ErrStateLost, r.hold.Path())
	}
	return err
}

// endLostTurns ends the turns of a Runner that died: it kills the processes that they left behind,
// and counts each turn as an attempt.
func (r *Runner) endLostTurns(ctx context.Context) error {
	var running []track.Record
	var marks []orphans.Mark
	r.journal.View(func(h *track.History) {
		for _, rec := range h.Records {
			if rec.Running {
				running = append(running, *rec)
				marks = append(marks, rec.Marks...)
			}
		}
	})
	killed, err := r.worker.turns.End(ctx, marks...)
	if len(killed) > 0 {
		r.events.publish(Event{Kind: EventWarning, Reason: "a runner died during a turn; these processes of the turn were still running and were killed: " + strings.Join(killed, ", ")})
	}
	if err != nil {
		return err
	}
	for _, rec := range running {
		f := track.Lost.About(&rec)
		f.Reason = "the turn never ended: its runner was killed, or the machine crashed"
		if err := r.journal.Append(f, true); err != nil {
			return fmt.Errorf("ending the lost turns of %s: %w", r.config.Agent, err)
		}
	}
	return nil
}

// work alternates between scanning the inbox and following it. It reads the whole inbox before the first
// turn begins, so that the most urgent message comes first.
func (r *Runner) work(ctx context.Context) error {
	for {
		for event, err := range r.watcher.Scan(ctx) {
			if err != nil {
				return err
			}
			r.handle(event)
		}
		r.findFollowUps()
		if r.config.Once && !r.moreToDo() {
			return r.result()
		}
		if err := r.follow(ctx); err != nil || ctx.Err() != nil {
			return err
		}
		if r.stop != nil {
			return r.stop
		}
		if r.finishing() {
			return r.result()
		}
	}
}

// result is the error of a run that ends by itself.
func (r *Runner) result() error {
	if !r.config.Once {
		return nil
	}
	var errs []error
	if len(r.dead) > 0 {
		errs = append(errs, &DeadLettersError{r.config.Agent, r.dead})
	}
	if len(r.unreadable) > 0 {
		err := errors.Join(slices.Collect(maps.Values(r.unreadable))...)
		errs = append(errs, &mailbox.UnreadableError{Err: err, Agents: []schema.AgentName{r.config.Agent}})
	}
	return errors.Join(append(errs, r.watcher.Unread())...)
}

// follow works until the context ends or, with Once, nothing is left to do. It returns when all
// goroutines have ended. If it can no longer write the journal, it stops the running turns.
func (r *Runner) follow(ctx context.Context) error {
	ctx, breakOff := context.WithCancelCause(ctx)
	defer breakOff(nil)
	watching, stopWatching := context.WithCancel(ctx)
	arrivals := make(chan watch.Event)
	watched := make(chan error, 1)
	go func() {
		defer close(arrivals)
		for event, err := range r.watcher.Events(watching) {
			if err != nil {
				watched <- err
				return
			}
			arrivals <- event
		}
		watched <- nil
	}()
	err := r.loop(ctx, arrivals, watched)
	if err != nil {
		breakOff(err)
	}
	stopWatching()
	for event := range arrivals {
		r.handle(event) // the watcher does not repeat it
	}
	if watchErr := <-watched; err == nil {
		err = watchErr
	}
	for r.working > 0 {
		r.finished(<-r.done)
	}
	select {
	case lost := <-r.events.lost:
		return lost
	default:
		return err
	}
}

// loop starts work, and handles arrivals and outcomes. If the watch ends, it returns and leaves the
// watch's error in the channel.
func (r *Runner) loop(ctx context.Context, arrivals <-chan watch.Event, watched chan error) error {
	finish := r.finish
	var changed <-chan struct{}
	if r.config.Claims != nil {
		changed = r.config.Claims.Changed()
	}
	refresh := time.NewTicker(r.poll)
	defer refresh.Stop()
	for ctx.Err() == nil {
		var next <-chan time.Time
		stopping := r.stop != nil || r.finishing()
		if !stopping {
			if at := r.dispatch(ctx); !at.IsZero() {
				next = time.After(at.Sub(r.now()))
			}
		}
		if r.working == 0 && (r.finishing() || r.config.Once && (stopping || !r.moreToDo())) {
			return nil
		}
		select {
		case <-ctx.Done():
		case <-next:
		case <-finish:
			finish = nil // once is enough
		case <-refresh.C:
			if err := r.journal.Refresh(); err != nil {
				return err
			}
			r.lookAgain()
			r.stopTurns()
		case <-changed:
			r.schedule.wakeAll()
		case err := <-r.events.lost:
			return err
		case event := <-arrivals:
			r.handle(event)
		case err := <-watched:
			watched <- err
			return nil
		case o := <-r.done:
			r.finished(o)
		}
	}
	return nil
}
