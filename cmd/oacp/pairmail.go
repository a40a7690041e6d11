package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/convert/mirror"
	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/pair"
	"github.com/oacp-go/oacp/schema"
)

// pairMail carries messages between a run and the mailboxes of a workspace.
type pairMail struct {
	workspace *mailbox.Workspace
	s         *command.Streams
	// session is there when the first message is to be carried.
	session func() *pair.Session
	mirror  *mirror.Mirror
	// takesPart are the agents of the run and who gave it its task.
	takesPart []schema.AgentName
	// over is when the run ended that is taken up again.
	over *time.Time
}

// exchange carries what is new between the mailboxes and the log, both ways.
func (p *pairMail) exchange(ctx context.Context) error {
	if p.mirror == nil {
		session := p.session()
		manifest := session.Manifest()
		p.takesPart = []schema.AgentName{pair.User}
		for _, name := range manifest.Agents() {
			p.takesPart = append(p.takesPart, schema.AgentName(name))
		}
		p.over = manifest.CompletedAt
		p.mirror = &mirror.Mirror{Workspace: p.workspace, Log: session.Log(), Only: p.concerns}
	}
	report, err := p.mirror.Run(ctx)
	for _, letter := range report.DeadLetters {
		p.s.Warn(fmt.Sprintf("a record could not be delivered and became the dead letter %s: %s", letter.Path, letter.Reason))
	}
	for _, text := range report.Warnings {
		p.s.Warn(text)
	}
	return err
}

// concerns reports whether a message is from or to somebody who takes part in
// the run, and was not sent after its end. What is older than the run the
// mirror itself leaves out.
func (p *pairMail) concerns(m *schema.Message) bool {
	if p.over != nil && m.CreatedAt.Time().After(*p.over) {
		return false
	}
	takesPart := func(name schema.AgentName) bool { return slices.Contains(p.takesPart, name) }
	return takesPart(m.From) || slices.ContainsFunc(m.To, takesPart)
}

// acknowledge takes what an agent has dealt with out of its inbox.
func (p *pairMail) acknowledge(ctx context.Context, name pair.Agent, given []bridge.Record) error {
	_, err := mirror.Acknowledge(ctx, p.workspace, schema.AgentName(name), given)
	return err
}
