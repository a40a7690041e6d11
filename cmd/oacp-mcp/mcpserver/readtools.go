package mcpserver

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/oacp-go/oacp/internal/spelling"
	"github.com/oacp-go/oacp/live"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/trust"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn/track"
)

// summary is a message without its body.
type summary struct {
	MessageID      schema.ID             `json:"message_id"`
	From           schema.AgentName      `json:"from"`
	To             []schema.AgentName    `json:"to"`
	Type           schema.Type           `json:"type"`
	Priority       schema.Priority       `json:"priority"`
	Subject        string                `json:"subject"`
	Age            string                `json:"age"`
	ExpiresAt      schema.Timestamp      `json:"expires_at,omitempty"`
	Expired        bool                  `json:"expired,omitempty"`
	ExpectsAnswer  bool                  `json:"expects_answer,omitempty"`
	ConversationID schema.ConversationID `json:"conversation_id,omitempty"`
	Excerpt        string                `json:"excerpt,omitempty"`
	Reply          schema.ID             `json:"reply,omitempty"`
	Answered       bool                  `json:"answered,omitempty"`
	Stage          track.Stage           `json:"stage,omitempty"`
	// Progress is what the recipient said about its work and asked back.
	Progress string `json:"progress,omitempty"`
	trust.Finding
}

func newSummary(m *schema.Message, now time.Time) summary {
	return summary{
		MessageID: cut(m.ID, idTokens), From: cut(m.From, nameTokens), To: cutAll(m.To, schema.MaxRecipients, nameTokens),
		Type: cut(m.Type, nameTokens), Priority: cut(m.Priority, nameTokens), Subject: cut(m.Subject, subjectTokens),
		Age: spelling.Age(m.Dated().Time(), now), ExpiresAt: cut(m.ExpiresAt, nameTokens), Expired: m.ExpiredAt(now),
		ExpectsAnswer: m.Type.ExpectsAnswer(), ConversationID: cut(m.ConversationID, idTokens),
	}
}

type inboxList struct {
	Total      int          `json:"total"`
	Invalid    int          `json:"invalid,omitempty"`
	Messages   []summary    `json:"messages"`
	Unreadable []unreadable `json:"unreadable,omitempty"`
	more
}

// unreadable is a file that is not a valid message, and what can be read of it.
type unreadable struct {
	File      string           `json:"file"`
	Error     string           `json:"error"`
	MessageID schema.ID        `json:"message_id,omitempty"`
	From      schema.AgentName `json:"from,omitempty"`
	Subject   string           `json:"subject,omitempty"`
}

func newUnreadable(e mailbox.Entry) unreadable {
	u := unreadable{File: e.Name, Error: shortError(e.Err)}
	if m := e.Message; m != nil {
		u.MessageID, u.From, u.Subject = cut(m.ID, idTokens), cut(m.From, nameTokens), cut(m.Subject, subjectTokens)
	}
	return u
}

func (s *Server) listInbox(ctx context.Context, in listing) (inboxList, error) {
	result := inboxList{Messages: []summary{}}
	entries, err := s.workspace.Inbox(ctx, s.agent)
	if err != nil {
		return result, err
	}
	for _, e := range entries {
		if e.Err == nil {
			result.Total++
		}
	}
	result.Invalid = len(entries) - result.Total
	slices.SortFunc(entries[result.Total:], func(a, b mailbox.Entry) int { return cmp.Compare(a.Name, b.Name) })
	progress, err := track.InInbox(ctx, s.workspace, s.agent, entries)
	if err != nil {
		return result, err
	}
	checker, now, page := trust.NewChecker(s.workspace), time.Now(), newPage(in.Limit)
	result.more, err = paginate(in.After, entries, func(e mailbox.Entry) string { return e.Name }, func(e mailbox.Entry) bool {
		if e.Err != nil {
			return addTo(&result.Unreadable, newUnreadable(e), page)
		}
		one := newSummary(e.Message, now)
		one.Finding = shortFinding(checker.Check(e))
		p := progress[e.Name]
		one.Stage, one.Progress = p.Stage, cut(strings.TrimPrefix(p.Said(now), ", "), reasonTokens)
		for _, r := range p.Replies {
			one.Reply, one.Answered = r.ID, r.Answers
		}
		return addTo(&result.Messages, one, page)
	})
	return result, err
}

