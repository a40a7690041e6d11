package turn

import (
	"slices"
	"time"

	"github.com/oacp-go/oacp/schema"
)

// action is what to do about a message now.
type action int

const (
	// skip leaves the message in the inbox. wait also holds up the messages behind it in its
	// conversation.
	skip action = iota
	wait
	// try gives the message a turn, giveUp makes it a dead letter, and finish completes what an
	// earlier turn or dead letter began.
	try
	giveUp
	finish
)

// decision is what to do about a message, and why. It depends on the message, the configuration,
// the time, when the agent is available, and on the history. The schedule makes a decision to wait
// again at its time, and when facts that may end it are written: see history.released.
type decision struct {
	do action
	// alone says that nothing else may run at the same time. A message whose last turn was lost may
	// have killed the runner, so it runs alone.
	alone bool
	// at is when to decide again, if that is known.
	at time.Time
	// resumes says that the message goes on by itself at that time.
	resumes bool
	// kind and reason make the event that says why there is no turn.
	kind   EventKind
	reason string
	bound  *tripped
}

// held returns the fact that the message is held.
func (d *decision) held(it *item) fact {
	f := held.of(&it.envelope)
	f.Reason = d.reason
	if d.bound != nil {
		f.By = d.bound.kind()
	}
	return f
}

// decide says what to do about a message, for an agent that is unavailable until pausedUntil.
func (c *Config) decide(h *history, it *item, now, pausedUntil time.Time) decision {
	rec := h.records[it.key]
	if rec == nil {
		rec = &record{}
	}
	// A retry that is too far in the future was planned before the clock was set back. It does not
	// count until the clock is near it again.
	near := rec.RetryAt.Add(-c.LastRetry)
	far := near.After(now)
	switch {
	case it.notBefore.After(now):
		return decision{do: wait, at: it.notBefore, resumes: true}
	case rec.Outcome == succeeded, rec.Outcome == dead && !rec.Settled:
		return decision{do: finish}
	case !it.expires.IsZero() && !now.Before(it.expires):
		return decision{do: skip, kind: EventExpired, reason: "it expired at " + string(schema.NewTimestamp(it.expires))}
	case it.notice:
		return decision{do: skip, kind: EventHeld, reason: "notices get no turns"}
	case !c.allows(it.From):
		return decision{do: skip, kind: EventHeld, reason: "messages from " + string(it.From) + " get no turns here"}
	case rec.Outcome != dead && rec.Attempts >= c.MaxAttempts:
		return decision{do: giveUp}
	case rec.Outcome != dead && rec.RetryAt.After(now) && !far:
		return decision{do: wait, at: rec.RetryAt, resumes: true}
	case pausedUntil.After(now):
		return decision{do: wait, at: pausedUntil, resumes: true}
	}
	if bound := c.checkBounds(h, &it.envelope, now); bound != nil {
		at := bound.until
		if far && (at.IsZero() || near.Before(at)) {
			at = near
		}
		return decision{do: wait, at: at, kind: EventHeld, reason: bound.reason, bound: bound}
	}
	return decision{do: try, alone: rec.Lost}
}

func (c *Config) allows(name schema.AgentName) bool {
	return len(c.AllowFrom) == 0 || slices.Contains(c.AllowFrom, name)
}
