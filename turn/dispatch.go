package turn

import (
	"context"
	"slices"
	"time"
)

// invalidAfter is how long a file that is no message may stay before it
// becomes a dead letter: another tool may still be writing it.
const invalidAfter = time.Minute

// troubleMost is after how much trouble in a row a run with Once ends.
const troubleMost = 5

// outcome is what came of working on something.
type outcome struct {
	item   *item
	errand *errand
	bad    *badFile
	// settled says that nothing is left to do.
	settled bool
	// replacement is what came into the place of the item's file.
	replacement *item
	// trouble is why it could not be done, if that is no message's fault.
	trouble error
	// unavailable is why the agent could not be started.
	unavailable error
	// started says that it could.
	started bool
	// dead names a message, or a file that is none, that was given up.
	dead string
}

// An errand is something to be done that belongs to no file in the inbox.
type errand struct {
	do        func(ctx context.Context) error
	notBefore time.Time
	busy      bool
}

// dispatch gives work to whoever is free. It returns when to look again at the
// latest, and whether there is more to do without anybody's doing.
func (r *Runner) dispatch(ctx context.Context) (next time.Time, more bool) {
	now := r.now()
	r.schedule.wakeChanged(r.journal.takeChanges())
	r.schedule.wakeDue(now)
	next = now.Add(r.poll)
	later := func(at time.Time) {
		if at.After(now) && at.Before(next) {
			next = at
		}
	}
	known := len(r.errands)
	for _, e := range r.errands {
		if later(e.notBefore); r.free() && !e.busy && !e.notBefore.After(now) {
			e.busy = true
			r.start(ctx, func(ctx context.Context) outcome { return r.runErrand(ctx, e) })
		}
	}
	for r.free() {
		b, ok := r.invalid.next(now)
		if !ok {
			break
		}
		r.start(ctx, func(ctx context.Context) outcome { return r.buryInvalid(ctx, b) })
	}
	later(r.invalid.nextDue())
	for r.free() {
		it, do, ok := r.schedule.next(now)
		if !ok {
			break
		}
		r.start(ctx, func(ctx context.Context) outcome { return r.workOn(ctx, it, do) })
	}
	at, will := r.schedule.waits()
	later(at)
	if len(r.errands) > known { // a bound has tripped just now
		next = now
	}
	return next, len(r.errands) > 0 || will || r.working > 0
}

// free reports whether there is room for somebody more to work.
func (r *Runner) free() bool { return r.working < r.config.Parallel }

// start has something done by somebody else.
func (r *Runner) start(ctx context.Context, do func(context.Context) outcome) {
	r.working++
	go func() { r.done <- do(ctx) }()
}

// finished takes in what came of it.
func (r *Runner) finished(o outcome) {
	r.working--
	if o.dead != "" {
		r.dead = append(r.dead, o.dead)
	}
	if o.started {
		r.pauses = 0
	}
	if o.unavailable != nil {
		r.pause(o.unavailable)
	}
	notBefore := r.trouble(o)
	switch {
	case o.errand != nil:
		o.errand.busy, o.errand.notBefore = false, notBefore
		if o.settled {
			r.errands = slices.DeleteFunc(r.errands, func(e *errand) bool { return e == o.errand })
		}
	case o.bad != nil:
		r.invalid.giveBack(o.bad, o.settled, notBefore)
	case o.item != nil:
		o.item.notBefore = notBefore
		r.finishedItem(o)
	}
	if err := r.journal.compact(); err != nil {
		r.problem(Event{}, err)
	}
}

// trouble tells of what went wrong with the workspace, and returns when to try
// again.
func (r *Runner) trouble(o outcome) (notBefore time.Time) {
	if o.trouble == nil {
		r.troubles = 0
		return time.Time{}
	}
	var about Event
	switch {
	case o.item != nil:
		about = EventProblem.of(&o.item.envelope)
	case o.bad != nil:
		about.File = o.bad.entry.Name
	}
	r.problem(about, o.trouble)
	if r.troubles++; r.config.Once && r.troubles >= troubleMost {
		r.stop = o.trouble
	}
	return r.now().Add(r.troubleRetry)
}

func (r *Runner) finishedItem(o outcome) {
	it := o.item
	replacement := it.replacement
	it.replacement = nil
	if replacement == nil {
		replacement = o.replacement
	}
	gone := o.settled || replacement != nil
	if r.schedule.giveBack(it, gone); gone {
		r.leave(it.key)
	}
	if replacement != nil {
		r.schedule.add(replacement)
	}
}

// leave makes an errand of what is left to do about a message whose file has
// gone, such as a notice that could not be sent yet. Where nothing came of the
// message it writes down that it has gone.
func (r *Runner) leave(k key) {
	switch rec, known := r.journal.get(k); {
	case !known || rec.done():
	case rec.missing():
		if err := r.journal.append(fact{Kind: removed, key: k}, false); err != nil {
			r.problem(EventProblem.of(&rec.envelope), err)
		}
	case rec.Outcome != "":
		r.errands = append(r.errands, &errand{do: func(ctx context.Context) error { return r.carryOut(ctx, k, nil) }})
	}
}

// pause lets some time pass before the agent is started again.
func (r *Runner) pause(why error) {
	r.pauses++
	wait := r.config.backoff(r.pauses)
	r.pausedUntil = r.now().Add(wait)
	r.schedule.wakeForAgent()
	if r.config.Once {
		r.stop = why
	}
	r.observe(Event{Kind: EventUnavailable, Reason: why.Error(), Err: why, RetryAt: r.pausedUntil})
}

// tell says once why a message waits.
func (r *Runner) tell(it *item, j judgement) {
	if j.bound != nil && !j.bound.noticed {
		r.trip(it, j.bound)
	}
	// What is held was released since, if the journal does not say it.
	rec, _ := r.journal.get(it.key)
	unknown := j.kind == EventHeld && rec.Held != j.reason
	if j.reason == "" || j.reason == it.reported && !unknown {
		return
	}
	it.reported = j.reason
	if unknown {
		if err := r.journal.append(j.held(it), false); err != nil {
			r.problem(EventProblem.of(&it.envelope), err)
		}
	}
	e := j.kind.of(&it.envelope)
	e.Reason = j.reason
	r.observe(e)
}

// judge decides what is to be done about a message.
func (r *Runner) judge(it *item, now time.Time) (j judgement) {
	r.journal.view(func(h *history) { j = r.config.judge(h, it, now, r.pausedUntil) })
	return j
}

// trip writes down that a bound has tripped, and has both sides told.
func (r *Runner) trip(it *item, t *tripped) {
	f := t.about(bound)
	f.Reason = t.reason
	f.Send = r.boundNotice(&it.envelope, t.reason, t.letGoOn)
	if err := r.journal.append(f, true); err != nil {
		r.problem(EventProblem.of(&it.envelope), err)
		return
	}
	e := EventBound.of(&it.envelope)
	e.Reason, e.Sent = t.reason, f.Send.ID
	r.observe(e)
	r.errands = append(r.errands, r.notify(*t, f.Send))
}
