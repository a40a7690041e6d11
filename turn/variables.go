package turn

import (
	"strings"

	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/conversation"
	"github.com/oacp-go/oacp/schema"
)

// Variables returns the environment variables that describe a message to a program, with the path of its file. The
// variable of a missing field is empty, so that the program does not inherit the one of an outer turn.
func Variables(w *mailbox.Workspace, agent schema.AgentName, path string, m *schema.Message) []string {
	to := make([]string, len(m.To))
	for i, name := range m.To {
		to[i] = string(name)
	}
	return []string{
		"OACP_MESSAGE_ID=" + string(m.ID),
		"OACP_MESSAGE_FROM=" + string(m.From),
		"OACP_MESSAGE_TO=" + strings.Join(to, ","),
		"OACP_MESSAGE_TYPE=" + string(m.Type),
		"OACP_MESSAGE_PRIORITY=" + string(m.Priority),
		"OACP_MESSAGE_SUBJECT=" + m.Subject,
		"OACP_MESSAGE_CREATED_AT=" + string(m.CreatedAt),
		"OACP_MESSAGE_EXPIRES_AT=" + string(m.ExpiresAt),
		"OACP_MESSAGE_CHANNEL=" + m.Channel,
		"OACP_MESSAGE_CONVERSATION_ID=" + string(conversation.Of(m)),
		"OACP_MESSAGE_PARENT_ID=" + string(m.ParentID),
		"OACP_MESSAGE_RELATED_PR=" + m.RelatedPR,
		"OACP_MESSAGE_RELATED_PACKET=" + m.RelatedPacket,
		"OACP_FILE=" + path,
		"OACP_WORKSPACE=" + w.Dir(),
		"OACP_AGENT=" + string(agent),
	}
}
