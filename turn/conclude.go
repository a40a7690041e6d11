package turn

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/oacp-go/oacp/internal/spelling"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn/track"
)

// closer ends the work on messages: it sends answers and bounces, acknowledges, and makes dead
// letters. Its methods take no context, because they complete what is decided even if the Runner is to stop.
type closer struct {
	workspace *mailbox.Workspace
	config    *Config
	now       func() time.Time
	journal   *track.Journal
	events    *events
	// times supplies the times of the messages that the closer sends.
	times schema.Clock
}

// deadLetter gives a message up: it becomes a dead letter, and its sender gets a bounce. Rec has how the last turn ended.
func (c *closer) deadLetter(it *item, m *schema.Message, rec *track.Record) outcome {
	reason := fmt.Sprintf("given up after %s: %s", spelling.Plural(rec.Attempts, "turn"), rec.Reason)
	f := track.Dead.About(rec)
	f.Reason, f.Send = reason, c.bounce(m, rec, reason)
	if err := c.append(f, true); err != nil {
		return outcome{item: it, failure: err}
	}
	o := c.conclude(it)
	o.dead = string(rec.ID)
	return o
}

// deadLetterFile makes a file that is not a message a dead letter. If the file says who sent it,
// that agent gets a bounce.
func (r *Runner) deadLetterFile(e mailbox.Entry) outcome {
	m, raw, reason := r.workspace.Read(e) // as far as it can be read
	switch {
	case isHeld(reason):
		r.watcher.Forget(e.Name) // it has changed, or the settings
		return outcome{done: true}
	case mailbox.IsGone(reason), reason == nil:
		return outcome{done: true} // the watcher reports the present state
	case raw == nil:
		raw = []byte(e.Name) // it is too large
	}
	rec := track.Record{Envelope: track.Envelope{File: e.Name, Key: track.Key{Fingerprint: track.Fingerprint(raw)}}}
	if m != nil {
		rec.ID = m.ID
		rec.From = m.From
		rec.Type = m.Type
		rec.Subject = m.Subject
	}
	f := track.Dead.About(&rec)
	f.Reason = "the file is not a valid message: " + reason.Error()
	f.Send = r.closer.bounce(m, &rec, f.Reason)
	if there, _ := r.journal.Get(rec.Key); there.Outcome != track.Dead || there.Settled { // not tried before
		if err := r.closer.append(f, true); err != nil {
			return outcome{failure: err}
		}
	}
	if err := r.closer.complete(rec.Key, &e); err != nil {
		return outcome{failure: err}
	}
	return outcome{done: true, dead: e.Name}
}

// conclude completes what is left to do about a message with an outcome.
func (c *closer) conclude(it *item) outcome {
	rec, _ := c.journal.Get(it.Key)
	entry := c.entryOf(it)
	if rec.Outcome == "" {
		return outcome{item: it} // it was restored since the decision, which is made again
	}
	if rec.Done() { // it is a copy of a handled message
		if err := c.workspace.Acknowledge(entry); err != nil && !mailbox.IsGone(err) {
			return outcome{item: it, failure: err}
		}
		c.events.publish(EventDuplicate.about(&rec))
		return outcome{item: it, done: true}
	}
	if err := c.complete(rec.Key, &entry); err != nil {
		return outcome{item: it, failure: err}
	}
	return outcome{item: it, done: true}
}

// acknowledge ends a reply that an earlier turn waited for.
func (c *closer) acknowledge(it *item) outcome {
	if err := c.workspace.Acknowledge(c.entryOf(it)); err != nil && !mailbox.IsGone(err) {
		return outcome{item: it, failure: err}
	}
	e := EventAcknowledged.of(&it.Envelope)
	e.Reason = "a turn waited for it"
	c.events.publish(e)
	return outcome{item: it, done: true}
}

// complete does and records what is left to do. It sends an answer before the message leaves the inbox,
// because until then the message does not count as done, and a bounce after the message has become a dead
// letter. The entry is nil if the message has left the inbox.
func (c *closer) complete(k track.Key, entry *mailbox.Entry) error {
	rec, _ := c.journal.Get(k)
	if entry == nil && !rec.Settled && rec.Unsent != nil && c.config.Claims != nil && !c.isBuried(&rec) {
		return c.drop(&rec)
	}
	if rec.Outcome == track.Dead {
		return errors.Join(c.leaveInbox(&rec, entry), c.sendUnsent(&rec))
	}
	if err := c.sendUnsent(&rec); err != nil {
		return err
	}
	return c.leaveInbox(&rec, entry)
}

