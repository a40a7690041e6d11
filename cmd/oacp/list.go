package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/fatih/color"
	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn/track"
)

type listOptions struct {
	workspace                                         command.Workspace
	box, agent, since, from, to, messageType, subject string
	limit                                             int
	json                                              bool
}

// listedBoxes are the boxes that list can be asked for.
var listedBoxes = []mailbox.Box{mailbox.Inbox, mailbox.Outbox, mailbox.Archive, mailbox.DeadLetters}

func newListCommand(s *command.Streams) *cli.Command {
	var o listOptions
	return &cli.Command{
		Name:      "list",
		Category:  command.CategoryFiles,
		Usage:     "find messages",
		ArgsUsage: "[PROJECT]",
		Description: `list shows every message once, newest last, with its stage for each recipient, as
oacp status explains it. With --box, list shows the contents of that folder. oacp restore puts a message back.

EXAMPLES:
   oacp list --since 2h --to codex
   oacp list --box dead_letter
   oacp list --from claude --subject port --json`,
		Flags: append([]cli.Flag{
			&cli.StringFlag{Name: "since", Usage: "created at `TIME` or later: an age such as 5m or 2d, or YYYY-MM-DDTHH:MM:SSZ", Destination: &o.since},
			&cli.StringFlag{Name: "from", Usage: "sent by `AGENT`", Destination: &o.from},
			&cli.StringFlag{Name: "to", Usage: "sent to `AGENT`", Destination: &o.to},
			&cli.StringFlag{Name: "agent", Usage: "sent by or to `AGENT`, or in its box", Destination: &o.agent},
			&cli.StringFlag{Name: "type", Usage: "of `TYPE`", Destination: &o.messageType},
			&cli.StringFlag{Name: "subject", Usage: "with `TEXT` in the subject, ignoring case", Destination: &o.subject},
			&cli.StringFlag{Name: "box", Usage: "in `BOX`: inbox, outbox, archive or dead_letter", Destination: &o.box},
			&cli.IntFlag{Name: "limit", Usage: "only the newest `N`", Destination: &o.limit},
			command.JSONFlag(&o.json),
		}, o.workspace.Flags()...),
		Action: o.workspace.OfProject(func(c *cli.Context) error {
			return runList(c.Context, o, s)
		}),
	}
}

// query checks the flags.
func (o listOptions) query(s *command.Streams) (q track.Query, err error) {
	q = track.Query{
		Box: mailbox.Box(o.box), Agent: schema.AgentName(o.agent), From: schema.AgentName(o.from), To: schema.AgentName(o.to),
		Subject: o.subject, Limit: o.limit,
	}
	if o.messageType != "" {
		if q.Type, err = parseType(o.messageType); err != nil {
			return q, err
		}
	}
	switch {
	case o.box != "" && !slices.Contains(listedBoxes, q.Box):
		return q, failure.Usagef("--box: there is no box %s", visible.Quote(o.box)).WithHint("the boxes are inbox, outbox, archive and dead_letter")
	case o.limit < 0:
		return q, failure.Usagef("--limit: %d is negative", o.limit)
	case o.since == "":
		return q, nil
	}
	if q.Since, err = parseSince(o.since, s.Now()); err != nil {
		err = failure.Usagef("--since: %w", err)
	}
	return q, err
}

func runList(ctx context.Context, o listOptions, s *command.Streams) error {
	query, err := o.query(s)
	if err != nil {
		return err
	}
	return o.workspace.With(s, nil, func(w *mailbox.Workspace) error {
		messages, err := track.List(ctx, w, query)
		var unreadable *mailbox.UnreadableError
		if err != nil && !errors.As(err, &unreadable) {
			return err
		}
		if len(messages) == 0 && err == nil {
			// An agent that is gone may have messages; a name that never was has none.
			for _, name := range []schema.AgentName{query.Agent, query.From, query.To} {
				if name != "" {
					err = errors.Join(err, w.CheckAgent(name))
				}
			}
			if err != nil {
				return err
			}
		}
		return errors.Join(s.Answer(o.json, newListAnswer(w, messages), func() { printList(messages, s) }), err)
	})
}

