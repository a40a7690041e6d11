package track

import (
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// trackGone completes the progress of a message that is not in the inbox.
func (p *Progress) trackGone(t *tracker, m *schema.Message, rec *Record, places map[mailbox.Box]mailbox.Entry) error {
	letter, isLetter := places[mailbox.DeadLetters]
	_, isArchived := places[mailbox.Archive]
	_, isSent := places[mailbox.Outbox]
	if isLetter {
		reason, err := t.w.Reason(letter)
		if mailbox.IsGone(err) { // another tool moved it
			reason, err = mailbox.DeadLetterReason{Attempts: p.Attempts, Reason: p.Reason}, nil
		}
		if rec.Outcome != Succeeded || reason.RecalledBy != "" {
			p.bury(t, m, reason)
			return err
		}
	}
	if rec.Outcome == Dead {
		p.Stage = StageDead
		return nil
	}
	var before mailbox.Box // where it was when the recipient was removed
	if !isArchived {
		if queued, err := mailbox.IsQueued(t.w, p.ID, p.Agent); queued || err != nil {
			p.Stage = StageStored
			return err
		}
		if rec.Outcome == "" && !isLetter {
			aside, err := t.asideOf(p.Agent)
			if err != nil {
				return err
			}
			var reason mailbox.DeadLetterReason
			if before, reason, err = aside.Find(p.ID); err != nil || before == mailbox.DeadLetters {
				p.bury(t, m, reason)
				return err
			}
		}
	}
	if rec.Outcome == "" {
		p.Reason = "" // it is how an earlier turn failed
	}
	p.Stage = StageDone
	switch {
	case p.Answer != "":
		p.answered()
	case rec.Outcome != "" || isArchived || isLetter || before == mailbox.Archive:
	case before == mailbox.Inbox:
		p.Stage, p.Reason = StageAgentRemoved, "its recipient was removed before it handled the message"
	case t.unreadable.Hides(p.Agent):
		p.Stage, p.Reason = StageUnknown, "its mailbox cannot be read"
	case !isSent:
		p.Stage, p.Reason = StageUnknown, "neither its sender nor its recipient has a copy"
	case !t.w.Knows(p.Agent):
		p.Stage, p.Reason = StageAgentRemoved, "its recipient was removed, and no copy is left here"
	case !mailbox.Deleting(t.w, p.Agent): // a missing file is no end
		p.Stage, p.Reason = StageUnknown, "its recipient has no copy of it"
	}
	return nil
}

// bury makes the message a dead letter, which its sender may have taken back.
func (p *Progress) bury(t *tracker, m *schema.Message, reason mailbox.DeadLetterReason) {
	p.Stage, p.Reason, p.Attempts = StageDead, reason.Reason, reason.Attempts
	switch {
	case p.Answer != "": // since then or, of one that was taken back, on another machine
		p.Reason = ""
		p.answered()
	case reason.RecalledBy == "":
	case mailbox.MayBeElsewhere(t.w, m):
		p.Recall = &RecallRequest{At: reason.At.Time()}
		fallthrough
	default:
		p.Stage = StageRecalled
	}
}

// asideOf returns the mail of the removed agents of a name. It lists it once.
func (t *tracker) asideOf(agent schema.AgentName) (aside *mailbox.Aside, err error) {
	if aside = t.asides[agent]; aside == nil {
		aside, err = mailbox.AsideOf(t.w, agent)
		t.asides[agent] = aside
	}
	return aside, err
}
