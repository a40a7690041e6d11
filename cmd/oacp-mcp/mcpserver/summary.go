package mcpserver

import (
	"fmt"
	"slices"
	"time"

	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

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
}

func newSummary(m *schema.Message, now time.Time) summary {
	return summary{
		MessageID: m.ID, From: m.From, To: m.To, Type: m.Type, Priority: m.Priority, Subject: m.Subject,
		CreatedAt: m.CreatedAt, Age: command.Age(m.CreatedAt.Time(), now), ExpiresAt: m.ExpiresAt, Expired: m.ExpiredAt(now),
		ExpectsAnswer:  m.Type.ExpectsAnswer(),
		ConversationID: m.ConversationID, ParentID: m.ParentID, Excerpt: excerpt(m.Body),
	}
}

// line says the same in one line.
func (m summary) line() string {
	text := fmt.Sprintf("%s %s from %s to %s, %s old: %s (id %s)",
		m.Priority, m.Type, m.From, listOf(m.To), m.Age, oneLine(m.Subject), m.MessageID)
	if m.Expired {
		text += " [expired]"
	}
	return text
}

// place is a file that holds a message.
type place struct {
	Agent schema.AgentName `json:"agent" jsonschema:"The agent of the mailbox."`
	Box   mailbox.Box      `json:"box" jsonschema:"inbox: pending; outbox: sent by the agent; archive: acknowledged; dead_letter: given up."`
	Path  string           `json:"path" jsonschema:"The file."`
}

func placesOf(entries []mailbox.Entry) []place {
	places := make([]place, len(entries))
	for i, e := range entries {
		places[i] = place{e.Agent, e.Box, e.Path}
	}
	return places
}

// waitsFor reports whether one of the entries is in the agent's inbox.
func waitsFor(entries []mailbox.Entry, agent schema.AgentName) bool {
	return slices.ContainsFunc(entries, func(e mailbox.Entry) bool { return e.Agent == agent && e.Box == mailbox.Inbox })
}
