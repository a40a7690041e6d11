package mcpserver

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/live"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/trust"
	"github.com/oacp-go/oacp/schema"
)

type messageIDInput struct {
	MessageID string `json:"message_id" jsonschema:"Its id, or at least four characters of its last part."`
}

type readMessageInput struct {
	messageIDInput
	Offset offset `json:"offset,omitempty" jsonschema:"The next_offset of the answer before, to read on in a long body."`
}

type fullMessage struct {
	Provenance string          `json:"provenance,omitempty"`
	Message    *schema.Message `json:"message,omitempty"`
	Waits      bool            `json:"waits_for_you,omitempty"`
	Expired    bool            `json:"expired,omitempty"`
	Error      string          `json:"error,omitempty"`
	Copies     []messageCopy   `json:"places,omitempty"`
	DeadLetter *deadLetter     `json:"dead_letter,omitempty"`
	bodyPart
	trust.Finding
}

// messageCopy says where a copy of a message is.
type messageCopy struct {
	Agent schema.AgentName `json:"agent"`
	Box   mailbox.Box      `json:"box"`
}

type deadLetter struct {
	Agent  schema.AgentName `json:"agent"`
	Reason string           `json:"reason"`
	At     schema.Timestamp `json:"at,omitempty"`
}

// bodyPart says which part of a body the answer holds. It is the zero value for a whole body.
type bodyPart struct {
	Length int      `json:"body_length,omitempty"`
	Offset int      `json:"offset,omitempty"`
	Next   int      `json:"next_offset,omitempty"`
	Cut    []string `json:"cut,omitempty"`
}

// readMessage returns a message, and records that the agent gets it if it is pending.
func (s *Server) readMessage(ctx context.Context, in readMessageInput) (fullMessage, error) {
	found, err := s.workspace.Find(ctx, in.MessageID)
	if _, err = mailbox.SplitUnreadable(err); err != nil {
		return fullMessage{}, err
	}
	// Copies may differ, so the agent's own copy is shown if there is one.
	shown := found[max(0, slices.IndexFunc(found, func(e mailbox.Entry) bool { return e.Agent == s.agent }))]
	var result fullMessage
	for _, e := range found {
		if one := (messageCopy{e.Agent, e.Box}); len(result.Copies) < 2*schema.MaxRecipients && !slices.Contains(result.Copies, one) {
			result.Copies = append(result.Copies, one)
		}
		result.Waits = result.Waits || e.Agent == s.agent && e.Box == mailbox.Inbox
		if e.Box == mailbox.DeadLetters && result.DeadLetter == nil {
			result.DeadLetter = s.deadLetter(e)
		}
	}
	if err := s.fill(&result, shown, int(in.Offset), answerTokens); err != nil || !result.Waits || shown.Err != nil {
		return result, err
	}
	given, err := s.client.Read(ctx, []mailbox.Entry{shown})
	if err != nil {
		s.warn(err) // the message counts as new
	}
	s.show(ctx, given...)
	return result, nil
}

func (s *Server) deadLetter(e mailbox.Entry) *deadLetter {
	reason, err := s.workspace.Reason(e)
	if err != nil { // the message itself can be read
		reason.Reason, reason.At = "the reason cannot be read: "+err.Error(), ""
	}
	return &deadLetter{Agent: e.Agent, Reason: cut(reason.Reason, reasonTokens), At: cut(reason.At, nameTokens)}
}

// shortError returns the text of an error on one line of bounded length, or an empty text for nil.
func shortError(err error) string {
	if err == nil {
		return ""
	}
	return cut(failure.OneLine(err.Error()), reasonTokens)
}

// shortFinding returns a finding with a reason of bounded length.
func shortFinding(f trust.Finding) trust.Finding {
	f.Reason = cut(f.Reason, reasonTokens)
	return f
}

// fill sets the message of an entry. It includes as much of the body as the tokens allow, beginning with the
// character at start.
func (s *Server) fill(r *fullMessage, e mailbox.Entry, start, tokens int) error {
	r.Provenance = visible.Provenance(e.Message.ID.Short(), cut(string(e.Message.From), nameTokens))
	r.Expired, r.Error = e.Message.ExpiredAt(time.Now()), shortError(e.Err)
	r.Finding = shortFinding(trust.NewChecker(s.workspace).Check(e))
	r.Message, r.Cut = shortFields(e.Message)
	body := e.Message.Body
	text := body.Text
	if body.Kind != schema.Text {
		var err error
		if text, err = encode(body); err != nil {
			return fmt.Errorf("message %s: body: %w", cut(e.Message.ID, idTokens), err)
		}
	}
	length := utf8.RuneCountInString(text)
	if start > 0 && start >= length {
		return argumentErrorf("the argument offset is %d, but the body has only %d characters", start, length)
	}
	r.Message.Body = schema.TextValue("")
	r.Length, r.Offset, r.Next = length, start, length // at their longest, to reserve tokens
	rest := string([]rune(text)[start:])
	part := rest[:fitting(rest, max(tokens-costAsJSON(r)-frameTokens/4, 1))]
	if short := strings.TrimSuffix(part, "<"); short != "" && len(part) < len(rest) {
		part = short // what follows decides whether it begins a tag
	}
	r.Next = start + utf8.RuneCountInString(part)
	r.Message.Body = schema.TextValue(part)
	if len(part) == len(rest) {
		r.Next = 0
	}
	if len(part) == len(text) {
		r.Message.Body, r.Length = body, 0
	}
	return nil
}

// shortFields returns a copy of the message without its signature and with all fields except the body cut to
// a bounded length, and the names of the fields that it has cut.
func shortFields(m *schema.Message) (_ *schema.Message, shortened []string) {
	const fieldTokens, allTokens = 400, 900
	short, left := *m, allTokens
	short.Auth = ""
	short.To = cutAll(m.To, schema.MaxRecipients, nameTokens)
	if !slices.Equal(short.To, m.To) {
		shortened = append(shortened, "to")
	}
	for _, name := range schema.FieldNames() {
		text, _ := short.TextField(name)
		if text == nil || *text == "" {
			continue
		}
		whole := *text
		if *text = cut(whole, max(2, min(left, fieldTokens))); *text != whole {
			shortened = append(shortened, name)
		}
		left -= live.Tokens(*text)
	}
	return &short, shortened
}
