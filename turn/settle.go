package turn

import (
	"context"
	"errors"

	"github.com/oacp-go/oacp/agent"
	"github.com/oacp-go/oacp/internal/secrets"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn/track"
)

// settle records how a turn ended, and does what the table says.
func (k *worker) settle(ctx context.Context, it *item, m *schema.Message, rec *track.Record, result agent.Result, err error) outcome {
	slot, slotErr := k.slot(rec)
	if slotErr != nil {
		slot = track.Slot{} // it is looked up again before an answer is sent, and before another turn
	}
	end := k.endOf(ctx, m, rec, slot, &result, err)
	o := outcome{item: it, started: true}
	switch row := end.ending(); {
	case row.counts:
		return k.fail(ctx, it, m, rec, row, result, err)
	case row.then == thenHeld:
		o.stop, o.done = k.hold(ctx, rec, row, &slot, result, err), k.isGone(it)
		return o
	case row.then == thenDone:
		o.stop = k.succeed(ctx, m, rec, row, &slot, result, err)
	default:
		k.interrupted(rec, m, row, err)
		o = outcome{item: it}
		if row.then == thenUntil || row.then == thenPause {
			o.unavailable = err
		}
		return o
	}
	if o.stop != nil {
		return o
	}
	o = k.conclude(it)
	o.started = true
	return o
}

// ended makes the fact, and an event of the kind, that say how a turn ended.
func ended(fact track.FactKind, kind EventKind, rec *track.Record, row *ending, result *agent.Result) (track.Fact, Event) {
	f, e := fact.About(rec), kind.about(rec)
	f.DurationMS, f.Usage = result.Duration.Milliseconds(), track.Usage(result.Usage)
	e.End, e.Duration, e.Usage, e.Refused = row.end, result.Duration, result.Usage, result.Refused
	if row.goesOn {
		f.Session = result.SessionID
	}
	return f, e
}

// succeed records that the message needs no further turn, together with what is to be sent. Failed is how the turn failed
// after that.
func (k *worker) succeed(ctx context.Context, m *schema.Message, rec *track.Record, row *ending, slot *track.Slot, result agent.Result, failed error) error {
	f, e := ended(track.Succeeded, EventSucceeded, rec, row, &result)
	switch {
	case failed == nil:
		f.Send = k.answer(m, rec, result)
	case row.tell == tellReason:
		f.Reason = secrets.Redact(result.Explain(failed))
		if m.Type.IsRequest() {
			f.Send = k.refusal(m, rec, failed)
		}
	default:
		f.Reason = "the agent answered with " + slot.Answer.ID.Short() + ", and then the turn failed: " + secrets.Redact(result.Explain(failed))
	}
	if service, ok := errors.AsType[*agent.APIError](failed); ok && service.Kind == agent.TooLong {
		f.Session, f.Full = "", true
	}
	e.Reason, e.Err = f.Reason, failed
	if err := k.record(ctx, rec, f); err != nil {
		return err
	}
	k.events.publish(e)
	return nil
}

// hold records that the message waits for the answers to what its turn asked back, even if the turn failed after that.
func (k *worker) hold(ctx context.Context, rec *track.Record, row *ending, slot *track.Slot, result agent.Result, failed error) error {
	f, e := ended(track.Asked, EventSucceeded, rec, row, &result)
	f.Questions = askedFact(rec, slot.Asked).Questions
	if failed != nil {
		f.Reason = secrets.Redact(result.Explain(failed))
	}
	e.Reason, e.Err = f.Reason, failed
	if err := k.record(ctx, rec, f); err != nil {
		return err
	}
	k.events.publish(e)
	return nil
}

// isGone reports whether the message of an item has left the inbox.
func (c *closer) isGone(it *item) bool {
	_, err := c.workspace.Root().Lstat(schema.BoxPath(c.config.Agent, mailbox.Inbox) + "/" + it.File)
	return mailbox.IsGone(err)
}

// fail records how a turn failed. After the last attempt the message becomes a dead letter. If the message left the inbox
// during the turn, another process handled it, here or on another machine.
func (k *worker) fail(ctx context.Context, it *item, m *schema.Message, rec *track.Record, row *ending, result agent.Result, err error) outcome {
	gone := k.isGone(it)
	f, e := ended(track.Failed, EventFailed, rec, row, &result)
	f.Reason = secrets.Redact(result.Explain(err))
	f.Output = secrets.Redact(result.Tail)
	f.Full = !row.goesOn
	wasFull := false
	k.journal.View(func(h *track.History) { wasFull = h.Conversations[it.Conversation].Full })
	again := rec.Attempts < k.config.attempts(rec) && !(row.then == thenFresh && wasFull)
	if again && !gone {
		f.RetryAt = k.now().Add(k.config.backoff(rec.Attempts)).UTC()
	}
	if err := k.record(ctx, rec, f); err != nil {
		return outcome{item: it, started: true, stop: err}
	}
	e.Reason, e.Err, e.RetryAt, e.LastLine = f.Reason, err, f.RetryAt, result.LastLine
	k.events.publish(e)
	if gone || again {
		return outcome{item: it, started: true, done: gone}
	}
	after, _ := k.journal.Get(rec.Key)
	after.Reason, after.Output = f.Reason, f.Output // others may write the journal
	o := k.deadLetter(it, m, &after)
	o.started = true
	return o
}

// interrupted records that a turn does not count. If that cannot be written, the next Runner finds that the turn never
// ended, and counts it.
func (k *worker) interrupted(rec *track.Record, m *schema.Message, row *ending, err error) {
	f := track.Interrupted.About(rec)
	f.Reason = err.Error()
	if writeErr := k.journal.Append(f, true); writeErr != nil {
		k.events.problem(EventProblem.about(rec), writeErr)
	} else {
		k.uncount(&rec.Envelope, m)
	}
	e := EventInterrupted.about(rec)
	e.End, e.Reason, e.Err = row.end, err.Error(), err
	k.events.publish(e)
}
