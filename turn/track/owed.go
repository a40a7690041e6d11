package track

import (
	"context"
	"slices"
	"time"

	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// Owed lists the requests that an agent has not answered, and its own that others have not
// answered.
type Owed struct {
	Agent schema.AgentName `json:"agent"`
	// Mine are the requests that wait for the agent's answer, and Theirs its own requests that wait for the
	// answers of others, or whose answer the agent has not been shown, the oldest first.
	Mine   []OpenRequest `json:"mine"`
	Theirs []OpenRequest `json:"theirs"`
	// Expired are requests from and to the agent that are in an inbox, and whose deadline passed without an answer: nobody owes
	// one any more, and they get no turn.
	Expired []OpenRequest `json:"expired,omitempty"`
	// Unread counts the messages in the agent's inbox that are new to it: see News.
	Unread int `json:"unread"`
}

// OpenRequest is a request to one of its recipients.
type OpenRequest struct {
	ID   schema.ID        `json:"id"`
	From schema.AgentName `json:"from"`
	// To is the recipient that owes the answer.
	To             schema.AgentName      `json:"to"`
	Type           schema.Type           `json:"type"`
	Priority       schema.Priority       `json:"priority"`
	Subject        string                `json:"subject"`
	CreatedAt      schema.Timestamp      `json:"created_at_utc"`
	ExpiresAt      schema.Timestamp      `json:"expires_at,omitempty"`
	ConversationID schema.ConversationID `json:"conversation_id,omitempty"`
	Stage          Stage                 `json:"stage"`
	// Reason says why the request is held or dead, or how its last turn failed.
	Reason string `json:"reason,omitempty"`
	// Working is what the recipient said last about its work on the request.
	Working *Working `json:"working,omitempty"`
	// Answer is the answer of the recipient that the sender has not been shown, if there is one. Replies are all messages of the
	// recipient about the request.
	Answer  schema.ID `json:"answer,omitempty"`
	Replies []Reply   `json:"replies,omitempty"`
	// Notice says why the request is dead. Once its sender has acknowledged it, the request is closed.
	Notice schema.ID `json:"notice,omitempty"`
	// Recall is what became of the sender's request to take the request back.
	Recall *RecallRequest `json:"recall,omitempty"`
}

// Said returns what Progress.Said does.
func (r OpenRequest) Said(now time.Time) string {
	return Progress{Agent: r.To, Stage: r.Stage, Working: r.Working, Replies: r.Replies, Recall: r.Recall}.Said(now)
}

// OwedBy returns what the agent owes and is owed. A request counts until it is answered, even if it was acknowledged; one that is
// in no inbox, for KeepFor. With a *mailbox.UnreadableError, OwedBy also returns what it could read.
func OwedBy(ctx context.Context, w *mailbox.Workspace, agent schema.AgentName) (Owed, error) {
	owed := Owed{Agent: agent, Mine: []OpenRequest{}, Theirs: []OpenRequest{}}
	if err := w.CheckAgent(agent); err != nil {
		return owed, err
	}
	t := newTracker(w)
	all, err := w.Names(nil)
	if err != nil {
		return owed, err
	}
	requests, err := t.requestsOf(ctx, agent, all, &owed)
	if err != nil {
		return owed, err
	}
	if err := t.repliesTo(ctx, agent, all, requests); err != nil {
		return owed, err
	}
	for _, n := range requests {
		for _, to := range n.Message.To {
			isMine := to == agent
			if !isMine && n.Message.From != agent || to == mailbox.Postmaster {
				continue
			}
			p, err := t.progress(n.Message, to, n.Files)
			if err != nil {
				return owed, err
			}
			r := openRequest(n.Message, p)
			switch isUnseen := !isMine && p.Answer != "" && t.isUnseen(agent, p); {
			case p.Answer != "" && !isUnseen, p.Stage == StageRecalled:
			case !isUnseen && n.Message.ExpiredAt(t.now):
				if p.Stage == StageExpired {
					owed.Expired = append(owed.Expired, r)
				}
			case !isMine && p.Stage == StageDead && t.isClosed(agent, &r):
			case isMine:
				owed.Mine = append(owed.Mine, r)
			default:
				owed.Theirs = append(owed.Theirs, r)
			}
		}
	}
	return owed, t.result()
}

func openRequest(m *schema.Message, p Progress) OpenRequest {
	return OpenRequest{
		ID: m.ID, From: m.From, To: p.Agent, Type: m.Type, Priority: m.Priority, Subject: m.Subject, CreatedAt: m.CreatedAt,
		ExpiresAt: m.ExpiresAt, ConversationID: m.ConversationID, Stage: p.Stage, Reason: p.Reason, Working: p.Working,
		Answer: p.Answer, Replies: p.Replies, Recall: p.Recall,
	}
}

// requestsOf returns the requests in the mailbox of an agent, each with its files there and the copies of their recipients. It
// counts the unread messages in the inbox, and keeps those that are replies.
func (t *tracker) requestsOf(ctx context.Context, agent schema.AgentName, all *mailbox.Listing, owed *Owed) ([]Node, error) {
	state, err := t.inbox(agent)
	if err != nil {
		return nil, err
	}
	files := all.Only(func(owner schema.AgentName, box mailbox.Box) bool { return owner == agent || box != mailbox.Outbox })
	found, err := files.Search(ctx, mayBeOwed(all, agent, t.now), func(m *schema.Message) bool {
		if !m.Marks.Declined { // else it is the reason
			m.Body = schema.Value{}
		}
		return true
	})
	if err := t.note(err); err != nil {
		return nil, err
	}
	var requests []mailbox.Entry
	for _, e := range found {
		m := e.Message
		if e.Err == nil && e.Agent == agent && e.Box == mailbox.Inbox {
			if !m.ExpiredAt(t.now) && state.history.isNew(state.known(m.ID), state.running, t.now) {
				owed.Unread++
			}
			if m.ParentID != "" {
				t.replies[m.ParentID] = append(t.replies[m.ParentID], e)
			}
		}
		if m.Type.IsRequest() && (m.From == agent || m.IsFor(agent)) {
			requests = append(requests, e)
		}
	}
	return slices.DeleteFunc(group(requests), func(n Node) bool { return n.Err != nil }), nil // somebody may repair the file
}

// mayBeOwed wants the names of the files in an agent's inbox, and in its other boxes those of requests that are in an inbox or not
// older than KeepFor.
func mayBeOwed(all *mailbox.Listing, agent schema.AgentName, now time.Time) mailbox.NameFilter {
	names := func(want func(schema.AgentName, mailbox.Box) bool) map[string]bool {
		set := make(map[string]bool)
		for _, name := range all.Only(want).MessageFiles() {
			set[name] = true
		}
		return set
	}
	own := names(func(owner schema.AgentName, _ mailbox.Box) bool { return owner == agent })
	received := names(func(owner schema.AgentName, box mailbox.Box) bool { return owner == agent && box == mailbox.Inbox })
	pending := names(func(_ schema.AgentName, box mailbox.Box) bool { return box == mailbox.Inbox })
	return func(name string) bool {
		if !own[name] || received[name] {
			return own[name]
		}
		parsed, err := schema.ParseFileName(name)
		return err != nil || parsed.Type.IsRequest() && (pending[name] || now.Sub(parsed.At) < KeepFor)
	}
}

// repliesTo finds the replies to requests from and to an agent: first in its own mailbox, but for the inbox, which is read, and
// then in the outboxes of those that seem to owe it an answer.
func (t *tracker) repliesTo(ctx context.Context, agent schema.AgentName, all *mailbox.Listing, requests []Node) error {
	var messages, open []*schema.Message
	for _, n := range requests {
		messages = append(messages, n.Message)
	}
	own := all.Only(func(owner schema.AgentName, box mailbox.Box) bool { return owner == agent && box != mailbox.Inbox })
	if err := t.readReplies(ctx, own, messages...); err != nil {
		return err
	}
	for _, m := range messages {
		answered := func(to schema.AgentName) bool {
			return slices.ContainsFunc(t.replies[m.ID], func(e mailbox.Entry) bool { return e.Message.From == to && e.Message.Answers(m) })
		}
		if m.From == agent && slices.ContainsFunc(m.To, func(to schema.AgentName) bool { return !answered(to) }) {
			open = append(open, m)
		}
	}
	if len(open) == 0 {
		return nil
	}
	return t.readReplies(ctx, all.Only(func(owner schema.AgentName, box mailbox.Box) bool { return owner != agent && box == mailbox.Outbox }), open...)
}

// isClosed reports whether the sender of a dead request has acknowledged the notice that says so, and else adds it.
func (t *tracker) isClosed(sender schema.AgentName, r *OpenRequest) (closed bool) {
	for _, e := range t.replies[r.ID] {
		switch {
		case e.Err != nil || e.Agent != sender || e.Message.From != r.To || e.Message.Channel != schema.ChannelBounce:
		case e.Box == mailbox.Inbox:
			r.Notice = e.Message.ID
		default:
			closed = true
		}
	}
	return closed && r.Notice == ""
}

// isUnseen reports whether an agent has not been shown the answer to its request: it is new in the inbox, or on its way there.
// An answer that asks for something is a request of its own.
func (t *tracker) isUnseen(agent schema.AgentName, p Progress) bool {
	for _, e := range t.replies[p.ID] {
		if e.Message.ID == p.Answer && e.Agent == agent && e.Box != mailbox.Outbox {
			answer, err := t.progress(e.Message, agent, []mailbox.Entry{e})
			return err == nil && !e.Message.Type.IsRequest() && answer.Stage.IsPending() && !answer.wasNoticed() && len(answer.Offered) == 0
		}
	}
	queued, err := mailbox.IsQueued(t.w, p.Answer, agent)
	return queued && err == nil
}