// isBuried reports whether this machine made a message a dead letter.
func (c *closer) isBuried(rec *track.Record) bool {
	reason, err := c.workspace.Reason(mailbox.Entry{Agent: c.config.Agent, Box: mailbox.DeadLetters, Name: rec.File})
	return err == nil && rec.Outcome == track.Dead && reason.Reason == rec.Reason
}

// drop discards the answer or bounce of a message that another machine handled after this one had died.
func (c *closer) drop(rec *track.Record) error {
	const reason = "another machine handled the message in the meantime"
	f := track.Unsendable.Of(&rec.Envelope)
	f.Reason = reason
	if err := c.journal.Append(f, false); err != nil {
		return err
	}
	c.events.say(EventUnsendable.about(rec), reason)
	kind := track.Acknowledged
	if rec.Outcome == track.Dead {
		kind = track.Buried
	}
	return c.journal.Append(kind.Of(&rec.Envelope), false)
}

// leaveInbox acknowledges the message, or moves it to the dead letters.
func (c *closer) leaveInbox(rec *track.Record, entry *mailbox.Entry) error {
	if rec.Settled {
		return nil
	}
	kind, event := track.Acknowledged, EventAcknowledged.about(rec)
	var err error
	switch {
	case rec.Outcome == track.Dead:
		kind, event = track.Buried, EventDeadLetter.about(rec)
		event.Reason = rec.Reason
		if entry != nil {
			event.Path, err = c.workspace.DeadLetter(*entry, mailbox.DeadLetterReason{
				Reason: rec.Reason, ID: rec.ID, From: rec.From, At: schema.NewTimestamp(c.now()),
				Attempts: rec.Attempts, Output: rec.Output,
			})
		}
	case entry != nil:
		err = c.workspace.Acknowledge(*entry)
	}
	if mailbox.IsGone(err) {
		if err = c.findRecall(rec); isRecalled(err) {
			event.Reason, err = err.Error(), nil
		}
	}
	if err != nil {
		return err
	}
	if err := c.journal.Append(kind.Of(&rec.Envelope), false); err != nil {
		return err
	}
	c.events.publish(event)
	return nil
}

// sendUnsent sends the answer or bounce if it is not sent yet, unless the agent has answered or asked back by other means. A
// bounce takes the place of an answer that can never be sent.
func (c *closer) sendUnsent(rec *track.Record) error {
	if rec.Unsent == nil {
		return nil
	}
	kind, event := track.Answered, EventAnswered.about(rec)
	if rec.Outcome == track.Dead || rec.Unsent.IsNotice() {
		kind, event = track.Bounced, EventBounced.about(rec)
	}
	var slot track.Slot
	draft, refused, err := c.proven(rec)
	isForged := refused != nil
	if err == nil && refused == nil && kind == track.Answered && c.config.Contract != nil && !draft.Marks.Declined {
		refused, err = permanently(c.config.Contract(context.Background(), draft))
	}
	if err == nil {
		slot, refused, err = c.deliver(rec, draft, refused)
	}
	if err != nil {
		return fmt.Errorf("sending %s: %w", rec.Unsent.ID, err)
	}
	f := kind.Of(&rec.Envelope)
	f.Sent, event.Sent = draft.ID, draft.ID
	isNotice := draft.Marks.Declined // the turn has no answer
	switch {
	case slot.Answer != nil:
		f, event = track.Answered.Of(&rec.Envelope), EventAnswered.about(rec)
		f.Sent, event.Sent = slot.Answer.ID, slot.Answer.ID
		event.Reason = "the agent sent that itself, so the text of its turn is not sent"
	case len(slot.Asked) > 0:
		f, event = track.Unsendable.Of(&rec.Envelope), EventUnsendable.about(rec)
		f.Reason = fmt.Sprintf("%s asked back with %s, so the text of its turn is not the answer", c.config.Agent, slot.Asked[0].ID.Short())
		event.Reason = f.Reason
	case refused != nil:
		f, event = track.Unsendable.Of(&rec.Envelope), EventUnsendable.about(rec)
		f.Reason, event.Reason, event.Err = refused.Error(), refused.Error(), refused
		if kind == track.Answered && !isForged && !isRecalled(refused) {
			f.Send = c.unanswered(rec, draft, refused)
		}
	case draft.Marks.Ended == string(EndSilent):
		event.Kind, event.Reason = EventBounced, "the turn ended without an answer"
	case isNotice:
		event.Kind, event.Reason = EventBounced, "the sender gets the reason"
	}
	if err := c.append(f, f.Send != nil); err != nil {
		return err
	}
	if !isNotice || slot.Answer == nil && len(slot.Asked) == 0 {
		c.events.publish(event)
	}
	rec.Unsent = f.Send
	return c.sendUnsent(rec)
}

