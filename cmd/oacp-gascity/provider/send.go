package provider

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/oacp-go/oacp/client"
	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

func (p *provider) send(to string) (any, error) {
	in, c, err := p.mailIn()
	if err != nil {
		return nil, err
	}
	m := schema.Message{To: []schema.AgentName{agentOf(to)}, Type: schema.Notification, Body: schema.TextValue(in.Body)}
	m.Subject = cmp.Or(in.Subject, title(in.Body))
	if strings.HasSuffix(m.Subject, "?") {
		m.Type = schema.Question
	}
	return sent(c.Send(p.ctx, client.Draft{Message: m, SendOptions: mailbox.SendOptions{Create: true}}))
}

// reply answers a message. To an oacp agent that asked something, the reply is the answer: Gas City cannot say that
// it is not.
func (p *provider) reply(id string) (any, error) {
	in, c, err := p.mailIn()
	if err != nil {
		return nil, err
	}
	mails, err := p.find(id)
	if err != nil {
		return nil, err
	}
	request, err := c.Request(p.ctx, string(mails[0].message.ID))
	if err != nil {
		return nil, err
	}
	answer := request.Draft()
	answer.Type, answer.Body, answer.Create = schema.Notification, schema.TextValue(in.Body), true
	answer.Subject = cmp.Or(in.Subject, answer.Subject)
	answer.Final = request.Message.Type.IsRequest()
	return sent(request.Answer(p.ctx, answer))
}

// sent returns the mail of a receipt.
func sent(r *client.Receipt, err error) (any, error) {
	if r == nil {
		return nil, err
	}
	return newMail(r.Message(), r.Message().To[0]), err
}

// A mailIn is what is on standard input: mail has no types. A message is a notification or, if its subject is a question, a
// question, which an agent answers.
type mailIn struct{ From, Subject, Body string }

// mailIn reads a mail, and returns the client of its sender.
func (p *provider) mailIn() (in mailIn, c *client.Client, err error) {
	if err := json.NewDecoder(io.LimitReader(p.In, 4*schema.MaxFileSize)).Decode(&in); err != nil {
		return in, nil, fmt.Errorf("reading standard input: %w", err)
	}
	in.From = cmp.Or(in.From, "human") // as Gas City calls a person
	if strings.TrimSpace(in.Body) == "" {
		in.Body = in.Subject
	}
	in.Subject = strings.TrimSpace(in.Subject)
	c, err = client.As(p.w, agentOf(in.From), p.Caller())
	return in, c, err
}

// title returns the first line of a body, cut to the usual length of a subject.
func title(body string) string {
	const longest = 80
	line, _, _ := strings.Cut(strings.ReplaceAll(strings.TrimSpace(body), "\r", "\n"), "\n")
	return strings.TrimSpace(visible.Short(line, longest))
}
