package track

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/oacp-go/oacp/internal/spelling"
	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/conversation"
	"github.com/oacp-go/oacp/schema"
)

// Reply is a message of a recipient that names another one as its parent.
type Reply struct {
	ID        schema.ID        `json:"id"`
	Type      schema.Type      `json:"type"`
	CreatedAt schema.Timestamp `json:"created_at_utc"`
	// Answers reports whether it answers that message.
	Answers bool `json:"answers"`
	// Declines reports whether it does so by declining it.
	Declines bool `json:"declines,omitempty"`
	// Answer is the id of the first answer to a reply that asks back, and Declined reports whether that declines it.
	Answer   schema.ID `json:"answer,omitempty"`
	Declined bool      `json:"declined,omitempty"`

	// Outdated reports whether it was sent before the message was restored, so that it answers no more.
	Outdated bool `json:"outdated,omitempty"`

	// reason says why it declines the message.
	reason string
}

// AsksBack reports whether the reply is a question back: a request that does not answer the message.
func (r Reply) AsksBack() bool { return !r.Answers && r.Type.IsRequest() }

// Asked says in words what became of a reply that asks back.
func (r Reply) Asked() string {
	switch {
	case r.Answer == "":
		return "asked " + r.ID.Short()
	case r.Declined:
		return r.ID.Short() + " declined"
	}
	return r.ID.Short() + " answered"
}

// Said returns, in words that follow the stage, what the recipient said about its work and asked back, and what became of a request
// to take the message back.
func (p Progress) Said(now time.Time) (text string) {
	if p.Working != nil && slices.Contains([]Stage{StageWorking, StageNoticed, StageExpired}, p.Stage) {
		text = p.Working.Said(now)
	}
	for i, r := range p.Replies {
		switch {
		case r.Declines && p.Stage == StageAnswered && !slices.ContainsFunc(p.Replies[:i], func(r Reply) bool { return r.Answers && !r.Declines }):
			text += ", late: declined before with " + r.ID.Short()
		case r.AsksBack() && p.Answer == "":
			text += ", " + r.Asked()
		}
	}
	return text + p.Recall.said(p.Agent, now)
}

func (r *RecallRequest) said(agent schema.AgentName, now time.Time) string {
	if r == nil {
		return ""
	}
	text := " requested"
	if !r.At.IsZero() {
		text += " " + spelling.Age(r.At, now) + " ago"
	}
	if r.Kept {
		return ", recall" + text + "; kept, because " + string(agent) + " had seen it"
	}
	return "," + text + "; it comes back if " + string(agent) + " had seen it"
}

// readReplies finds the replies to messages, and those to replies that ask back, among the listed files: in the outboxes
// of the recipients, and in the other boxes of the senders. Without a listing, it lists the outboxes of the recipients or, if one
// was removed, all.
func (t *tracker) readReplies(ctx context.Context, listing *mailbox.Listing, messages ...*schema.Message) (err error) {
	recipients, senders := make(map[schema.AgentName]bool), make(map[schema.AgentName]bool)
	asked := make(map[schema.ID]bool, len(messages))
	var oldest time.Time
	removed := false
	for _, m := range messages {
		asked[m.ID], t.asked[m.ID] = m.ID != "", true
		senders[m.From] = true
		for _, to := range m.To {
			recipients[to] = true
			removed = removed || !t.w.Knows(to)
		}
		if at := m.CreatedAt.Time(); oldest.IsZero() || at.Before(oldest) {
			oldest = at
		}
	}
	all := listing
	if all == nil {
		all, err = t.w.Names(func(agent schema.AgentName, box mailbox.Box) bool {
			return removed || box == mailbox.Outbox && recipients[agent]
		})
		if err != nil {
			return err
		}
	}
	all = all.Only(func(agent schema.AgentName, box mailbox.Box) bool {
		return box == mailbox.Outbox && recipients[agent] || box != mailbox.Outbox && senders[agent]
	})
	found, err := all.Search(ctx, conversation.Following(oldest), func(m *schema.Message) bool {
		if !m.Marks.Declined { // else it is the reason
			m.Body = schema.Value{}
		}
		return asked[m.ParentID]
	})
	var back []*schema.Message
	for _, e := range found {
		t.replies[e.Message.ParentID] = append(t.replies[e.Message.ParentID], e)
		if e.Err == nil && e.Message.Type.IsRequest() && !t.asked[e.Message.ID] {
			t.asked[e.Message.ID] = true
			back = append(back, e.Message)
		}
	}
	if err := t.note(err); err != nil || len(back) == 0 {
		return err
	}
	return t.readReplies(ctx, listing, back...)
}

// addReplies adds the recipient's replies to a message. All has the replies to all messages, by the ids of these.
func (p *Progress) addReplies(m *schema.Message, rec *Record, all map[schema.ID][]mailbox.Entry, now time.Time) {
	var replies []mailbox.Entry
	outdated := make(map[schema.ID]bool)
	for _, e := range all[m.ID] {
		if r := e.Message; e.Err == nil && r.From == p.Agent && r.ParentID == m.ID && r.ID != m.ID && r.IsFor(m.From) {
			replies = append(replies, e)
			outdated[r.ID] = outdated[r.ID] || rec.isOutdated(r, e.Modified) // one of its files may have been moved
		}
	}
	slices.SortStableFunc(replies, func(a, b mailbox.Entry) int { return schema.CompareAge(a.Message, b.Message) })
	replies = slices.CompactFunc(replies, func(a, b mailbox.Entry) bool { return a.Message.ID == b.Message.ID })
	var automatic, declined schema.ID // the journal knows which of several replies is the answer
	if rec.Outcome == Succeeded {
		automatic = rec.Sent
	}
	for _, e := range replies {
		r := e.Message
		one := Reply{ID: r.ID, Type: r.Type, CreatedAt: r.CreatedAt, Answers: r.ID == automatic || r.Answers(m), Outdated: outdated[r.ID]}
		if one.Declines = one.Answers && r.Marks.Declined; one.Declines {
			one.reason = visible.Short(strings.Join(strings.Fields(r.BodyText()), " "), maxReason)
		}
		switch {
		case !one.Answers || one.Outdated:
		case one.Declines:
			declined = r.ID
		case p.Answer == "":
			p.Answer = r.ID
		}
		var answer *schema.Message
		for _, e := range all[r.ID] {
			if one.AsksBack() && e.Err == nil && e.Message.Answers(r) && (answer == nil || schema.CompareAge(e.Message, answer) < 0) {
				answer, one.Answer, one.Declined = e.Message, e.Message.ID, e.Message.Marks.Declined
			}
		}
		p.asks = p.asks || one.AsksBack() && one.Answer == "" && !r.ExpiredAt(now)
		p.Replies = append(p.Replies, one)
		p.hasReplied = p.hasReplied || !r.IsNotice() && !one.Outdated
	}
	p.Answer = cmp.Or(p.Answer, automatic, declined)
}

// maxReason is how much of a reason is reported. The message has the whole.
const maxReason = 200

// answered sets the stage of a message that has an answer.
func (p *Progress) answered() {
	p.Stage = StageAnswered
	var declined *Reply
	for i := range p.Replies {
		switch r := &p.Replies[i]; {
		case !r.Answers || r.Outdated:
		case !r.Declines:
			return
		default:
			declined = r
		}
	}
	if declined != nil {
		p.Stage, p.Reason = StageDeclined, declined.reason
	}
}
