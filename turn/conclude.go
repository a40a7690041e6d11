package turn

import (
	"context"
	"errors"
	"fmt"

	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/validate"
)

// bury gives a message up: it becomes a dead letter, and its sender is told.
func (r *Runner) bury(ctx context.Context, it *item, m *schema.Message, rec *record) outcome {
	reason := fmt.Sprintf("%d turns were started and none succeeded; the last one: %s", rec.Attempts, rec.Reason)
	if rec.Attempts == 1 {
		reason = "its turn failed: " + rec.Reason
	}
	f := dead.about(rec)
	f.Reason, f.Send = reason, r.bounce(m, rec, reason)
	if err := r.journal.append(f, true); err != nil {
		return outcome{item: it, trouble: err}
	}
	o := r.conclude(ctx, it)
	o.dead = string(rec.ID)
	return o
}

// conclude does what is left to do about a message whose outcome is written
// down.
func (r *Runner) conclude(ctx context.Context, it *item) outcome {
	// What is decided is carried out, also when the Runner is to stop.
	ctx = context.WithoutCancel(ctx)
	rec, _ := r.journal.get(it.key)
	if rec.done() {
		return r.dropDuplicate(it, &rec)
	}
	entry := r.entryOf(it)
	if err := r.carryOut(ctx, rec.key, &entry); err != nil {
		return outcome{item: it, trouble: err}
	}
	// Without a removal to be seen, a watch may take the file for what it was.
	if _, m, err := r.reread(it); errors.Is(err, errReplaced) {
		return r.replaced(it, m)
	}
	return outcome{item: it, settled: true}
}

// replaced puts the message that came into the file's place in the queue.
func (r *Runner) replaced(it *item, m *schema.Message) outcome {
	replacement, err := newItem(it.File, m)
	if err != nil {
		r.problem(EventProblem.of(&it.envelope), err)
	}
	return outcome{item: it, settled: true, replacement: replacement}
}

// dropDuplicate acknowledges a message that was dealt with before.
func (r *Runner) dropDuplicate(it *item, rec *record) outcome {
	if err := r.workspace.Acknowledge(r.entryOf(it)); err != nil && !mailbox.IsGone(err) {
		return outcome{item: it, trouble: err}
	}
	r.observe(EventDuplicate.about(rec))
	return outcome{item: it, settled: true}
}

// carryOut does, and writes down, each thing that is left to do about a
// message. An answer is sent before the message leaves the inbox, because
// until then nobody takes the message for done; a bounce after the dead letter
// is one. There is no entry for a message that has left already.
func (r *Runner) carryOut(ctx context.Context, k key, entry *mailbox.Entry) error {
	rec, _ := r.journal.get(k)
	if rec.Outcome == dead {
		return errors.Join(r.settle(&rec, entry), r.sendUnsent(ctx, &rec, bounced, EventBounced))
	}
	if err := r.sendUnsent(ctx, &rec, answered, EventAnswered); err != nil {
		return err
	}
	return r.settle(&rec, entry)
}

// settle takes the message out of the inbox.
func (r *Runner) settle(rec *record, entry *mailbox.Entry) error {
	if rec.Settled {
		return nil
	}
	kind, event := acknowledged, EventAcknowledged.about(rec)
	var err error
	switch {
	case rec.Outcome == dead:
		kind, event = buried, EventDeadLetter.about(rec)
		event.Reason = rec.Reason
		if entry != nil {
			event.Path, err = r.workspace.DeadLetter(*entry, mailbox.DeadLetterReason{
				Reason: rec.Reason, ID: rec.ID, From: rec.From, At: schema.NewTimestamp(r.now()),
				Attempts: rec.Attempts, Output: rec.Output,
			})
		}
	case entry != nil:
		err = r.acknowledge(rec, entry)
	}
	if err != nil && !mailbox.IsGone(err) {
		return err
	}
	if err := r.journal.append(fact{Kind: kind, key: rec.key}, false); err != nil {
		return err
	}
	r.observe(event)
	return nil
}

// acknowledge removes the message's file, unless another message has come into
// its place: some tools replace files.
func (r *Runner) acknowledge(rec *record, entry *mailbox.Entry) error {
	raw, err := r.workspace.ReadRaw(*entry)
	if err != nil {
		return err
	}
	if m, err := validate.Read(raw); err == nil {
		if k, err := keyOf(m); err == nil && k == rec.key {
			return r.workspace.Acknowledge(*entry)
		}
	}
	return nil
}

// sendUnsent sends what is to be sent after the outcome.
func (r *Runner) sendUnsent(ctx context.Context, rec *record, kind factKind, eventKind EventKind) error {
	if rec.Unsent == nil {
		return nil
	}
	permanent, err := r.send(ctx, rec.Unsent)
	if err != nil && !permanent {
		return fmt.Errorf("sending %s: %w", rec.Unsent.ID, err)
	}
	f := fact{Kind: kind, key: rec.key, Sent: rec.Unsent.ID}
	event := eventKind.about(rec)
	event.Sent = rec.Unsent.ID
	if permanent {
		f = fact{Kind: unsendable, key: rec.key, Reason: err.Error()}
		event = EventUnsendable.about(rec)
		event.Reason, event.Err = err.Error(), err
	}
	if err := r.journal.append(f, false); err != nil {
		return err
	}
	r.observe(event)
	return nil
}

// leftovers finds what is left to do about messages that are no longer in the
// inbox: somebody took them out, or the Runner before died half-way.
func (r *Runner) leftovers() {
	inInbox := make(map[key]bool, len(r.schedule.items))
	for _, it := range r.schedule.items {
		inInbox[it.key] = true
	}
	r.errands = nil
	var left []key
	r.journal.view(func(h *history) {
		for k, rec := range h.records {
			if !inInbox[k] && (rec.missing() || rec.Outcome != "" && !rec.done()) {
				left = append(left, k)
			}
		}
		for id, c := range h.conversations {
			if c.Unsent != nil {
				r.errands = append(r.errands, r.notify(tripped{conversation: id}, c.Unsent))
			}
		}
		for name, s := range h.senders {
			if s.Unsent != nil {
				r.errands = append(r.errands, r.notify(tripped{sender: name}, s.Unsent))
			}
		}
	})
	for _, k := range left {
		r.leave(k)
	}
}

// notify is the errand of sending the notice about a bound.
func (r *Runner) notify(t tripped, notice *schema.Message) *errand {
	return &errand{do: func(ctx context.Context) error {
		if permanent, err := r.send(ctx, notice); err != nil {
			if !permanent {
				return err
			}
			r.observe(Event{Kind: EventUnsendable, Reason: err.Error(), Err: err, Conversation: notice.ConversationID})
		}
		return r.journal.append(t.about(notified), false)
	}}
}

func (r *Runner) runErrand(ctx context.Context, e *errand) outcome {
	if err := e.do(context.WithoutCancel(ctx)); err != nil {
		return outcome{errand: e, trouble: err}
	}
	return outcome{errand: e, settled: true}
}
