package turn

import (
	"bytes"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/oacp-go/oacp/agent"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// request returns the agent's input and the variables that describe the message. A field that the message
// does not have is an empty variable, so that the variable of an outer turn is not inherited.
func (r *Runner) request(entry mailbox.Entry, m *schema.Message, raw []byte, attempt int) (agent.Request, error) {
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
		var err error
		if prompt, err = bodyText(m.Body); err != nil {
			return agent.Request{}, err
		}
	}
	return agent.Request{Prompt: prompt, Env: env}, nil
}

// bodyText returns a body as text, a structured one as YAML.
func bodyText(body schema.Value) (string, error) {
	if body.Kind == schema.Text {
		return body.Text, nil
	}
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	if err := encoder.Encode(yamlNode(body)); err != nil {
		return "", err
	}
	return out.String(), encoder.Close()
}

func yamlNode(v schema.Value) *yaml.Node {
	switch v.Kind {
	case schema.List:
		node := &yaml.Node{Kind: yaml.SequenceNode}
		for _, item := range v.Items {
			node.Content = append(node.Content, yamlNode(item))
		}
		return node
	case schema.Mapping:
		node := &yaml.Node{Kind: yaml.MappingNode}
		for _, p := range v.Pairs {
			key := &yaml.Node{}
			key.SetString(p.Key)
			node.Content = append(node.Content, key, yamlNode(p.Value))
		}
		return node
	case schema.Text:
		// Without quotes, a reader may take the text for a number or a boolean.
		node := &yaml.Node{}
		if node.SetString(v.Text); node.Style == 0 {
			node.Style = yaml.DoubleQuotedStyle
		}
		return node
	}
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Value: "null"}
}
