package turn

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/oacp-go/oacp/agent"
	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/mailbox/watch"
	"github.com/oacp-go/oacp/turn/track"
	"github.com/oacp-go/oacp/validate"
)

// maxFailures is how many failures of the workspace in a row end a run with Once.
const maxFailures = 5

// outcome is the result of work on an item or a follow-up.
type outcome struct {
	item     *item
	followUp *followUp
	// done reports whether nothing is left to do.
	done bool
	// failure is why the work could not be done, if it was not because of the message.
	failure error
	// unavailable is why the agent could not be started or, in an *UnclaimedError, why other machines could
	// not be asked for the message. started reports whether the agent was started.
	unavailable error
	started     bool
	// dead is the id, or the file, that became a dead letter.
	dead string
	// stop is why a run with Once cannot go on.
	stop error
	// joined are the outcomes of the messages that joined the turn on the item.
	joined []outcome
}

// followUp is work that belongs to no message in the inbox.
type followUp struct {
	do func() outcome
	// file is the name of the file in the inbox that it is about, or empty.
	file      string
	notBefore time.Time
	busy      bool
}

func (r *Runner) handle(event watch.Event) {
	switch event.Kind {
	case watch.EventArrived:
		r.forgetFile(event.Name)
		delete(r.withheld, event.Name)
		if old := r.schedule.items[event.Name]; old == nil || old.state != inWork {
			it := newItem(event.Name, event.Entry.Message)
			r.schedule.add(it)
			r.wakeAsker(it)
			r.steer(it, event.Entry.Message.Priority)
		}
	case watch.EventArchived:
		r.forgetFile(event.Name)
		if it := r.schedule.items[event.Name]; it != nil && it.state != inWork {
			r.schedule.remove(it.File)
			r.wakeAnswers(it)
			r.endClaim(it, true)
			r.followUp(it.Key)
		}
	case watch.EventError:
		if event.Name == "" {
			r.events.problem(Event{}, event.Err)
			return
		}
		r.forgetFile(event.Name)
		if isHeld(event.Err) {
			r.withhold(event.Entry)
			return
		}
		var invalid *validate.InvalidError
		if errors.As(event.Err, &invalid) || errors.Is(event.Err, durable.ErrTooLarge) {
			e := event.Entry
			r.followUps = append(r.followUps, &followUp{
				file: e.Name, notBefore: r.now().Add(r.patience), do: func() outcome { return r.deadLetterFile(e) },
			})
			return
		}
		r.unreadable[event.Name] = event.Err
		r.events.problem(Event{Envelope: track.Envelope{File: event.Name}}, event.Err)
	}
}

// forgetFile forgets a file that was not a message, and is now gone or different.
func (r *Runner) forgetFile(name string) {
	delete(r.unreadable, name)
	r.followUps = slices.DeleteFunc(r.followUps, func(f *followUp) bool { return f.file == name && !f.busy })
}

// dispatch starts work while there is room for it. It returns when to call it again if nothing happens before;
// zero means never.
func (r *Runner) dispatch(ctx context.Context) (next time.Time) {
	now := r.now()
	r.journal.View(func(h *track.History) {
		if h.Released != r.released {
			r.released = h.Released
			r.schedule.wakeAll()
		}
	})
	r.schedule.advance(now)
	for r.hasRoom() {
		it, do, ok := r.schedule.choose(now)
		if !ok {
			break
		}
		ahead := r.ahead(it, now)
		working, stop := context.WithCancelCause(ctx)
		r.inWork[it.Conversation] = it
		it.stop, it.joining = stop, make(chan *item, 16)
		r.start(func() outcome { return r.claimed(working, it, ahead, do) })
	}
	next = r.schedule.next
	for _, f := range r.followUps { // the schedule may have added some
		switch {
		case f.busy:
		case f.notBefore.After(now):
			if next.IsZero() || f.notBefore.Before(next) {
				next = f.notBefore
			}
		case r.hasRoom():
			f.busy = true
			r.start(func() outcome {
				o := f.do()
				o.followUp = f
				return o
			})
		}
	}
	return next
}

// moreToDo reports whether there is work that waits neither for a new message nor for a person.
func (r *Runner) moreToDo() bool {
	return r.working > 0 || len(r.followUps) > 0 || r.schedule.goesOn()
}

func (r *Runner) hasRoom() bool { return r.working < r.config.Parallel }

func (r *Runner) start(do func() outcome) {
	r.working++
	go func() { r.done <- do() }()
}

// errStopped ends a turn that somebody stopped.
var errStopped = errors.New("oacp stop ended the turn")

// stopTurns ends the turns that somebody stopped; see track.Stop.
func (r *Runner) stopTurns() {
	r.journal.View(func(h *track.History) {
		for _, it := range r.inWork {
			if rec := h.Records[it.Key]; rec != nil && rec.Running && rec.Stopped != "" {
				it.stop(errStopped)
			}
		}
	})
}

