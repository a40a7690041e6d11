package turn

import (
	"slices"
	"time"

	"github.com/oacp-go/oacp/schema"
)

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
//
// It comes from the message, the configuration, the time, the availability of
// the agent, and of the history from the records of the message's conversation,
// the state of that conversation and that of the message's sender; from the
// last two only where a bound is set. Whatever else it is made to come from,
// the schedule must be told when that changes.
type judgement struct {
	do verb
	// alone says that no other turn may run beside it. What has lost its turn
	// may have killed the runner, and those whose turns ran beside it: they are
	// told apart by giving each a turn alone.
	alone bool
	// at is when to look again, if that can be told.
	at time.Time
	// will says that there is more to come without anybody's doing.
	will bool
	// needsAgent says that it waits for the agent to be available.
	needsAgent bool
	// kind and reason are told once.
	kind   EventKind
	reason string
	bound  *tripped
}

// sender returns whose turns keep the message waiting, if they do.
func (j *judgement) sender() schema.AgentName {
	if j.bound == nil || j.bound.kind() != onPair {
		return ""
	}
	return j.bound.sender
}

// held makes the fact that the message is held.
func (j *judgement) held(it *item) fact {
	f := held.of(&it.envelope)
	f.Reason = j.reason
	if j.bound != nil {
		f.By = j.bound.kind()
	}
	return f
}

// judge decides what is to be done about a message, for an agent that is not
// to be started before pausedUntil.
func (c *Config) judge(h *history, it *item, now, pausedUntil time.Time) judgement {
	rec := h.records[it.key]
	if rec == nil {
		rec = &record{}
	}
	// A retry that is too far away was planned before the clock was set back,
	// and does not count until the clock is near it again.
	near := rec.RetryAt.Add(-c.LastRetry)
	far := near.After(now)
	switch {
	case it.notBefore.After(now):
		return judgement{do: wait, at: it.notBefore, will: true}
	case rec.Outcome == succeeded, rec.Outcome == dead && !rec.Settled:
		return judgement{do: finish}
	case !it.expires.IsZero() && !now.Before(it.expires):
		return judgement{do: pass, kind: EventExpired, reason: "it expired at " + string(schema.NewTimestamp(it.expires))}
	case !it.Notice && !c.allows(it.From):
		return judgement{do: pass, kind: EventHeld, reason: "messages from " + string(it.From) + " get no turns here"}
	case rec.Outcome != dead && rec.Attempts >= c.MaxAttempts:
		return judgement{do: giveUp}
	case rec.Outcome != dead && rec.RetryAt.After(now) && !far:
		return judgement{do: wait, at: rec.RetryAt, will: true}
	case pausedUntil.After(now):
		return judgement{do: wait, at: pausedUntil, will: true, needsAgent: true}
	}
	if bound := c.checkBounds(h, &it.envelope, now); bound != nil {
		at := bound.until
		if far && (at.IsZero() || near.Before(at)) {
			at = near
		}
		return judgement{do: wait, at: at, kind: EventHeld, reason: bound.reason, bound: bound}
	}
	return judgement{do: try, alone: rec.Lost}
}

func (c *Config) allows(name schema.AgentName) bool {
	return len(c.AllowFrom) == 0 || slices.Contains(c.AllowFrom, name)
}
