package client

import (
	"cmp"
	"context"
	"strings"

	"github.com/oacp-go/oacp/contract"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/secrets"
	"github.com/oacp-go/oacp/internal/sibling"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/mailbox/trust"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn/track"
	"github.com/oacp-go/oacp/validate"
)

// check counts the turn from within which the message is sent, checks its text, and decides whether it is signed: a person
// who has a key signs.
func (p *Prepared) check(ctx context.Context, source validate.Source) error {
	c := p.client
	if err := track.InheritHops(c.w, &p.Message); err != nil {
		return err
	}
	p.options.Sign = p.options.Sign || project.IsPerson(c.w, c.agent) && trust.CanSign(c.w, c.agent)
	return CheckText(ctx, c.w, &p.Message, source)
}

// CheckText returns an error if the subject of a message has several lines, if the message has what looks like a key and
// does not allow that, or if the body does not match the schemas of the workspace. Source is where the body was read from.
func CheckText(ctx context.Context, w *mailbox.Workspace, m *schema.Message, source validate.Source) error {
	if strings.ContainsAny(strings.TrimSpace(m.Subject), "\r\n") {
		return failure.New("invalid_message", "subject: contains a line break", "a subject is one line; the body can have more")
	}
	err := cmp.Or(secrets.Check("subject", m.Subject), secrets.Check("context_keys", m.ContextKeys),
		secrets.Check("choices", strings.Join(m.Marks.Choices, "\n")), secrets.Check("body", m.BodyText()))
	if err != nil && !m.Marks.AllowSecret {
		return err
	}
	return contract.CheckDraft(ctx, w.Root(), w.Dir(), func() string { return sibling.Find("contract") }, m, source)
}
