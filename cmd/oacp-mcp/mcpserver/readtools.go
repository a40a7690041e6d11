package mcpserver

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/spelling"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/conversation"
	"github.com/oacp-go/oacp/mailbox/trust"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn/track"
	"github.com/oacp-go/oacp/validate"
)

// summary is a message without its body.
type summary struct {
	MessageID      schema.ID             `json:"message_id" jsonschema:"Id of the message."`
	From           schema.AgentName      `json:"from" jsonschema:"The sender."`
	To             []schema.AgentName    `json:"to" jsonschema:"The recipients."`
	Type           schema.Type           `json:"type" jsonschema:"What the message is for."`
	Priority       schema.Priority       `json:"priority" jsonschema:"P0 is the most urgent, P3 the least."`
	Subject        string                `json:"subject" jsonschema:"What it is about."`
	Age            string                `json:"age" jsonschema:"How old it is, such as 5m, 3h or 2d."`
	ExpiresAt      schema.Timestamp      `json:"expires_at,omitempty" jsonschema:"When it expires."`
	Expired        bool                  `json:"expired,omitempty" jsonschema:"It has expired."`
	ExpectsAnswer  bool                  `json:"expects_answer,omitempty" jsonschema:"The sender expects an answer."`
	ConversationID schema.ConversationID `json:"conversation_id,omitempty" jsonschema:"The conversation it belongs to."`
	Excerpt        string                `json:"excerpt,omitempty" jsonschema:"The beginning of its text."`
	Reply          schema.ID             `json:"reply,omitempty" jsonschema:"What you have sent in reply while it is pending."`
	Answered       bool                  `json:"answered,omitempty" jsonschema:"The reply is the answer."`
	trust.Finding
}

func newSummary(m *schema.Message, now time.Time) summary {
	return summary{
		MessageID: cut(m.ID, idTokens), From: cut(m.From, nameTokens), To: cutAll(m.To, schema.MaxRecipients, nameTokens),
		Type: cut(m.Type, nameTokens), Priority: cut(m.Priority, nameTokens), Subject: cut(m.Subject, subjectTokens),
		Age: spelling.Age(m.CreatedAt.Time(), now), ExpiresAt: cut(m.ExpiresAt, nameTokens), Expired: m.ExpiredAt(now),
		ExpectsAnswer: m.Type.ExpectsAnswer(), ConversationID: cut(m.ConversationID, idTokens),
	}
}

// excerpt returns the beginning of a message's text.
func excerpt(body schema.Value) string {
	const most = 160
	text := strings.Join(strings.Fields(body.Text), " ")
	if runes := []rune(text); len(runes) > most {
		text = string(runes[:most]) + "…"
	}
	return cut(text, subjectTokens)
}

type inboxList struct {
	Total      int          `json:"total" jsonschema:"How many messages are pending, listed or not."`
	Invalid    int          `json:"invalid,omitempty" jsonschema:"How many files in the inbox are not valid messages, listed or not."`
	Messages   []summary    `json:"messages" jsonschema:"The messages, in the order in which to work on them."`
	Unreadable []unreadable `json:"unreadable,omitempty" jsonschema:"Files that are not valid messages, with what can be read of them."`
	more
}

type unreadable struct {
	File      string           `json:"file" jsonschema:"The file in the inbox."`
	Error     string           `json:"error" jsonschema:"What is wrong with it."`
	MessageID schema.ID        `json:"message_id,omitempty" jsonschema:"Id of the message."`
	From      schema.AgentName `json:"from,omitempty" jsonschema:"The sender."`
	Type      schema.Type      `json:"type,omitempty" jsonschema:"What the message is for."`
	Priority  schema.Priority  `json:"priority,omitempty" jsonschema:"P0 is the most urgent, P3 the least."`
	Subject   string           `json:"subject,omitempty" jsonschema:"What it is about."`
}