// finished handles an outcome.
func (r *Runner) finished(o outcome) {
	r.working--
	for _, j := range o.joined { // their messages are still in the schedule
		r.failed(j)
		if j.done {
			r.schedule.remove(j.item.File)
			r.followUp(j.item.Key)
			r.watcher.Forget(j.item.File)
		}
	}
	for _, one := range append(o.joined, o) {
		if one.dead != "" {
			r.dead = append(r.dead, one.dead)
		}
		r.stop = cmp.Or(r.stop, one.stop)
	}
	if o.started {
		r.pauses = 0
	}
	if o.unavailable != nil {
		r.pause(o.unavailable)
	}
	notBefore := r.failed(o)
	switch {
	case o.followUp != nil:
		o.followUp.busy, o.followUp.notBefore = false, notBefore
		if o.done {
			r.followUps = slices.DeleteFunc(r.followUps, func(f *followUp) bool { return f == o.followUp })
		}
	case o.item != nil:
		it := o.item
		it.stop(nil)
		delete(r.inWork, it.Conversation)
		it.notBefore = notBefore
		r.endClaim(it, o.done)
		r.schedule.putBack(it, o.done)
		if o.done {
			r.wakeAnswers(it)
			r.followUp(it.Key)
			r.watcher.Forget(it.File) // the message may be back already, or another one be there
		}
	}
}

// failed reports a failure of the workspace if the outcome is one, and returns when to try again.
func (r *Runner) failed(o outcome) (notBefore time.Time) {
	if o.failure == nil {
		r.failures = 0
		return time.Time{}
	}
	var about Event
	switch {
	case o.item != nil:
		about = EventProblem.of(&o.item.Envelope)
	case o.followUp != nil:
		about.File = o.followUp.file
	}
	r.events.problem(about, o.failure)
	if r.failures++; r.config.Once && r.failures >= maxFailures {
		r.stop = o.failure
	}
	return r.now().Add(r.retryDelay)
}

// pause postpones turns until it is time to start the agent, or to ask other machines, again: for a limit of which the program
// says when it ends, until then. Turns that end at the same time for the same limit say so once.
func (r *Runner) pause(why error) {
	e := Event{Kind: EventUnavailable, Reason: why.Error(), Err: why}
	unclaimed, isAway := errors.AsType[*UnclaimedError](why)
	limited, isLimited := errors.AsType[*agent.APIError](why)
	isLimited = isLimited && !limited.Until.IsZero()
	if isLimited && !limited.Until.After(r.pausedUntil) && !r.config.Once {
		return
	}
	r.pauses++
	wait := r.config.backoff(r.pauses)
	if isAway {
		wait = min(maxAway, wait)
		e.Reason, e.Err = "no turns start, because the remote cannot be reached: "+unclaimed.Err.Error(), unclaimed.Err
	}
	until := r.now().Add(wait)
	if isLimited && limited.Until.After(until) {
		until = limited.Until // by the clock, also while the machine sleeps
	}
	if until.After(r.pausedUntil) {
		r.pausedUntil = until
	}
	r.schedule.wakeAll()
	if r.config.Once {
		r.stop = why
	} else {
		e.RetryAt = r.pausedUntil
	}
	if !isAway || r.pauses == 1 && !r.config.Once {
		r.events.publish(e)
	}
}

// backoff returns how long to wait after so many failures in a row.
func (c *Config) backoff(failures int) time.Duration {
	wait := c.firstRetry
	for range failures - 1 {
		if wait *= 2; wait >= c.lastRetry {
			break
		}
	}
	wait = min(wait, c.lastRetry)
	return wait - rand.N(wait/2+1)
}

// decide says what to do about a message. It reads the journal again before a bound trips and before a
// message is given up or counts as handled, because a person may have resumed the conversation or restored
// the message since the last time.
func (r *Runner) decide(it *item, now time.Time) (d decision) {
	if r.isAnswer(it) {
		return decision{do: skip}
	}
	r.findAnswers(it)
	look := func(h *track.History) { d = r.config.decide(h, it, now, r.pausedUntil) }
	r.journal.View(look)
	if d.asked && !it.heard {
		if it.heard = r.hasEnded(it); it.heard {
			r.journal.View(look)
		}
	}
	if d.bound != nil && !d.bound.noticed || d.do == finish || d.do == giveUp {
		if err := r.journal.Refresh(); err != nil {
			r.events.problem(EventProblem.of(&it.Envelope), err)
			return d
		}
		r.journal.View(look)
	}
	if d.do == try || d.do == finish || d.do == giveUp {
		if other, ok := r.elsewhere(it); ok {
			return other
		}
	}
	return d
}

// report records and publishes, once, why a message gets no turn.
func (r *Runner) report(it *item, d decision) {
	if d.bound != nil && !d.bound.noticed {
		r.trip(it, d.bound)
	}
	// The journal forgets that a message is held when its bound is lifted.
	rec, _ := r.journal.Get(it.Key)
	isNew := d.kind == EventHeld && rec.Held != d.reason && !d.taken // whether a program still lives is not written down
	if d.reason == "" || d.reason == it.reported && !isNew {
		return
	}
	it.reported = d.reason
	if isNew {
		f := track.Fact{Kind: track.Held, Envelope: it.Envelope, Reason: d.reason}
		if err := r.journal.Append(f, false); err != nil {
			r.events.problem(EventProblem.of(&it.Envelope), err)
		}
	}
	e := d.kind.of(&it.Envelope)
	e.Reason, e.Machine = d.reason, d.machine
	r.events.publish(e)
}

// trip records that a bound has tripped, and sends both sides a notice.
func (r *Runner) trip(it *item, t *tripped) {
	notice := r.closer.boundNotice(&it.Envelope, t.reason, t.remedy)
	f := track.Fact{Kind: track.Bound, Envelope: t.about, Reason: t.reason, Send: notice}
	if err := r.closer.append(f, true); err != nil {
		r.events.problem(EventProblem.of(&it.Envelope), err)
		return
	}
	e := EventBound.of(&it.Envelope)
	e.Reason, e.Sent = t.reason, notice.ID
	r.events.publish(e)
	r.followUps = append(r.followUps, r.closer.sendNotice(t.about, notice))
}
