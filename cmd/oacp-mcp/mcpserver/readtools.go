package mcpserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/spelling"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/trust"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn/track"
	"github.com/oacp-go/oacp/validate"
)

// addReadTools offers the mailbox tools that change nothing.
func (s *Server) addReadTools() {
	addTool(s, "list_inbox",
		"List your pending messages in the order to work on them.",
		reads(), s.listInbox)
	addTool(s, "read_message",
		"Get a message in full: pending, sent, acknowledged or dead letter.",
		reads(), s.readMessage)
	addTool(s, "show_thread",
		"List the conversation of a message as a tree, with the stage of each.",
		reads(), s.showThread)
	addTool(s, "list_owed",
		"List the requests that wait for your answer, and yours that wait for others.",
		reads(), s.listOwed)
	addTool(s, "validate_message",
		"Check a message file that you wrote yourself; send_message checks what it sends.",
		reads(), s.validateMessage)
}

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

// line says the same in one line.
func (m summary) line() string {
	text := fmt.Sprintf("%s %s from %s to %s, %s old: %s (id %s)", oneLine(string(m.Priority)), oneLine(string(m.Type)),
		oneLine(string(m.From)), oneLine(listOf(m.To)), m.Age, oneLine(m.Subject), oneLine(string(m.MessageID)))
	if m.Expired {
		text += " [expired]"
	}
	if m.Answered {
		text += " [answered]"
	} else if m.Reply != "" {
		text += " [replied]"
	}
	if m.Verdict != "" {
		text += " [signature " + oneLine(m.Finding.Text()) + "]"
	}
	return text
}

// oneLine escapes every character that could make a text more than a part of its line: what other
// agents wrote must not look like something that the server says.
func oneLine(text string) string {
	quoted := strconv.Quote(text)
	return strings.ReplaceAll(strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`), `\\`, `\`)
}

// excerpt returns the beginning of a message's text on one line.
func excerpt(body schema.Value) string {
	const most = 160
	text := strings.Join(strings.Fields(body.Text), " ")
	if runes := []rune(text); len(runes) > most {
		text = string(runes[:most]) + "…"
	}
	return cut(text, subjectTokens)
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

func (s *Server) showThread(ctx context.Context, in showThreadInput) (thread, string, error) {
	result := thread{Messages: []threadMessage{}}
	nodes, err := track.Thread(ctx, s.workspace, in.MessageID)
	var text strings.Builder
	switch incomplete := new(mailbox.UnreadableError); {
	case len(nodes) > 0 && errors.As(err, &incomplete):
		result.Unreadable = cut(failure.OneLine(incomplete.Error()), reasonTokens)
		fmt.Fprintf(&text, "There may be more messages: %s\n", result.Unreadable)
	case err != nil:
		return result, "", err
	}
	start, err := threadStart(nodes, in.After)
	if err != nil {
		return result, "", err
	}
	for _, n := range nodes {
		result.ConversationID = cmp.Or(result.ConversationID, cut(n.Message.ConversationID, idTokens))
	}
	result.Total = len(nodes)
	fits, now, end := newPage(in.Limit), time.Now(), start
	for _, n := range nodes[start:] {
		one, lines := newThreadMessage(n, end+1, now, result.ConversationID)
		if !fits.takes(lines, one) {
			break
		}
		text.WriteString(lines)
		result.Messages = append(result.Messages, one)
		end++
	}
	if end < len(nodes) {
		result.more = more{len(nodes) - end, string(cut(nodes[end-1].Message.ID, idTokens))}
		text.WriteString(result.line("show_thread", "the same message_id and "))
	}
	return result, text.String(), nil
}

// threadStart returns the index of the message behind the one that a client saw last.
func threadStart(nodes []track.Node, after string) (int, error) {
	if after == "" {
		return 0, nil
	}
	for i, n := range slices.Backward(nodes) {
		if string(cut(n.Message.ID, idTokens)) == after {
			return i + 1, nil
		}
	}
	return 0, argumentErrorf("the argument after is not the next of an earlier answer: the conversation has no message %q", cut(after, idTokens))
}

// newThreadMessage also returns the lines of the message in the text, with its number. Deep in the
// tree, a number says how deep.
func newThreadMessage(n track.Node, number int, now time.Time, conversation schema.ConversationID) (threadMessage, string) {
	const deepest = 8
	one := threadMessage{newSummary(n.Message, now), n.Depth, n.Stage(), n.Box, cut(errorText(n.Err), reasonTokens)}
	one.Excerpt = excerpt(n.Message.Body)
	if one.ConversationID == conversation {
		one.ConversationID = ""
	}
	branch, below := n.Branch, n.Below
	if n.Depth > deepest {
		branch, below = fmt.Sprintf("(%d deep) ", n.Depth), ""
	}
	var lines strings.Builder
	fmt.Fprintf(&lines, "%s%d. %s [%s]\n", branch, number, one.line(), one.Stage)
	if one.Error != "" {
		fmt.Fprintf(&lines, "%s   not valid: %s\n", below, oneLine(one.Error))
	}
	if one.Excerpt != "" {
		fmt.Fprintf(&lines, "%s   %s\n", below, oneLine(one.Excerpt))
	}
	return one, lines.String()
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

func (s *Server) validateMessage(_ context.Context, in validateMessageInput) (validity, string, error) {
	result := validity{Diagnostics: []validate.Diagnostic{}}
	_, findings := validate.Bytes(in.FileName, []byte(in.YAML))
	var text strings.Builder
	fits, full := newPage(maxLimit), false
	for _, d := range findings {
		if d.Severity == validate.Error {
			result.Errors++
		} else {
			result.Warnings++
		}
		d.File, d.Field, d.Message, d.Fix = cut(d.File, idTokens), cut(d.Field, idTokens), cut(d.Message, reasonTokens), cut(d.Fix, reasonTokens)
		lines := fmt.Sprintf("%s: %s\n", d.Severity, d)
		if d.Fix != "" {
			lines += fmt.Sprintf("  fix: %s\n", d.Fix)
		}
		if full = full || !fits.takes(lines, d); !full {
			result.Diagnostics = append(result.Diagnostics, d)
			text.WriteString(lines)
		}
	}
	if rest := len(findings) - len(result.Diagnostics); rest > 0 {
		fmt.Fprintf(&text, "%d more: correct these first\n", rest)
	}
	if result.Valid = result.Errors == 0; result.Valid {
		text.WriteString("The message is valid.")
	} else {
		text.WriteString("The message is not valid.")
	}
	return result, text.String(), nil
}
