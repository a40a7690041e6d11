package track

import (
	"context"
	"slices"
	"time"

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
	// Answer is the id of the answer to a reply that asks back.
	Answer schema.ID `json:"answer,omitempty"`
}

// AsksBack reports whether the reply is a question back: a request that does not answer the message.
func (r Reply) AsksBack() bool { return !r.Answers && r.Type.IsRequest() }

// readReplies finds the replies to messages among the listed files: in the outboxes of the recipients, and in the
// other boxes of the senders. Without a listing, it lists the outboxes of the recipients.
func (t *tracker) readReplies(ctx context.Context, listing *mailbox.Listing, messages ...*schema.Message) (err error) {
	back, err := t.findReplies(ctx, listing, messages)
	if err == nil && len(back) > 0 {
		_, err = t.findReplies(ctx, listing, back)
	}
	return err
}

// findReplies is readReplies for the direct replies. It returns those that ask back, and are not among the messages.
func (t *tracker) findReplies(ctx context.Context, listing *mailbox.Listing, messages []*schema.Message) (back []*schema.Message, err error) {
	recipients, senders := make(map[schema.AgentName]bool), make(map[schema.AgentName]bool)
	asked := make(map[schema.ID]bool, len(messages))
	var oldest time.Time
	for _, m := range messages {
		asked[m.ID] = m.ID != ""
		senders[m.From] = true
		for _, to := range m.To {
			recipients[to] = true
		}
		if at := m.CreatedAt.Time(); oldest.IsZero() || at.Before(oldest) {
			oldest = at
		}
	}
	if listing == nil {
		listing, err = t.w.Names(func(agent schema.AgentName, box mailbox.Box) bool { return box == mailbox.Outbox && recipients[agent] })
		if err != nil {
			return nil, err
		}
	}
	listing = listing.Only(func(agent schema.AgentName, box mailbox.Box) bool {
		return box == mailbox.Outbox && recipients[agent] || box != mailbox.Outbox && senders[agent]
	})
	found, err := listing.Search(ctx, conversation.Following(oldest), func(m *schema.Message) bool {
		m.Body = schema.Value{}
		return asked[m.ParentID]
	})
	for _, e := range found {
		t.replies[e.Message.ParentID] = append(t.replies[e.Message.ParentID], e)
		if e.Err == nil && e.Message.Type.IsRequest() && !asked[e.Message.ID] {
			asked[e.Message.ID] = true // it has several copies
			back = append(back, e.Message)
		}
	}
	return back, t.note(err)
}

// addReplies adds those of the messages that are replies of the recipient. All are found by the ids of their parents.
func (p *Progress) addReplies(m *schema.Message, rec *Record, all map[schema.ID][]mailbox.Entry) {
	var replies []*schema.Message
	for _, e := range all[m.ID] {
		if r := e.Message; e.Err == nil && r.From == p.Agent && r.ParentID == m.ID && r.ID != m.ID && r.IsFor(m.From) {
			replies = append(replies, r)
		}
	}
	slices.SortFunc(replies, schema.CompareAge)
	replies = slices.CompactFunc(replies, func(a, b *schema.Message) bool { return a.ID == b.ID })
	var automatic schema.ID // the journal knows which of several replies is the answer
	if rec.Outcome == Succeeded {
		automatic = rec.Sent
	}
	for _, r := range replies {
		one := Reply{ID: r.ID, Type: r.Type, CreatedAt: r.CreatedAt, Answers: r.ID == automatic || r.Answers(m)}
		if one.Answers && p.Answer == "" {
			p.Answer = r.ID
		}
		for _, e := range all[r.ID] {
			if one.AsksBack() && e.Err == nil && e.Message.From == m.From && e.Message.Answers(r) {
				one.Answer = e.Message.ID
			}
		}
		p.Replies = append(p.Replies, one)
	}
	if p.Answer == "" {
		p.Answer = automatic
	}
}
