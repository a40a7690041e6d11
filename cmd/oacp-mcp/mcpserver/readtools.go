package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/spelling"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/conversation"
	"github.com/oacp-go/oacp/mailbox/trust"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn"
	"github.com/oacp-go/oacp/validate"
)

// addReadTools offers the mailbox tools that change nothing.
func (s *Server) addReadTools() {
	addTool(s, "list_inbox", "List the inbox",
		"List your pending messages in the order to work on them: by priority, then requests, then the "+
			"oldest. Listing changes nothing; a message stays until acknowledge_message.",
		reads(), s.listInbox)
	addTool(s, "read_message", "Read a message",
		"Get a message in full, wherever it is: pending, sent, archived or dead letter. Reading changes nothing.",
		reads(), s.readMessage)
	addTool(s, "show_thread", "Show a conversation",
		"List every message of the conversation that a message belongs to, answers below what they answer, with "+
			"how far each got and the beginning of its text; read_message gives the rest.",
		reads(), s.showThread)
	addTool(s, "list_owed", "List what is owed",
		"List the requests that wait for your answer, also those that you acknowledged without one, and your own "+
			"that wait for others' answers.",
		reads(), s.listOwed)
	addTool(s, "validate_message", "Check a message file",
		"Check the text of a message file that you wrote or found, and get every problem with its place, "+
			"rule and fix. Messages sent with send_message are checked anyway.",
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
	CreatedAt      schema.Timestamp      `json:"created_at_utc" jsonschema:"When it was written."`
	Age            string                `json:"age" jsonschema:"How old it is, such as 5m, 3h or 2d."`
	ExpiresAt      schema.Timestamp      `json:"expires_at,omitempty" jsonschema:"When it expires."`
	Expired        bool                  `json:"expired" jsonschema:"It has expired."`
	ExpectsAnswer  bool                  `json:"expects_answer" jsonschema:"The sender expects an answer."`
	ConversationID schema.ConversationID `json:"conversation_id,omitempty" jsonschema:"The conversation it belongs to."`
	ParentID       schema.ID             `json:"parent_message_id,omitempty" jsonschema:"The message it answers or follows."`
	Excerpt        string                `json:"excerpt,omitempty" jsonschema:"The beginning of its text."`
	Reply          schema.ID             `json:"reply,omitempty" jsonschema:"What you have sent in reply while it is pending."`
	Answered       bool                  `json:"answered,omitempty" jsonschema:"The reply is the answer."`
	trust.Finding
}

func newSummary(m *schema.Message, now time.Time) summary {
	return summary{
		MessageID: m.ID, From: m.From, To: m.To, Type: m.Type, Priority: m.Priority, Subject: m.Subject,
		CreatedAt: m.CreatedAt, Age: spelling.Age(m.CreatedAt.Time(), now), ExpiresAt: m.ExpiresAt, Expired: m.ExpiredAt(now),
		ExpectsAnswer:  m.Type.ExpectsAnswer(),
		ConversationID: m.ConversationID, ParentID: m.ParentID, Excerpt: excerpt(m.Body),
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
	return text
}

type listInboxInput struct {
	Limit limit `json:"limit,omitempty" jsonschema:"List at most so many messages, 50 if left out."`
}

type inboxList struct {
	Agent      schema.AgentName `json:"agent" jsonschema:"The agent of the inbox."`
	Total      int              `json:"total" jsonschema:"How many messages are pending, listed or not."`
	Messages   []summary        `json:"messages" jsonschema:"The messages, in the order in which to work on them."`
	Unreadable []unreadable     `json:"unreadable" jsonschema:"Files in the inbox that are not valid messages, with what can be read of them."`
}

type unreadable struct {
	Path      string           `json:"path" jsonschema:"The file."`
	Error     string           `json:"error" jsonschema:"What is wrong with it."`
	MessageID schema.ID        `json:"message_id,omitempty" jsonschema:"Id of the message."`
	From      schema.AgentName `json:"from,omitempty" jsonschema:"The sender."`
	Type      schema.Type      `json:"type,omitempty" jsonschema:"What the message is for."`
	Priority  schema.Priority  `json:"priority,omitempty" jsonschema:"P0 is the most urgent, P3 the least."`
	Subject   string           `json:"subject,omitempty" jsonschema:"What it is about."`
	CreatedAt schema.Timestamp `json:"created_at_utc,omitempty" jsonschema:"When it was written."`
}

func newUnreadable(e mailbox.Entry) unreadable {
	u := unreadable{Path: e.Path, Error: e.Err.Error()}
	if m := e.Message; m != nil {
		u.MessageID, u.From, u.Type, u.Priority, u.Subject, u.CreatedAt = m.ID, m.From, m.Type, m.Priority, m.Subject, m.CreatedAt
	}
	return u
}

// line says the same in one line.
func (u unreadable) line() string {
	if u.Subject == "" && u.From == "" {
		return fmt.Sprintf("not a message: %s: %s", oneLine(u.Path), oneLine(u.Error))
	}
	return fmt.Sprintf("not valid: %s %s from %s: %s (file %s): %s", oneLine(string(u.Priority)), oneLine(string(u.Type)),
		oneLine(string(u.From)), oneLine(u.Subject), oneLine(u.Path), oneLine(u.Error))
}

func (s *Server) listInbox(ctx context.Context, in listInboxInput) (inboxList, string, error) {
	result := inboxList{Agent: s.agent, Messages: []summary{}, Unreadable: []unreadable{}}
	entries, err := s.workspace.List(ctx, s.agent, mailbox.Inbox)
	if err != nil {
		return result, "", err
	}
	now := time.Now()
	checker := trust.NewChecker(s.workspace)
	replies, _ := conversation.Responses(ctx, s.workspace, s.agent, entries) // without the outbox, the rest is still true
	for _, e := range entries {
		if e.Err != nil {
			result.Unreadable = append(result.Unreadable, newUnreadable(e))
		} else if result.Total++; result.Total <= in.Limit.orDefault() {
			one := newSummary(e.Message, now)
			one.Finding = checker.Check(e)
			if r := replies[e.Message.ID]; r.Message != nil {
				one.Reply, one.Answered = r.Message.ID, r.Answers
			}
			result.Messages = append(result.Messages, one)
		}
	}
	return result, inboxText(result), nil
}

func inboxText(r inboxList) string {
	var out strings.Builder
	if r.Total == 0 {
		fmt.Fprintf(&out, "Nothing is pending for %s.", r.Agent)
	} else {
		fmt.Fprintf(&out, "%d pending for %s:", r.Total, r.Agent)
	}
	for i, m := range r.Messages {
		fmt.Fprintf(&out, "\n%d. %s", i+1, m.line())
	}
	if rest := r.Total - len(r.Messages); rest > 0 {
		fmt.Fprintf(&out, "\nand %d more: handle these first, or raise limit", rest)
	}
	for _, u := range r.Unreadable {
		out.WriteString("\n" + u.line())
	}
	return out.String()
}

type messageIDInput struct {
	MessageID string `json:"message_id" jsonschema:"Id of the message, or at least four characters of its last part."`
}

type fullMessage struct {
	Message    *schema.Message `json:"message" jsonschema:"The fields of the message."`
	Waits      bool            `json:"waits_for_you" jsonschema:"The message is in your inbox."`
	Expired    bool            `json:"expired" jsonschema:"It has expired."`
	Error      string          `json:"error,omitempty" jsonschema:"Why the message is not valid."`
	Places     []place         `json:"places" jsonschema:"The files that hold it."`
	DeadLetter *deadLetter     `json:"dead_letter,omitempty" jsonschema:"Why an agent gave the message up."`
	trust.Finding
}

// place is a file that holds a message.
type place struct {
	Agent schema.AgentName `json:"agent" jsonschema:"The agent of the mailbox."`
	Box   mailbox.Box      `json:"box" jsonschema:"inbox: pending; outbox: sent by the agent; archive: acknowledged; dead_letter: given up."`
	Path  string           `json:"path" jsonschema:"The file."`
}

type deadLetter struct {
	Agent  schema.AgentName `json:"agent" jsonschema:"The agent that gave it up."`
	Reason string           `json:"reason" jsonschema:"Why."`
	At     schema.Timestamp `json:"at,omitempty" jsonschema:"When."`
}

func (s *Server) readMessage(ctx context.Context, in messageIDInput) (fullMessage, string, error) {
	found, err := s.workspace.Find(ctx, in.MessageID)
	if err != nil {
		return fullMessage{}, "", err
	}
	// Copies may differ. The agent's own one counts.
	shown := found[max(0, slices.IndexFunc(found, func(e mailbox.Entry) bool { return e.Agent == s.agent }))]
	m := shown.Message
	result := fullMessage{
		Message: m, Expired: m.ExpiredAt(time.Now()), Error: errorText(shown.Err), Finding: trust.NewChecker(s.workspace).Check(shown),
	}
	for _, e := range found {
		result.Places = append(result.Places, place{e.Agent, e.Box, e.Path})
		result.Waits = result.Waits || e.Agent == s.agent && e.Box == mailbox.Inbox
		if e.Box == mailbox.DeadLetters && result.DeadLetter == nil {
			result.DeadLetter = s.deadLetter(e)
		}
	}
	text, err := messageText(result)
	return result, text, err
}

func (s *Server) deadLetter(e mailbox.Entry) *deadLetter {
	reason, err := s.workspace.Reason(e)
	if err != nil { // the message itself can be read
		return &deadLetter{Agent: e.Agent, Reason: "the reason cannot be read: " + err.Error()}
	}
	return &deadLetter{Agent: e.Agent, Reason: reason.Reason, At: reason.At}
}

// errorText returns the text of an error, or nothing.
func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// messageText writes the fields as a mail shows them, then the body.
func messageText(r fullMessage) (string, error) {
	var out strings.Builder
	for _, name := range schema.FieldNames() {
		if name == "to" {
			fmt.Fprintf(&out, "to: %s\n", oneLine(listOf(r.Message.To)))
		} else if value, _ := r.Message.TextField(name); value != nil && *value != "" && name != "auth" {
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
	for _, p := range r.Places {
		fmt.Fprintf(&out, "(in the %s of %s)\n", p.Box, p.Agent)
	}
	if r.DeadLetter != nil {
		fmt.Fprintf(&out, "(%s gave it up: %s)\n", r.DeadLetter.Agent, oneLine(r.DeadLetter.Reason))
	}
	out.WriteByte('\n')
	if r.Message.Body.Kind == schema.Text {
		out.WriteString(r.Message.Body.Text)
		return out.String(), nil
	}
	body, err := json.MarshalIndent(r.Message.Body, "", "  ")
	if err != nil {
		return "", fmt.Errorf("message %s: body: %w", r.Message.ID, err)
	}
	out.Write(body)
	return out.String(), nil
}

type thread struct {
	ConversationID schema.ConversationID `json:"conversation_id,omitempty" jsonschema:"The conversation."`
	Messages       []threadMessage       `json:"messages" jsonschema:"Its messages, each followed by its answers, oldest first."`
	Unreadable     string                `json:"unreadable,omitempty" jsonschema:"What could not be read. Messages in it are missing."`
}

type threadMessage struct {
	summary
	Depth int         `json:"depth" jsonschema:"How deep the message is in the tree of answers."`
	Stage turn.Stage  `json:"stage" jsonschema:"How far it got with its recipients, as oacp status says."`
	Box   mailbox.Box `json:"box" jsonschema:"Where the message is now."`
	Error string      `json:"error,omitempty" jsonschema:"Why the message is not valid."`
}

func (s *Server) showThread(ctx context.Context, in messageIDInput) (thread, string, error) {
	result := thread{Messages: []threadMessage{}}
	nodes, err := turn.Thread(ctx, s.workspace, in.MessageID)
	var text strings.Builder
	switch incomplete := new(mailbox.UnreadableError); {
	case len(nodes) > 0 && errors.As(err, &incomplete):
		result.Unreadable = failure.OneLine(incomplete.Error())
		fmt.Fprintf(&text, "There may be more messages: %s\n", result.Unreadable)
	case err != nil:
		return result, "", err
	}
	now := time.Now()
	for i, n := range nodes {
		m := n.Message
		if result.ConversationID == "" {
			result.ConversationID = m.ConversationID
		}
		one := threadMessage{newSummary(m, now), n.Depth, n.Stage(), n.Box, errorText(n.Err)}
		result.Messages = append(result.Messages, one)
		fmt.Fprintf(&text, "%s%d. %s [%s]\n", n.Branch, i+1, one.line(), one.Stage)
		if one.Error != "" {
			fmt.Fprintf(&text, "%s   not valid: %s\n", n.Below, oneLine(one.Error))
		}
		if one.Excerpt != "" {
			fmt.Fprintf(&text, "%s   %s\n", n.Below, oneLine(one.Excerpt))
		}
	}
	return result, text.String(), nil
}

type validateMessageInput struct {
	YAML     string `json:"yaml" jsonschema:"The text of the message file."`
	FileName string `json:"file_name,omitempty" jsonschema:"Name of the file. The content is compared with a name that message files have."`
}

type validity struct {
	Valid       bool                  `json:"valid" jsonschema:"The text is a valid message; there may be warnings."`
	Errors      int                   `json:"errors" jsonschema:"Number of errors."`
	Warnings    int                   `json:"warnings" jsonschema:"Number of warnings."`
	Diagnostics []validate.Diagnostic `json:"diagnostics" jsonschema:"The problems, in the order of the text."`
}

func (s *Server) validateMessage(_ context.Context, in validateMessageInput) (validity, string, error) {
	result := validity{Diagnostics: []validate.Diagnostic{}}
	_, findings := validate.Bytes(in.FileName, []byte(in.YAML))
	var text strings.Builder
	for _, d := range findings {
		result.Diagnostics = append(result.Diagnostics, d)
		if d.Severity == validate.Error {
			result.Errors++
		} else {
			result.Warnings++
		}
		fmt.Fprintf(&text, "%s: %s\n", d.Severity, d)
		if d.Fix != "" {
			fmt.Fprintf(&text, "  fix: %s\n", d.Fix)
		}
	}
	if result.Valid = result.Errors == 0; result.Valid {
		text.WriteString("The message is valid.")
	} else {
		text.WriteString("The message is not valid.")
	}
	return result, text.String(), nil
}
