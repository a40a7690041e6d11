package track

import (
	"context"
	"slices"
	"time"

	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/conversation"
	"github.com/oacp-go/oacp/schema"
)

// Owed lists the requests that an agent has not answered, and its own that others have not
// answered.
type Owed struct {
	Agent schema.AgentName `json:"agent"`
	// Mine are the requests that wait for the agent's answer, and Theirs its own requests that wait for
	// others' answers, the oldest first.
	Mine   []OpenRequest `json:"mine"`
	Theirs []OpenRequest `json:"theirs"`
}

// OpenRequest is a request that one of its recipients has not answered, and that has not expired.
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
	// Replies are the recipient's messages about the request, which do not answer it.
	Replies []Reply `json:"replies,omitempty"`
}

// OwedBy returns what the agent owes and is owed. A request counts if it is in the outbox of its
// sender or in a mailbox of the agent, even if it was acknowledged. With a
// *mailbox.UnreadableError, OwedBy also returns what it could read.
func OwedBy(ctx context.Context, w *mailbox.Workspace, agent schema.AgentName) (Owed, error) {
	return owedExcept(ctx, w, agent, nil)
}

// OwedBesides returns the requests that wait for the agent's answer, as OwedBy does, except those in some files
// of its inbox, which it does not read. The map has the id of the message in each file.
func OwedBesides(ctx context.Context, w *mailbox.Workspace, agent schema.AgentName, files map[string]schema.ID) ([]OpenRequest, error) {
	owed, err := owedExcept(ctx, w, agent, files)
	return owed.Mine, err
}

func owedExcept(ctx context.Context, w *mailbox.Workspace, agent schema.AgentName, except map[string]schema.ID) (Owed, error) {
	owed := Owed{Agent: agent, Mine: []OpenRequest{}, Theirs: []OpenRequest{}}
	if err := w.CheckAgent(agent); err != nil {
		return owed, err
	}
	l := ledger{
		w: w, agent: agent, except: except, tracker: newTracker(w),
		names: make(map[schema.ID]string), inInbox: make(map[schema.ID]bool),
	}
	if err := l.list(); err != nil {
		return owed, err
	}
	unreadable := l.readRequests(ctx)
	if _, err := mailbox.SplitUnreadable(unreadable); err != nil {
		return owed, err
	}
	for _, read := range []func(context.Context) error{l.readReplies, l.readFiles} {
		var err error
		if l.tracker.unreadable, err = mailbox.SplitUnreadable(read(ctx)); err != nil {
			return owed, err
		}
		if l.tracker.unreadable != nil {
			unreadable = l.tracker.unreadable
		}
	}
	if unreadable == nil {
		l.writeHints()
	}
	for _, d := range l.debts {
		m := d.request
		p, err := l.tracker.progress(m, d.debtor, l.files[m.ID], l.replies[m.ID])
		if err != nil {
			return owed, err
		}
		if p.Answer != "" {
			continue
		}
		open := OpenRequest{
			ID: m.ID, From: m.From, To: d.debtor, Type: m.Type, Priority: m.Priority, Subject: m.Subject, CreatedAt: m.CreatedAt,
			ExpiresAt: m.ExpiresAt, ConversationID: m.ConversationID, Stage: p.Stage, Reason: p.Reason, Replies: p.Replies,
		}
		if d.debtor == agent {
			owed.Mine = append(owed.Mine, open)
		} else {
			owed.Theirs = append(owed.Theirs, open)
		}
	}
	if unreadable == nil && l.tracker.unreadable != nil {
		return owed, l.tracker.unreadable
	}
	return owed, unreadable
}

// debt is an answer that is owed.
type debt struct {
	request *schema.Message
	debtor  schema.AgentName
}

// ledger finds the debts of an agent. It reads in three steps, so that of many old messages it reads
// only those that matter: requests, then newer messages that may answer one, then the files of the
// requests without an answer.
type ledger struct {
	w *mailbox.Workspace
	// listing has the outboxes and the boxes of the agent, or the hints from an earlier listing.
	listing *mailbox.Listing
	found   hints
	agent   schema.AgentName
	// except has the ids of requests that do not count, by their files in the inbox.
	except  map[string]schema.ID
	tracker *tracker
	// debts are in the order of age.
	debts []debt
	// names are those of the files in which the requests were found.
	names map[schema.ID]string
	// inInbox has the requests and replies in the inbox of the agent.
	inInbox map[schema.ID]bool
	// replies and files are those of a request.
	replies, files map[schema.ID][]mailbox.Entry
}

