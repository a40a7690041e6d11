package mcpserver

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

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

// offset is a place in a text, in characters: a whole number, which JSON may also write as 10.0 or
// 1e2.
type offset float64

// maxOffset is more characters than any text has.
const maxOffset = 1 << 30

type fullMessage struct {
	Message    *schema.Message `json:"message" jsonschema:"The fields of the message."`
	Waits      bool            `json:"waits_for_you,omitempty" jsonschema:"The message is in your inbox."`
	Expired    bool            `json:"expired,omitempty" jsonschema:"It has expired."`
	Error      string          `json:"error,omitempty" jsonschema:"Why the message is not valid."`
	Copies     []messageCopy   `json:"places" jsonschema:"The mailboxes that hold it."`
	DeadLetter *deadLetter     `json:"dead_letter,omitempty" jsonschema:"Why an agent gave the message up."`
	bodyPart
	trust.Finding
}

// messageCopy says where a message is.
type messageCopy struct {
	Agent schema.AgentName `json:"agent" jsonschema:"The agent of the mailbox."`
	Box   mailbox.Box      `json:"box" jsonschema:"inbox: pending; outbox: sent by the agent; archive: acknowledged; dead_letter: given up."`
}

type deadLetter struct {
	Agent  schema.AgentName `json:"agent" jsonschema:"The agent that gave it up."`
	Reason string           `json:"reason" jsonschema:"Why."`
	At     schema.Timestamp `json:"at,omitempty" jsonschema:"When."`
}

// bodyPart says which part of a body the answer holds. It is the zero value for a whole body.
type bodyPart struct {
	Length int      `json:"body_length,omitempty" jsonschema:"If the body is only a part: the characters of the whole one. A structured body is its JSON text then."`
	Offset int      `json:"offset,omitempty" jsonschema:"Where the part begins."`
	Next   int      `json:"next_offset,omitempty" jsonschema:"What to give to read_message as offset for the next part."`
	Cut    []string `json:"cut,omitempty" jsonschema:"Fields that are too long and end with …."`
}

func (s *Server) readMessage(ctx context.Context, in readMessageInput) (fullMessage, string, error) {
	found, err := s.workspace.Find(ctx, in.MessageID)
	if _, err = mailbox.SplitUnreadable(err); err != nil {
		return fullMessage{}, "", err
	}
	// Copies may differ. The agent's own one counts.
	shown := found[max(0, slices.IndexFunc(found, func(e mailbox.Entry) bool { return e.Agent == s.agent }))]
	result := fullMessage{
		Expired: shown.Message.ExpiredAt(time.Now()), Error: cut(errorText(shown.Err), reasonTokens),
		Finding: shortFinding(trust.NewChecker(s.workspace).Check(shown)),
	}
	for _, e := range found {
		if one := (messageCopy{e.Agent, e.Box}); len(result.Copies) < 2*schema.MaxRecipients && !slices.Contains(result.Copies, one) {
			result.Copies = append(result.Copies, one)
		}
		result.Waits = result.Waits || e.Agent == s.agent && e.Box == mailbox.Inbox
		if e.Box == mailbox.DeadLetters && result.DeadLetter == nil {
			result.DeadLetter = s.deadLetter(e)
		}
	}
	text, err := result.fill(shown.Message, int(in.Offset), answerTokens)
	return result, text, err
}

func (s *Server) deadLetter(e mailbox.Entry) *deadLetter {
	reason, err := s.workspace.Reason(e)
	if err != nil { // the message itself can be read
		reason.Reason, reason.At = "the reason cannot be read: "+err.Error(), ""
	}
	return &deadLetter{Agent: e.Agent, Reason: cut(reason.Reason, reasonTokens), At: cut(reason.At, nameTokens)}
}

// errorText returns the text of an error, or nothing.
func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// shortFinding returns a finding with a reason of bounded length.
func shortFinding(f trust.Finding) trust.Finding {
	f.Reason = cut(f.Reason, reasonTokens)
	return f
}

// fill sets the message, with as much of its body from the character start on as the tokens allow, and
// returns the text of the answer.
func (r *fullMessage) fill(m *schema.Message, start, tokens int) (string, error) {
	r.Message, r.Cut = shortFields(m)
	body := m.Body
	text := body.Text
	if body.Kind != schema.Text {
		var err error
		if text, err = encode(body); err != nil {
			return "", fmt.Errorf("message %s: body: %w", cut(m.ID, idTokens), err)
		}
	}
	r.Message.Body = schema.TextValue("")
	r.bodyPart.Length = utf8.RuneCountInString(text)
	if start > 0 && start >= r.Length {
		return "", argumentErrorf("the argument offset is %d, but the body has only %d characters", start, r.Length)
	}
	r.Offset, r.Next = start, r.Length // the most that they can cost
	head := r.text("")
	left := tokens - max(live.Tokens(head), costAsJSON(r)) - frameTokens/4
	rest := string([]rune(text)[start:])
	part := rest[:fitting(rest, max(left, 1))]
	r.Next += utf8.RuneCountInString(part) + start - r.Length
	r.Message.Body = schema.TextValue(part)
	if start == 0 && len(part) == len(text) {
		r.Message.Body = body
		r.Length, r.Next = 0, 0
	} else if len(part) == len(rest) {
		r.Next = 0
	}
	return r.text(part), nil
}

// shortFields returns a copy of the message without its signature, whose fields besides the body are
// not longer than those of most valid messages, and the names of the fields that are cut.
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

// text writes the fields as a mail shows them, then the body.
func (r *fullMessage) text(body string) string {
	var out strings.Builder
	for _, name := range schema.FieldNames() {
		if name == "to" {
			fmt.Fprintf(&out, "to: %s\n", oneLine(listOf(r.Message.To)))
		} else if value, _ := r.Message.TextField(name); value != nil && *value != "" {
			fmt.Fprintf(&out, "%s: %s\n", name, oneLine(*value))
		}
	}
	if r.Expired {
		out.WriteString("(expired)\n")
	}
	if r.Error != "" {
		fmt.Fprintf(&out, "(not valid: %s)\n", oneLine(r.Error))
	}
	if r.Verdict != "" {
		fmt.Fprintf(&out, "(signature %s)\n", oneLine(r.Finding.Text()))
	}
	for _, p := range r.Copies {
		fmt.Fprintf(&out, "(in the %s of %s)\n", p.Box, p.Agent)
	}
	if r.DeadLetter != nil {
		fmt.Fprintf(&out, "(%s gave it up: %s)\n", r.DeadLetter.Agent, oneLine(r.DeadLetter.Reason))
	}
	if r.Length > 0 {
		end := r.Length
		if r.Next > 0 {
			end = r.Next
		}
		fmt.Fprintf(&out, "(characters %d to %d of the %d of its body", r.Offset, end, r.Length)
		if r.Next > 0 {
			fmt.Fprintf(&out, "; read_message with offset=%d reads on", r.Next)
		}
		out.WriteString(")\n")
	}
	return out.String() + "\n" + body
}