func printList(messages []track.Listed, s *command.Streams) {
	if len(messages) == 0 {
		fmt.Fprintln(s.Out, "no message fits")
		return
	}
	const subject, others = 6, 95
	t := newTable(s, row{"ID", "Created", "From", "To", "Type", "Subject", "Stage"}, others, subject)
	for _, m := range messages {
		created := "?"
		if at := m.CreatedAt.Time(); !at.IsZero() {
			created = s.Time(at)
		}
		stage := stageTexts(m.Recipients, s)
		if held := stageWord(track.StageHeld, s); m.Copies[0].IsHeld() && !slices.Contains(stage, held) {
			stage = append(stage, held)
		} else if m.Err != nil && !m.Copies[0].IsHeld() {
			stage = append(stage, paint(s, colors{color.FgRed}, "not valid"))
		}
		known := func(text string) string { return cmp.Or(visible.Line(text), "?") }
		t.add(row{known(m.ID.Short()), created, known(string(m.From)), known(joinNames(m.To)), known(string(m.Type)),
			visible.Line(m.Subject), strings.Join(stage, ", ")})
	}
	t.print(s)
}

// stageTexts says what the recipients did: in one word, if all did the same.
func stageTexts(recipients []track.Recipient, s *command.Streams) (texts []string) {
	same := len(recipients) > 0
	for _, r := range recipients {
		same = same && r.Stage == recipients[0].Stage
		texts = append(texts, visible.Line(string(r.Agent))+" "+stageWord(r.Stage, s))
	}
	if same {
		return []string{stageWord(recipients[0].Stage, s)}
	}
	return texts
}

func stageWord(stage track.Stage, s *command.Streams) string {
	switch stage {
	case track.StageDead:
		return paint(s, colors{color.FgRed}, string(stage))
	case track.StageDone, track.StageAnswered, track.StageUnknown:
		return string(stage)
	}
	return paint(s, colors{color.FgYellow}, string(stage))
}

// listedJSON is a message that list found.
type listedJSON struct {
	ID             schema.ID             `json:"id"`
	From           schema.AgentName      `json:"from"`
	To             recipients            `json:"to"`
	Type           schema.Type           `json:"type"`
	Priority       schema.Priority       `json:"priority"`
	Subject        string                `json:"subject"`
	CreatedAt      schema.Timestamp      `json:"created_at_utc"`
	ExpiresAt      schema.Timestamp      `json:"expires_at,omitempty"`
	ConversationID schema.ConversationID `json:"conversation_id,omitempty"`
	ParentID       schema.ID             `json:"parent_message_id,omitempty"`
	Recipients     []track.Recipient     `json:"recipients"`
	Places         []place               `json:"places"`
	Error          string                `json:"error,omitempty"`
}

// listAnswer is the JSON of list.
type listAnswer struct {
	Project   string       `json:"project"`
	Workspace string       `json:"workspace"`
	Messages  []listedJSON `json:"messages"`
}

func newListAnswer(w *mailbox.Workspace, messages []track.Listed) listAnswer {
	listed := make([]listedJSON, len(messages))
	for i, m := range messages {
		listed[i] = listedJSON{
			ID: m.ID, From: m.From, To: recipients(m.To), Type: m.Type, Priority: m.Priority, Subject: m.Subject,
			CreatedAt: m.CreatedAt, ExpiresAt: m.ExpiresAt, ConversationID: m.ConversationID, ParentID: m.ParentID,
			Recipients: m.Recipients,
		}
		for _, e := range m.Copies {
			listed[i].Places = append(listed[i].Places, place{Agent: e.Agent, Box: e.Box, Path: e.Path})
		}
		if m.Err != nil {
			listed[i].Error = failure.OneLine(m.Err.Error())
		}
	}
	return listAnswer{project.Name(w), w.Dir(), listed}
}