func newUnreadable(e mailbox.Entry) unreadable {
	u := unreadable{File: e.Name, Error: cut(e.Err.Error(), reasonTokens)}
	if m := e.Message; m != nil {
		u.MessageID, u.From, u.Type = cut(m.ID, idTokens), cut(m.From, nameTokens), cut(m.Type, nameTokens)
		u.Priority, u.Subject = cut(m.Priority, nameTokens), cut(m.Subject, subjectTokens)
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
	rest, err := behind(in.After, entries, inboxPosition)
	if err != nil {
		return result, err
	}
	candidates := rest[:min(len(rest), in.Limit.orDefault())]
	replies, _ := conversation.Responses(ctx, s.workspace, s.agent, candidates) // without the outbox, the rest is still true
	checker, now, fits := trust.NewChecker(s.workspace), time.Now(), newPage(in.Limit)
	for i, e := range rest {
		if e.Err != nil {
			if one := newUnreadable(e); fits.takes(one) {
				result.Unreadable = append(result.Unreadable, one)
			}
		} else {
			one := newSummary(e.Message, now)
			one.Finding = shortFinding(checker.Check(e))
			if r := replies[e.Message.ID]; r.Message != nil {
				one.Reply, one.Answered = r.Message.ID, r.Answers
			}
			if fits.takes(one) {
				result.Messages = append(result.Messages, one)
			}
		}
		if fits.full {
			result.more = more{len(rest) - i, inboxPosition(rest[i-1]).String()}
			break
		}
	}
	return result, nil
}

type owedList struct {
	Mine       []track.OpenRequest `json:"mine" jsonschema:"Requests that wait for your answer, oldest first."`
	Theirs     []track.OpenRequest `json:"theirs" jsonschema:"Your requests that wait for an answer, oldest first."`
	Total      int                 `json:"total" jsonschema:"How many requests there are, listed or not."`
	Unreadable string              `json:"unreadable,omitempty" jsonschema:"What could not be read. Requests in it are missing."`
	more
}

func (s *Server) listOwed(ctx context.Context, in listing) (owedList, error) {
	result := owedList{Mine: []track.OpenRequest{}, Theirs: []track.OpenRequest{}}
	owed, err := track.OwedBy(ctx, s.workspace, s.agent)
	if result.Unreadable, err = splitUnreadable(err); err != nil {
		return result, err
	}
	at := func(r track.OpenRequest) position { return owedPosition(s.agent, r) }
	all := slices.Concat(owed.Mine, owed.Theirs)
	slices.SortFunc(all, func(a, b track.OpenRequest) int { return at(a).compare(at(b)) })
	rest, err := behind(in.After, all, at)
	result.Total = len(all)
	fits := newPage(in.Limit)
	for i, r := range rest {
		r.Subject, r.Reason, r.ConversationID = cut(r.Subject, subjectTokens), cut(r.Reason, reasonTokens), ""
		r.Replies = r.Replies[max(0, len(r.Replies)-1):]
		if !fits.takes(r) {
			result.more = more{len(rest) - i, at(rest[i-1]).String()}
			break
		}
		if r.To == s.agent {
			result.Mine = append(result.Mine, r)
		} else {
			result.Theirs = append(result.Theirs, r)
		}
	}
	return result, err
}

// splitUnreadable returns the unreadable files if the error consists of nothing else.
func splitUnreadable(err error) (unreadable string, other error) {
	if incomplete, ok := errors.AsType[*mailbox.UnreadableError](err); ok {
		return cut(failure.OneLine(incomplete.Error()), reasonTokens), nil
	}
	return "", err
}

type showThreadInput struct {
	messageIDInput
	listing
}

type thread struct {
	ConversationID schema.ConversationID `json:"conversation_id,omitempty" jsonschema:"The conversation."`
	Total          int                   `json:"total" jsonschema:"How many messages it has, listed or not."`
	Messages       []threadMessage       `json:"messages" jsonschema:"Its messages, each followed by its answers, oldest first."`
	Unreadable     string                `json:"unreadable,omitempty" jsonschema:"What could not be read. Messages in it are missing."`
	more
}

type threadMessage struct {
	summary
	Depth int         `json:"depth,omitempty" jsonschema:"How deep the message is in the tree of answers."`
	Stage track.Stage `json:"stage" jsonschema:"How far it got with its recipients, as oacp status says."`
	Box   mailbox.Box `json:"box" jsonschema:"Where the message is now."`
	Error string      `json:"error,omitempty" jsonschema:"Why the message is not valid."`
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
	if in.After != "" {
		last := slices.IndexFunc(nodes, func(n track.Node) bool { return name(n) == in.After })
		if last < 0 {
			return result, argumentErrorf("the argument after is not the next of an earlier answer: the conversation has no message %q", cut(in.After, idTokens))
		}
		nodes = nodes[last+1:]
	}
	fits, now := newPage(in.Limit), time.Now()
	for i, n := range nodes {
		one := threadMessage{newSummary(n.Message, now), n.Depth, n.Stage(), n.Box, cut(errorText(n.Err), reasonTokens)}
		one.Excerpt = excerpt(n.Message.Body)
		if one.ConversationID == result.ConversationID {
			one.ConversationID = ""
		}
		if !fits.takes(one) {
			result.more = more{len(nodes) - i, name(nodes[i-1])}
			break
		}
		result.Messages = append(result.Messages, one)
	}
	return result, nil
}

type validateMessageInput struct {
	YAML     string `json:"yaml" jsonschema:"The text of the file."`
	FileName string `json:"file_name,omitempty" jsonschema:"Its name, to be checked too."`
}

type validity struct {
	Valid       bool                  `json:"valid" jsonschema:"The text is a valid message; there may be warnings."`
	Errors      int                   `json:"errors" jsonschema:"Number of errors."`
	Warnings    int                   `json:"warnings" jsonschema:"Number of warnings."`
	Diagnostics []validate.Diagnostic `json:"diagnostics" jsonschema:"The problems, in the order of the text: the first of them, if there are many."`
}

func (s *Server) validateMessage(_ context.Context, in validateMessageInput) (validity, error) {
	result := validity{Diagnostics: []validate.Diagnostic{}}
	_, findings := validate.Bytes(in.FileName, []byte(in.YAML))
	fits := newPage(maxLimit)
	for _, d := range findings {
		if d.Severity == validate.Error {
			result.Errors++
		} else {
			result.Warnings++
		}
		d.File, d.Field, d.Message, d.Fix = cut(d.File, idTokens), cut(d.Field, idTokens), cut(d.Message, reasonTokens), cut(d.Fix, reasonTokens)
		if fits.takes(d) {
			result.Diagnostics = append(result.Diagnostics, d)
		}
	}
	result.Valid = result.Errors == 0
	return result, nil
}