// deliver sends the answer to a message while nothing else of the agent answers it, or returns what fills its slot. A bounce
// needs no slot. Refused is why the answer can never be sent, if that is known.
func (c *closer) deliver(rec *track.Record, draft *schema.Message, refused error) (slot track.Slot, _, err error) {
	err = track.Exclusively(context.Background(), c.workspace, c.config.Agent, func() (err error) {
		if err = c.findRecall(rec); isRecalled(err) {
			refused = err
			return nil
		}
		if err == nil && rec.Outcome != track.Dead {
			slot, err = c.slot(rec)
		}
		if isOurs := slot.Answer != nil && slot.Answer.ID == draft.ID; isOurs {
			slot.Answer = nil // it is sent again, in case that a crash has left that incomplete
		}
		if slot.Answer != nil {
			_, err = c.workspace.Resend(slot.Answer, slot.Path)
			if _, queued := errors.AsType[*mailbox.QueuedError](err); queued {
				err = nil // it counts as sent
			}
		}
		if err == nil && refused == nil && slot.Answer == nil && len(slot.Asked) == 0 {
			refused, err = permanently(c.send(draft))
		}
		return err
	})
	return slot, refused, err
}

// slot returns the slot of a message for its answer. Only a message that expects one has it.
func (c *closer) slot(rec *track.Record) (track.Slot, error) {
	if !rec.Type.ExpectsAnswer() {
		return track.Slot{}, nil
	}
	return rec.Slot(context.Background(), c.workspace, c.config.Agent)
}

// findRecall returns an error that isRecalled if the sender took a message back while its turn worked.
func (c *closer) findRecall(rec *track.Record) error {
	return track.FindRecall(context.Background(), c.workspace, c.config.Agent, rec.ID)
}

func isRecalled(err error) bool {
	_, is := errors.AsType[*track.RecalledError](err)
	return is
}

// permanently tells an error that no further try removes from others.
func permanently(permanent bool, failure error) (refused, err error) {
	if permanent {
		return failure, nil
	}
	return nil, failure
}

// findFollowUps finds what is left to do about messages that are not in the inbox, because somebody removed
// them or the previous Runner died.
func (r *Runner) findFollowUps() {
	inInbox := make(map[track.Key]bool, len(r.schedule.items))
	for _, it := range r.schedule.items {
		inInbox[it.Key] = true
	}
	// Follow-ups about files stay: the watcher does not repeat them.
	r.followUps = slices.DeleteFunc(r.followUps, func(f *followUp) bool { return f.file == "" })
	var left []track.Key
	r.journal.View(func(h *track.History) {
		for k, rec := range h.Records {
			if !inInbox[k] && rec.Outcome != "" && !rec.Done() {
				left = append(left, k)
			}
		}
		for id, c := range h.Conversations {
			if c.Unsent != nil {
				r.followUps = append(r.followUps, r.closer.sendNotice(track.Envelope{Conversation: id}, c.Unsent))
			}
		}
		for name, s := range h.Senders {
			if s.Unsent != nil {
				r.followUps = append(r.followUps, r.closer.sendNotice(track.Envelope{From: name}, s.Unsent))
			}
		}
	})
	for _, k := range left {
		r.followUp(k)
	}
}

// followUp adds the follow-up of a message that left the inbox, if something is left to do.
func (r *Runner) followUp(k track.Key) {
	if rec, _ := r.journal.Get(k); rec.Outcome == "" || rec.Done() {
		return
	}
	r.followUps = append(r.followUps, &followUp{do: func() outcome {
		err := r.closer.complete(k, nil)
		return outcome{done: err == nil, failure: err}
	}})
}

// sendNotice returns the follow-up that sends the notice about the bound of a conversation or sender.
func (c *closer) sendNotice(about track.Envelope, notice *schema.Message) *followUp {
	return &followUp{do: func() outcome {
		if permanent, err := c.send(notice); err != nil {
			if !permanent {
				return outcome{failure: err}
			}
			c.events.publish(Event{Kind: EventUnsendable, Reason: err.Error(), Err: err, Envelope: track.Envelope{Conversation: notice.ConversationID}})
		}
		err := c.journal.Append(track.Fact{Kind: track.Notified, Envelope: about}, false)
		return outcome{done: err == nil, failure: err}
	}}
}
