package turn

import (
	"context"
	"slices"
	"time"

	"github.com/oacp-go/oacp/schema"
)

// invalidAfter is how long a file that is no message may stay before it
// becomes a dead letter: another tool may still be writing it.
const invalidAfter = time.Minute

// troubleMost is after how much trouble in a row a run with Once ends.
const troubleMost = 5

// verb is what is to be done about a message now.
type verb int

const (
	// pass leaves it, wait leaves it and all that follows in its conversation.
	pass verb = iota
	wait
	// try gives it a turn, giveUp makes it a dead letter, finish does what is
	// left after one of both.
	try
	giveUp
	finish
)

// judgement is what is to be done about a message, and why.
type judgement struct {
	do verb
	// at is when to look again, if that can be told.
	at time.Time
	// will says that there is more to come without anybody's doing.
	will bool
	// kind and reason are told once.
	kind   EventKind
	reason string
	bound  *tripped
}

// outcome is what came of working on something.
type outcome struct {
	item         *item
	errand       *errand
	bad          *badFile
	conversation schema.ConversationID
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
	next = now.Add(r.poll)
	later := func(at time.Time) {
		if !at.IsZero() && at.Before(next) {
			next = at
		}
	}
	for _, e := range r.errands {
		more = true
		if later(e.notBefore); !e.busy && !e.notBefore.After(now) && r.working < r.config.Parallel {
			e.busy = true
			r.start(ctx, "", func(ctx context.Context) outcome { return r.runErrand(ctx, e) })
		}
	}
	for _, b := range r.invalid {
		due := b.due()
		if later(due); !b.busy && !due.After(now) && r.working < r.config.Parallel {
			b.busy = true
			r.start(ctx, "", func(ctx context.Context) outcome { return r.buryInvalid(ctx, b) })
		}
	}
	at, rest := r.dispatchMessages(ctx, now)
	later(at)
	return next, more || rest || r.working > 0
}

func (r *Runner) dispatchMessages(ctx context.Context, now time.Time) (next time.Time, more bool) {
	waiting := make(map[schema.ConversationID]bool)
	for _, it := range r.queue.inOrder() {
		if r.working >= r.config.Parallel {
			return next, true
		}
		conversation := it.record.Conversation
		if it.busy || r.busy[conversation] || waiting[conversation] {
			continue
		}
		j := r.judge(it, now)
		if j.at.After(now) && (next.IsZero() || j.at.Before(next)) {
			next = j.at
		}
		more = more || j.will
		switch j.do {
		case pass:
			r.tell(it, j)
		case wait:
			waiting[conversation] = true
			r.tell(it, j)
		default:
			it.busy, it.reported = true, ""
			r.start(ctx, conversation, func(ctx context.Context) outcome { return r.workOn(ctx, it, j.do) })
		}
	}
	return next, more
}

// start has something done by somebody else.
func (r *Runner) start(ctx context.Context, conversation schema.ConversationID, do func(context.Context) outcome) {
	r.working++
	if conversation != "" {
		r.busy[conversation] = true
	}
	go func() {
		o := do(ctx)
		o.conversation = conversation
		r.done <- o
	}()
}

// finished takes in what came of it.
func (r *Runner) finished(o outcome) {
	r.working--
	delete(r.busy, o.conversation)
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
		o.bad.busy, o.bad.notBefore = false, notBefore
		if o.settled && r.invalid[o.bad.entry.Name] == o.bad {
			delete(r.invalid, o.bad.entry.Name)
		}
	case o.item != nil:
		o.item.busy, o.item.notBefore = false, notBefore
		r.finishedItem(o)
	}
	if err := r.journal.compact(); err != nil {
		r.problem(&record{}, err)
	}
}

// trouble tells of what went wrong with the workspace, and returns when to try
// again.
func (r *Runner) trouble(o outcome) (notBefore time.Time) {
	if o.trouble == nil {
		r.troubles = 0
		return time.Time{}
	}
	about := &record{}
	switch {
	case o.item != nil:
		about = &o.item.record
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
	if o.settled || replacement != nil {
		r.drop(it)
	}
	if replacement != nil {
		r.queue.add(replacement)
	}
}

// drop takes an item out whose file has gone. What is left to do about it, such
// as a notice that could not be sent yet, becomes an errand.
func (r *Runner) drop(it *item) {
	r.queue.remove(it.entry.Name)
	k := it.record.key
	if rec, known := r.journal.get(k); known && rec.Outcome != "" && !rec.done() {
		r.errands = append(r.errands, &errand{do: func(ctx context.Context) error { return r.carryOut(ctx, k, nil) }})
	}
}

// pause lets some time pass before the agent is started again.
func (r *Runner) pause(why error) {
	r.pauses++
	wait := r.config.backoff(r.pauses)
	r.pausedUntil = r.now().Add(wait)
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
	if j.reason == "" || j.reason == it.reported {
		return
	}
	it.reported = j.reason
	if rec, _ := r.journal.get(it.record.key); rec.Held != j.reason && j.kind == EventHeld {
		f := held.about(&it.record)
		f.Reason = j.reason
		if err := r.journal.append(f, false); err != nil {
			r.problem(&it.record, err)
		}
	}
	e := j.kind.about(&it.record)
	e.Reason = j.reason
	r.observe(e)
}

// judge decides what is to be done about a message.
func (r *Runner) judge(it *item, now time.Time) (j judgement) {
	r.journal.view(func(h *history) {
		rec := h.records[it.record.key]
		if rec == nil {
			rec = &it.record
		}
		j = r.judgeRecord(h, rec, it, now)
	})
	return j
}

func (r *Runner) judgeRecord(h *history, rec *record, it *item, now time.Time) judgement {
	switch {
	case it.notBefore.After(now):
		return judgement{do: wait, at: it.notBefore, will: true}
	case rec.Outcome == succeeded, rec.Outcome == dead && !rec.Settled:
		return judgement{do: finish}
	case !it.expires.IsZero() && !now.Before(it.expires):
		return judgement{do: pass, kind: EventExpired, reason: "it expired at " + string(schema.NewTimestamp(it.expires))}
	case !r.allows(it.record.From):
		return judgement{do: pass, kind: EventHeld, reason: "messages from " + string(it.record.From) + " get no turns here"}
	case rec.Outcome != dead && rec.Attempts >= r.config.MaxAttempts:
		return judgement{do: giveUp}
	case rec.Outcome != dead && rec.RetryAt.After(now):
		return judgement{do: wait, at: rec.RetryAt, will: true}
	case r.pausedUntil.After(now):
		return judgement{do: wait, at: r.pausedUntil, will: true}
	}
	if bound := r.config.checkBounds(h, &it.record, now); bound != nil {
		return judgement{do: wait, at: bound.until, kind: EventHeld, reason: bound.reason, bound: bound}
	}
	return judgement{do: try}
}

func (r *Runner) allows(name schema.AgentName) bool {
	return len(r.config.AllowFrom) == 0 || name == Postmaster || slices.Contains(r.config.AllowFrom, name)
}

// trip writes down that a bound has tripped, and has both sides told.
func (r *Runner) trip(it *item, t *tripped) {
	f := t.about(bound)
	f.Reason = t.reason
	f.Send = r.boundNotice(&it.record, t.reason, t.letGoOn)
	if err := r.journal.append(f, true); err != nil {
		r.problem(&it.record, err)
		return
	}
	e := EventBound.about(&it.record)
	e.Reason, e.Sent = t.reason, f.Send.ID
	r.observe(e)
	r.errands = append(r.errands, r.notify(*t, f.Send))
}
