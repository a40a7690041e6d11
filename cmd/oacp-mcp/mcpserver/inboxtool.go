package mcpserver

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/conversation"
	"github.com/oacp-go/oacp/mailbox/trust"
	"github.com/oacp-go/oacp/schema"
)

// listing is what the tools that list something take.
type listing struct {
	Limit limit  `json:"limit,omitempty" jsonschema:"Default 20."`
	After string `json:"after,omitempty" jsonschema:"The next of the page before."`
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

	held bool
}

func newUnreadable(e mailbox.Entry) unreadable {
	u := unreadable{File: e.Name, Error: cut(e.Err.Error(), reasonTokens), held: e.IsHeld()}
	if m := e.Message; m != nil {
		u.MessageID, u.From, u.Type = cut(m.ID, idTokens), cut(m.From, nameTokens), cut(m.Type, nameTokens)
		u.Priority, u.Subject = cut(m.Priority, nameTokens), cut(m.Subject, subjectTokens)
	}
	return u
}

// line says the same in one line.
func (u unreadable) line() string {
	if u.held {
		return fmt.Sprintf("held: %s: %s", oneLine(u.File), oneLine(u.Error))
	}
	if u.Subject == "" && u.From == "" {
		return fmt.Sprintf("not a message: %s: %s", oneLine(u.File), oneLine(u.Error))
	}
	return fmt.Sprintf("not valid: %s %s from %s: %s (file %s): %s", oneLine(string(u.Priority)), oneLine(string(u.Type)),
		oneLine(string(u.From)), oneLine(u.Subject), oneLine(u.File), oneLine(u.Error))
}

func (s *Server) listInbox(ctx context.Context, in listing) (inboxList, string, error) {
	result := inboxList{Messages: []summary{}}
	after, err := parsePosition(in.After)
	if err != nil {
		return result, "", err
	}
	entries, err := s.workspace.Inbox(ctx, s.agent)
	if err != nil {
		return result, "", err
	}
	for _, e := range entries {
		if e.Err == nil {
			result.Total++
		}
	}
	result.Invalid = len(entries) - result.Total
	slices.SortFunc(entries[result.Total:], func(a, b mailbox.Entry) int { return cmp.Compare(a.Name, b.Name) })
	start := slices.IndexFunc(entries, func(e mailbox.Entry) bool { return inboxPosition(e).compare(after) > 0 })
	if start < 0 {
		start = len(entries)
	}
	text, err := s.inboxPage(ctx, in, entries, start, &result)
	return result, text, err
}

// inboxPage lists what fits of the entries from a place on.
func (s *Server) inboxPage(ctx context.Context, in listing, entries []mailbox.Entry, start int, result *inboxList) (string, error) {
	var text strings.Builder
	switch {
	case result.Total == 0:
		fmt.Fprintf(&text, "Nothing is pending for %s.\n", s.agent)
	case result.Invalid > 0:
		fmt.Fprintf(&text, "%d pending for %s, and %d files that are not valid messages:\n", result.Total, s.agent, result.Invalid)
	default:
		fmt.Fprintf(&text, "%d pending for %s:\n", result.Total, s.agent)
	}
	candidates := entries[start:min(len(entries), start+in.Limit.orDefault())]
	replies, _ := conversation.Responses(ctx, s.workspace, s.agent, candidates) // without the outbox, the rest is still true
	checker, now, fits := trust.NewChecker(s.workspace), time.Now(), newPage(in.Limit)
	end := start
	for _, e := range candidates {
		if e.Err != nil {
			one := newUnreadable(e)
			if line := one.line() + "\n"; fits.takes(line, one) {
				text.WriteString(line)
				result.Unreadable = append(result.Unreadable, one)
				end++
				continue
			}
			break
		}
		one := newSummary(e.Message, now)
		one.Finding = shortFinding(checker.Check(e))
		if r := replies[e.Message.ID]; r.Message != nil {
			one.Reply, one.Answered = r.Message.ID, r.Answers
		}
		line := fmt.Sprintf("%d. %s\n", end+1, one.line())
		if !fits.takes(line, one) {
			break
		}
		text.WriteString(line)
		result.Messages = append(result.Messages, one)
		end++
	}
	if end < len(entries) {
		result.more = more{len(entries) - end, inboxPosition(entries[end-1]).text(inboxPosition(entries[end]))}
		text.WriteString(result.line("list_inbox", ""))
	}
	return strings.TrimSuffix(text.String(), "\n"), nil
}