type owedList struct {
	Mine   []track.OpenRequest `json:"mine"`
	Theirs []track.OpenRequest `json:"theirs"`
	Total  int                 `json:"total"`
	Unread int                 `json:"unread"`
	// Present says what is known of the agents that owe an answer; see live.Presence.
	Present    map[schema.AgentName]string `json:"present,omitempty"`
	Unreadable string                      `json:"unreadable,omitempty"`
	more
}

func (s *Server) listOwed(ctx context.Context, in listing) (owedList, error) {
	result := owedList{Mine: []track.OpenRequest{}, Theirs: []track.OpenRequest{}}
	owed, err := track.OwedBy(ctx, s.workspace, s.agent)
	if result.Unreadable, err = splitUnreadable(err); err != nil {
		return result, err
	}
	all := slices.Concat(owed.Mine, owed.Theirs)
	result.Total, result.Unread = len(all), owed.Unread
	name := func(r track.OpenRequest) string { return string(r.ID) + " " + string(r.To) }
	page := newPage(in.Limit)
	result.Present = s.present(ctx, owed.Theirs)
	page.left -= costAsJSON(result.Present)
	result.more, err = paginate(in.After, all, name, func(r track.OpenRequest) bool {
		r.Subject, r.Reason, r.ConversationID = cut(r.Subject, subjectTokens), cut(r.Reason, reasonTokens), ""
		r.Replies = r.Replies[max(0, len(r.Replies)-1):]
		list := &result.Theirs
		if r.To == s.agent {
			list = &result.Mine
		}
		return addTo(list, r, page)
	})
	return result, err
}

// present says what is known of the agents that owe the first answers.
func (s *Server) present(ctx context.Context, open []track.OpenRequest) map[schema.AgentName]string {
	present := make(map[schema.AgentName]string)
	for _, r := range open[:min(4, len(open))] {
		if status, err := track.Status(ctx, s.workspace, r.To); err == nil { // else nothing is known
			facts, _ := live.Presence(s.workspace, &status[0], time.Now())
			present[r.To] = cut(cmp.Or(strings.Join(facts, "; "), "nothing known"), reasonTokens)
		}
	}
	return present
}

// splitUnreadable returns the text of an error that only reports unreadable files, and any other error.
func splitUnreadable(err error) (unreadable string, other error) {
	incomplete, other := mailbox.SplitUnreadable(err)
	if incomplete == nil {
		return "", other
	}
	return shortError(incomplete), nil
}

type showThreadInput struct {
	messageIDInput
	listing
}

type thread struct {
	ConversationID schema.ConversationID `json:"conversation_id,omitempty"`
	Total          int                   `json:"total"`
	Messages       []threadMessage       `json:"messages"`
	Unreadable     string                `json:"unreadable,omitempty"`
	more
}

type threadMessage struct {
	summary
	Depth int         `json:"depth,omitempty"`
	Box   mailbox.Box `json:"box"`
	Error string      `json:"error,omitempty"`
}

func (s *Server) showThread(ctx context.Context, in showThreadInput) (thread, error) {
	result := thread{Messages: []threadMessage{}}
	nodes, err := track.Thread(ctx, s.workspace, in.MessageID)
	if len(nodes) > 0 {
		result.Unreadable, err = splitUnreadable(err)
	}
	if err != nil {
		return result, err
	}
	result.Total = len(nodes)
	for _, n := range nodes {
		result.ConversationID = cmp.Or(result.ConversationID, cut(n.Message.ConversationID, idTokens))
	}
	name := func(n track.Node) string { return string(cut(n.Message.ID, idTokens)) }
	page, now := newPage(in.Limit), time.Now()
	result.more, err = paginate(in.After, nodes, name, func(n track.Node) bool {
		one := threadMessage{newSummary(n.Message, now), n.Depth, n.Box, shortError(n.Err)}
		one.Stage, one.Progress = n.Stage(), cut(strings.TrimPrefix(n.Said(now), ", "), reasonTokens)
		one.Excerpt = cut(strings.Join(strings.Fields(n.Message.Body.Text), " "), excerptTokens)
		if one.ConversationID == result.ConversationID {
			one.ConversationID = ""
		}
		return addTo(&result.Messages, one, page)
	})
	return result, err
}
