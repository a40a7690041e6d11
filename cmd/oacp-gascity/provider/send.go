package provider

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/conversation"
	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/validate"
)

func (p *provider) send(to string) (any, error) {
	return p.deliver(schema.Message{To: []schema.AgentName{agentOf(to)}})
}

// reply answers a message. To an oacp agent that asked something, the reply is the answer: Gas City cannot say that
// it is not.
func (p *provider) reply(id string) (any, error) {
	mails, err := p.find(id)
	if err != nil {
		return nil, err
	}
	original := mails[0].message
	m := conversation.Reply(original, "")
	if original.Type.IsRequest() {
		m.MakeFinal()
	}
	return p.deliver(m)
}

// deliver completes a message with what is on standard input, and sends it. Mail has no types: the message is a
// notification or, if its subject is a question, a question, which an agent answers.
func (p *provider) deliver(m schema.Message) (answer any, err error) {
	var in struct{ From, Subject, Body string }
	if err := json.NewDecoder(io.LimitReader(p.In, 4*schema.MaxFileSize)).Decode(&in); err != nil {
		return nil, fmt.Errorf("reading standard input: %w", err)
	}
	in.From = cmp.Or(in.From, "human") // as Gas City calls a person
	if m.From, err = command.ActingAgent(p.w, agentOf(in.From), p.Streams); err == nil && m.ParentID != "" {
		err = project.CheckProgram(p.w, m.From)
	}
	if err != nil {
		return nil, err
	}
	if strings.TrimSpace(in.Body) == "" {
		in.Body = in.Subject
	}
	m.Type, m.Body = schema.Notification, schema.TextValue(in.Body)
	m.Subject = cmp.Or(strings.TrimSpace(in.Subject), m.Subject, title(in.Body))
	if m.ParentID == "" && strings.HasSuffix(m.Subject, "?") {
		m.Type = schema.Question
	}
	if err := command.PrepareDraft(p.ctx, p.w, &m, validate.Source{}); err != nil {
		return nil, err
	}
	receipt, err := p.w.Send(p.ctx, m, &mailbox.SendOptions{Create: true})
	if err != nil {
		return nil, err
	}
	return newMail(receipt.Message, m.To[0]), nil
}

// title returns the first line of a body, cut to the usual length of a subject.
func title(body string) string {
	const longest = 80
	line, _, _ := strings.Cut(strings.ReplaceAll(strings.TrimSpace(body), "\r", "\n"), "\n")
	return strings.TrimSpace(visible.Short(line, longest))
}