// readRequests finds requests from and to the agent, and those replies that are also requests. Types are in
// the names of files. Bodies are not kept, for there may be many.
func (l *ledger) readRequests(ctx context.Context) error {
	found, err := l.listing.Search(ctx, func(agent schema.AgentName, box mailbox.Box) mailbox.NameFilter {
		if box != mailbox.Outbox && agent != l.agent {
			return nil
		}
		return func(name string) bool {
			if _, known := l.except[name]; known && agent == l.agent && box == mailbox.Inbox {
				return false
			}
			parsed, err := schema.ParseFileName(name)
			return err != nil || parsed.Type.IsRequest()
		}
	}, func(m *schema.Message) bool {
		m.Body = schema.Value{}
		return (m.From == l.agent || m.IsFor(l.agent)) && (m.Type.IsRequest() || m.ParentID != "")
	})
	l.replies = make(map[schema.ID][]mailbox.Entry)
	seen := make(map[schema.ID]bool)
	for _, id := range l.except {
		seen[id] = true
	}
	for _, e := range found {
		m := e.Message
		if e.Agent == l.agent && e.Box == mailbox.Inbox {
			l.inInbox[m.ID] = true
		}
		if e.Err != nil || seen[m.ID] {
			continue
		}
		seen[m.ID], l.names[m.ID] = true, e.Name
		if m.ParentID != "" {
			l.replies[m.ParentID] = append(l.replies[m.ParentID], e)
		}
		if !m.Type.IsRequest() || m.ExpiredAt(l.tracker.now) {
			continue
		}
		for _, to := range m.To {
			if to != mailbox.Postmaster && (m.From == l.agent || to == l.agent) {
				l.debts = append(l.debts, debt{m, to})
			}
		}
	}
	slices.SortStableFunc(l.debts, func(a, b debt) int { return schema.CompareAge(a.request, b.request) })
	l.dropAnswered()
	return err
}

// readReplies finds the replies that are not requests, in the outboxes of the debtors and among the
// messages that the agent received.
func (l *ledger) readReplies(ctx context.Context) error {
	debtors := make(map[schema.AgentName]bool)
	open := make(map[schema.ID]bool)
	var oldest time.Time
	for _, d := range l.debts {
		debtors[d.debtor], open[d.request.ID] = true, true
		if at := d.request.CreatedAt.Time(); oldest.IsZero() || at.Before(oldest) {
			oldest = at
		}
	}
	if len(open) == 0 {
		return nil
	}
	mayFollow := conversation.Following(oldest)
	found, err := l.listing.Search(ctx, func(agent schema.AgentName, box mailbox.Box) mailbox.NameFilter {
		if box != mailbox.Outbox && agent != l.agent || box == mailbox.Outbox && !debtors[agent] {
			return nil
		}
		return func(name string) bool {
			parsed, err := schema.ParseFileName(name)
			return err == nil && !parsed.Type.IsRequest() && debtors[parsed.From] && mayFollow(name)
		}
	}, func(m *schema.Message) bool {
		m.Body = schema.Value{}
		return open[m.ParentID]
	})
	for _, e := range found {
		l.replies[e.Message.ParentID] = append(l.replies[e.Message.ParentID], e)
	}
	l.dropAnswered()
	return err
}

// readFiles finds the files of the requests, with their bodies. All copies have the same name or the long one.
func (l *ledger) readFiles(ctx context.Context) error {
	open := make(map[schema.ID]bool)
	var names []string
	for _, d := range l.debts {
		id := d.request.ID
		if open[id] {
			continue
		}
		open[id] = true
		names = append(names, l.names[id])
		if long, err := d.request.LongFileName(); err == nil && long != l.names[id] {
			names = append(names, long)
		}
	}
	if len(open) == 0 {
		return nil
	}
	found, err := mailbox.SearchNamed(ctx, l.w, names, func(m *schema.Message) bool { return open[m.ID] })
	l.files = make(map[schema.ID][]mailbox.Entry, len(open))
	whole := make(map[schema.ID]*schema.Message, len(open))
	for _, e := range found {
		id := e.Message.ID
		l.files[id] = append(l.files[id], e)
		if e.Err == nil && whole[id] == nil {
			whole[id] = e.Message
		}
	}
	for i, d := range l.debts {
		if m := whole[d.request.ID]; m != nil {
			l.debts[i].request = m
		}
	}
	return err
}

// dropAnswered removes the debts that have an answer among the replies.
func (l *ledger) dropAnswered() {
	l.debts = slices.DeleteFunc(l.debts, func(d debt) bool {
		return slices.ContainsFunc(l.replies[d.request.ID], func(e mailbox.Entry) bool {
			return e.Err == nil && e.Message.From == d.debtor && e.Message.Answers(d.request)
		})
	})
}
