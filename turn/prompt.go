package turn

import (
	"strconv"
	"strings"

	"github.com/oacp-go/oacp/agent"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// request returns the agent's input and the variables that describe the message. A field that the
// message does not have is an empty variable, so that the variable of an outer turn is not
// inherited.
func (r *Runner) request(entry mailbox.Entry, m *schema.Message, raw []byte, attempt int) agent.Request {
	to := make([]string, len(m.To))
	for i, name := range m.To {
		to[i] = string(name)
	}
	env := []string{
		"OACP_MESSAGE_ID=" + string(m.ID),
		"OACP_MESSAGE_FROM=" + string(m.From),
		"OACP_MESSAGE_TO=" + strings.Join(to, ","),
		"OACP_MESSAGE_TYPE=" + string(m.Type),
		"OACP_MESSAGE_PRIORITY=" + string(m.Priority),
		"OACP_MESSAGE_SUBJECT=" + m.Subject,
		"OACP_MESSAGE_CREATED_AT=" + string(m.CreatedAt),
		"OACP_MESSAGE_EXPIRES_AT=" + string(m.ExpiresAt),
		"OACP_MESSAGE_CHANNEL=" + m.Channel,
		"OACP_MESSAGE_CONVERSATION_ID=" + string(mailbox.ConversationOf(m)),
		"OACP_MESSAGE_PARENT_ID=" + string(m.ParentID),
		"OACP_MESSAGE_RELATED_PR=" + m.RelatedPR,
		"OACP_MESSAGE_RELATED_PACKET=" + m.RelatedPacket,
		"OACP_FILE=" + entry.Path,
		"OACP_WORKSPACE=" + r.workspace.Dir(),
		"OACP_AGENT=" + string(r.config.Agent),
		"OACP_ATTEMPT=" + strconv.Itoa(attempt),
	}
	prompt := string(raw)
	if r.config.Input == InputBody {
		if prompt = m.Body.Text; m.Body.Kind == schema.Mapping {
			prompt = string(schema.EncodeMapping(m.Body))
		}
	}
	return agent.Request{Prompt: prompt, Env: env}
}
