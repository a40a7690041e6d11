package turn

import (
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn/track"
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
	// acknowledge takes a message out of the inbox that another turn had.
	acknowledge
)

// decision is what to do about a message, and why. It depends on the message, the configuration, the time, when the
// agent is available, and the history. A message that waits gets another decision at the time of this one, and after
// facts that may end the wait; see track.History.Released.
type decision struct {
	do action
	// alone makes the message run without others, because its last turn may have killed the Runner.
	alone bool
	// at is when to decide again, if that is known.
	at time.Time
	// resumes reports whether the message resumes by itself at that time.
	resumes bool
	// kind and reason make the event that says why there is no turn.
	kind   EventKind
	reason string
	bound  *tripped
	// taken reports whether another program of the agent has the message.
	taken bool
	// asked reports whether the message waits for the answer to what a turn on it asked back.
	asked bool
	// machine is the other machine that has the message.
	machine string
}

// decide says what to do about a message, for an agent that is unavailable until pausedUntil.
func (c *Config) decide(h *track.History, it *item, now, pausedUntil time.Time) decision {
	rec := h.Records[it.Key]
	if rec == nil {
		rec = &track.Record{}
	}
	// A retry that is too far in the future was planned before the clock was set back. It does not
	// count until the clock comes near it.
	near := rec.RetryAt.Add(-c.lastRetry)
	far := near.After(now)
	switch {
	case it.notBefore.After(now):
		return decision{do: wait, at: it.notBefore, resumes: true}
	case rec.Outcome == track.Succeeded, rec.Outcome == track.Dead && !rec.Settled:
		return decision{do: finish}
	case rec.Stopped != "":
		return decision{do: skip, kind: EventHeld, reason: rec.Stopped}
	case len(rec.Awaits) > 0 && !it.heard:
		return decision{do: skip, kind: EventHeld, reason: rec.Waits(), at: now.Add(c.askAgain), asked: true}
	case !it.expires.IsZero() && !now.Before(it.expires) && rec.Asks == 0:
		return decision{do: skip, kind: EventExpired, reason: "it expired at " + string(schema.NewTimestamp(it.expires))}
	case it.notice:
		return decision{do: skip, kind: EventHeld, reason: "notices get no turns"}
	case c.Autonomy.Holds():
		return decision{do: skip, kind: EventHeld, reason: fmt.Sprintf(
			"the autonomy of %s is %s, so a person decides; oacp run --autonomy auto gives it a turn, and so does run: {autonomy: auto} in %s",
			c.Agent, c.Autonomy, project.ConfigPath(c.Agent))}
	case len(c.AllowFrom) > 0 && !slices.Contains(c.AllowFrom, it.From):
		return decision{do: skip, kind: EventHeld, reason: "messages from " + string(it.From) + " get no turns here"}
	}
	if bound := c.checkHops(h, it, rec); bound != nil {
		return decision{do: skip, kind: EventHeld, reason: bound.reason, bound: bound}
	}
	if running, ended := h.WasAwaited(it.Key); running {
		return decision{do: wait, at: now.Add(c.lookAgain), resumes: true}
	} else if ended {
		return decision{do: acknowledge}
	}
	if taken := h.TakenBy(it.Key, os.Getpid(), now); taken != nil {
		return decision{do: wait, at: now.Add(c.lookAgain), kind: EventHeld, reason: taken.Taken(), taken: true}
	}
	switch {
	case rec.Outcome != track.Dead && rec.Attempts >= c.attempts(rec):
		return decision{do: giveUp}
	case rec.Outcome != track.Dead && rec.RetryAt.After(now) && !far:
		return decision{do: wait, at: rec.RetryAt, resumes: true}
	case pausedUntil.After(now):
		return decision{do: wait, at: pausedUntil, resumes: true}
	}
	if bound := c.checkBounds(h, &it.Envelope, now); bound != nil {
		at := bound.until
		if far && (at.IsZero() || near.Before(at)) {
			at = near
		}
		return decision{do: wait, at: at, kind: EventHeld, reason: bound.reason, bound: bound}
	}
	return decision{do: try, alone: rec.Lost}
}

// attempts is how many turns a message has before it is given up. Those that asked back do not count.
func (c *Config) attempts(rec *track.Record) int { return c.MaxAttempts + rec.Asks }

// tripped is a bound that keeps a message from getting a turn.
type tripped struct {
	// about has only the conversation, the sender, or both.
	about track.Envelope
	// reason says why the bound holds a message, and remedy how to lift it.
	reason, remedy string
	// noticed reports whether a notice about it exists.
	noticed bool
	// until is when the bound is lifted by itself, or zero.
	until time.Time
}

// checkHops returns the bound that a turn on the message would exceed because of the turns that led to it, or nil.
func (c *Config) checkHops(h *track.History, it *item, rec *track.Record) *tripped {
	if c.MaxHops < 0 || it.hops() < c.MaxHops || rec.Resumed {
		return nil
	}
	thread := h.Conversations[it.Conversation]
	reason := fmt.Sprintf("message %s comes after %d turns in a row; the limit is %d", it.ID, it.hops(), c.MaxHops)
	return &tripped{
		about: track.Envelope{Conversation: it.Conversation, From: it.From}, noticed: thread != nil && thread.Chain, reason: reason,
		remedy: fmt.Sprintf("`oacp thread resume %s` gives it a turn, with which a new chain begins.", it.Conversation),
	}
}

// checkBounds returns the bound that a turn on the message would exceed, or nil.
func (c *Config) checkBounds(h *track.History, m *track.Envelope, now time.Time) *tripped {
	if thread := h.Conversations[m.Conversation]; thread != nil && c.MaxTurns > 0 && thread.Turns >= c.MaxTurns {
		return &tripped{
			about: track.Envelope{Conversation: m.Conversation}, noticed: thread.Bound,
			reason: fmt.Sprintf("conversation %s has had %d turns, the limit", m.Conversation, thread.Turns),
			remedy: fmt.Sprintf("`oacp thread resume %s` lets the conversation go on.", m.Conversation),
		}
	}
	sender := h.Senders[m.From]
	if sender == nil || c.MaxPairTurns < 0 {
		return nil
	}
	turns := sender.Within(now)
	if len(turns) < c.MaxPairTurns {
		return nil
	}
	until := turns[len(turns)-c.MaxPairTurns].Add(track.PairWindow)
	return &tripped{
		about: track.Envelope{From: m.From}, noticed: sender.Bound, until: until,
		reason: fmt.Sprintf("messages from %s have had %d turns within an hour, the limit", m.From, c.MaxPairTurns),
		remedy: fmt.Sprintf("It goes on by itself at %s; `oacp thread resume %s` lets it go on now.",
			until.UTC().Format("15:04 UTC"), m.Conversation),
	}
}
