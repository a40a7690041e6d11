package provider

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/conversation"
	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/validate"
)

// A draft is what Gas City writes to standard input.
type draft struct {
	From    string `json:"from"`
	Subject string `json:"subject"`
	Body    string `json:"body"`
}

// human is who sends without a name. To Gas City, it is the person.
const human = "human"

// longestTitle is the length, in characters, of a subject that is made of a body.
const longestTitle = 80

func (p *provider) send(to string) (any, error) {
	return p.deliver(schema.Message{To: []schema.AgentName{agentOf(to)}})
}

// reply answers a message. To an oacp agent that asked something, the reply is the answer: Gas City cannot say that
// it is not.
func (p *provider) reply(id string) (any, error) {
	letters, err := p.find(id)
	if err != nil {
		return nil, err
	}
	original := letters[0].Message
	m := conversation.Reply(original, "")
	if original.Type.IsRequest() {
		m.MakeFinal()
	}
	return p.deliver(m)
}

// deliver completes a message with what is on standard input, and sends it. Mail has no types, so the message is a
// notification.
func (p *provider) deliver(m schema.Message) (any, error) {
	var in draft
	if err := json.NewDecoder(io.LimitReader(p.In, 4*schema.MaxFileSize)).Decode(&in); err != nil {
		return nil, fmt.Errorf("reading standard input: %w", err)
	}
	var err error
	if m.From, err = command.ActingAgent(p.w, string(agentOf(cmp.Or(in.From, human))), p.Streams); err != nil {
		return nil, err
	}
	if m.ParentID != "" {
		if err := project.CheckProgram(p.w, m.From); err != nil {
			return nil, err
		}
	}
	m.Type = schema.Notification
	subject, body := strings.TrimSpace(in.Subject), in.Body
	m.Subject = cmp.Or(subject, m.Subject, title(body))
	m.Body = schema.TextValue(body)
	if strings.TrimSpace(body) == "" {
		m.Body = schema.TextValue(subject)
	}
	if err := command.CheckDraft(p.ctx, p.w, &m, validate.Source{}); err != nil {
		return nil, err
	}
	receipt, err := p.w.Send(p.ctx, m, &mailbox.SendOptions{Create: true})
	if err != nil {
		return nil, err
	}
	sent := lettersOf([]mailbox.Entry{{Message: receipt.Message}})[0]
	answer := p.mail(sent)
	answer.Read = false
	return answer, nil
}

// title returns the first line of a body, cut to the usual length of a subject.
func title(body string) string {
	line := strings.TrimSpace(body)
	if end := strings.IndexAny(line, "\r\n"); end >= 0 {
		line = strings.TrimSpace(line[:end])
	}
	if runes := []rune(line); len(runes) > longestTitle {
		line = strings.TrimSpace(string(runes[:longestTitle-1])) + "…"
	}
	return line
}
