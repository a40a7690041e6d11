package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/validate"
)

// addMailboxTools offers the tools of a workspace.
func (s *Server) addMailboxTools() error {
	return errors.Join(s.addReadTools(), s.addSendTools(), s.addAcknowledgeTool())
}

// addReadTools offers the tools that change nothing.
func (s *Server) addReadTools() error {
	reads := effect{readOnly: true, idempotent: true}
	return errors.Join(
		addTool(s, tool[listInboxInput, inboxList]{
			name: "list_inbox", title: "List the inbox",
			description: "List your pending messages in the order to work on them: by priority, then requests, then the " +
				"oldest. Listing changes nothing; a message stays until acknowledge_message.",
			effect: reads,
			call:   s.listInbox,
		}),
		addTool(s, tool[messageIDInput, fullMessage]{
			name: "read_message", title: "Read a message",
			description: "Get a message in full, wherever it is: pending, sent, archived or dead letter. Reading changes nothing.",
			effect:      reads,
			call:        s.readMessage,
		}),
		addTool(s, tool[messageIDInput, thread]{
			name: "show_thread", title: "Show a conversation",
			description: "List every message of the conversation that a message belongs to, oldest first, with the beginning " +
				"of each text; read_message gives the rest.",
			effect: reads,
			call:   s.showThread,
		}),
		addTool(s, tool[validateMessageInput, validity]{
			name: "validate_message", title: "Check a message file",
			description: "Check the text of a message file that you wrote or found, and get every problem with its place, " +
				"rule and fix. Messages sent with send_message are checked anyway.",
			effect: reads,
			call:   s.validateMessage,
		}),
	)
}

type listInboxInput struct {
	Limit limit `json:"limit,omitempty" jsonschema:"List at most so many messages, 50 if left out."`
}

type inboxList struct {
	Agent      schema.AgentName `json:"agent" jsonschema:"The agent of the inbox."`
	Total      int              `json:"total" jsonschema:"How many messages are pending, listed or not."`
	Messages   []summary        `json:"messages" jsonschema:"The messages, in the order in which to work on them."`
	Unreadable []unreadable     `json:"unreadable" jsonschema:"Files in the inbox that are not messages."`
}

type unreadable struct {
	Path  string `json:"path" jsonschema:"The file."`
	Error string `json:"error" jsonschema:"What is wrong with it."`
}

func (s *Server) listInbox(ctx context.Context, in listInboxInput) (inboxList, string, error) {
	result := inboxList{Agent: s.agent, Messages: []summary{}, Unreadable: []unreadable{}}
	entries, err := s.workspace.List(ctx, s.agent, mailbox.Inbox)
	if err != nil {
		return result, "", err
	}
	now := time.Now()
	for _, e := range entries {
		switch {
		case e.Err != nil || e.Message == nil:
			result.Unreadable = append(result.Unreadable, unreadable{e.Path, e.Err.Error()})
		default:
			if result.Total++; result.Total <= in.Limit.orDefault() {
				result.Messages = append(result.Messages, newSummary(e.Message, now))
			}
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
		fmt.Fprintf(&out, "\nnot a message: %s: %s", oneLine(u.Path), oneLine(u.Error))
	}
	return out.String()
}

type messageIDInput struct {
	MessageID string `json:"message_id" jsonschema:"Id of the message, a unique beginning of it, or its last part."`
}

type fullMessage struct {
	Message    *schema.Message `json:"message" jsonschema:"The fields of the message."`
	Waits      bool            `json:"waits_for_you" jsonschema:"The message is in your inbox."`
	Expired    bool            `json:"expired" jsonschema:"It has expired."`
	Places     []place         `json:"places" jsonschema:"The files that hold it."`
	DeadLetter *deadLetter     `json:"dead_letter,omitempty" jsonschema:"Why an agent gave the message up."`
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
	m := found[0].Message
	result := fullMessage{
		Message: m, Waits: waitsFor(found, s.agent), Expired: m.ExpiredAt(time.Now()), Places: placesOf(found),
	}
	for _, e := range found {
		if e.Box == mailbox.DeadLetters {
			result.DeadLetter = s.deadLetter(e)
			break
		}
	}
	text, err := messageText(result)
	return result, text, err
}

func (s *Server) deadLetter(e mailbox.Entry) *deadLetter {
	reason, err := s.workspace.Reason(e)
	if err != nil {
		// The message itself can be read, and is what was asked for.
		return &deadLetter{Agent: e.Agent, Reason: "the reason cannot be read: " + err.Error()}
	}
	return &deadLetter{Agent: e.Agent, Reason: reason.Reason, At: reason.At}
}

// messageText writes the fields as a mail shows them, then the body.
func messageText(r fullMessage) (string, error) {
	var out strings.Builder
	for _, name := range schema.FieldNames() {
		if name == "to" {
			fmt.Fprintf(&out, "to: %s\n", listOf(r.Message.To))
		} else if value, _ := r.Message.TextField(name); value != nil && *value != "" {
			fmt.Fprintf(&out, "%s: %s\n", name, oneLine(*value))
		}
	}
	if r.Expired {
		out.WriteString("(expired)\n")
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
	Messages       []threadMessage       `json:"messages" jsonschema:"Its messages, oldest first."`
}

type threadMessage struct {
	summary
	Depth int         `json:"depth" jsonschema:"How deep the message is in the tree of answers."`
	Box   mailbox.Box `json:"box" jsonschema:"Where the message is now."`
}

func (s *Server) showThread(ctx context.Context, in messageIDInput) (thread, string, error) {
	result := thread{Messages: []threadMessage{}}
	entries, err := s.workspace.Thread(ctx, in.MessageID)
	if err != nil {
		return result, "", err
	}
	var text strings.Builder
	now := time.Now()
	depths := make(map[schema.ID]int, len(entries))
	for i, e := range entries {
		m := e.Message
		if parent, ok := depths[m.ParentID]; ok {
			depths[m.ID] = parent + 1
		} else {
			depths[m.ID] = 0
		}
		if result.ConversationID == "" {
			result.ConversationID = m.ConversationID
		}
		one := threadMessage{newSummary(m, now), depths[m.ID], e.Box}
		result.Messages = append(result.Messages, one)
		fmt.Fprintf(&text, "%s%d. %s\n", strings.Repeat("  ", one.Depth), i+1, one.line())
		if one.Excerpt != "" {
			fmt.Fprintf(&text, "%s   %s\n", strings.Repeat("  ", one.Depth), oneLine(one.Excerpt))
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
	result.Valid = result.Errors == 0
	if result.Valid {
		text.WriteString("The message is valid.")
	} else {
		text.WriteString("The message is not valid.")
	}
	return result, text.String(), nil
}
