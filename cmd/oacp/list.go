package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/find"
	"github.com/oacp-go/oacp/schema"
)

// listedBoxes are the boxes that list can be asked for.
var listedBoxes = []mailbox.Box{mailbox.Inbox, mailbox.Outbox, mailbox.Archive, mailbox.DeadLetters}

func newListCommand(s *command.Streams) *cli.Command {
	return &cli.Command{
		Name:      "list",
		Category:  command.CategoryFiles,
		Usage:     "find messages",
		ArgsUsage: "[PROJECT]",
		Description: `list shows every message once, newest last, with its state for each recipient:

   pending       in the inbox
   acknowledged  handled, and in the archive of the inbox
   dead          given up; oacp read says why
   stored        sent, but not in the inbox yet

With --box, list shows the contents of that folder. oacp restore puts a message back.

EXAMPLES:
   oacp list --since 2h --to codex
   oacp list --box dead_letter
   oacp list --from claude --subject port --json`,
		Flags: flagsWith(
			&cli.StringFlag{Name: "since", Usage: "created at `TIME` or later: an age such as 5m or 2d, or YYYY-MM-DDTHH:MM:SSZ"},
			&cli.StringFlag{Name: "from", Usage: "sent by `AGENT`"},
			&cli.StringFlag{Name: "to", Usage: "sent to `AGENT`"},
			&cli.StringFlag{Name: "agent", Usage: "sent by or to `AGENT`, or in its box"},
			&cli.StringFlag{Name: "type", Usage: "of `TYPE`"},
			&cli.StringFlag{Name: "subject", Usage: "with `TEXT` in the subject, ignoring case"},
			&cli.StringFlag{Name: "box", Usage: "in `BOX`: inbox, outbox, archive or dead_letter"},
			&cli.IntFlag{Name: "limit", Usage: "only the newest `N`"}),
		Action: inProject(s, runList),
	}
}

// listQuery checks the flags.
func listQuery(c *call) (q find.Query, err error) {
	q = find.Query{
		Box: mailbox.Box(c.text("box")), Agent: c.agent(), From: schema.AgentName(c.text("from")), To: schema.AgentName(c.text("to")),
		Subject: c.text("subject"), Limit: c.flags.Int("limit"),
	}
	if c.text("type") != "" {
		if q.Type, err = parseType(c.text("type")); err != nil {
			return q, err
		}
	}
	switch {
	case q.Box != "" && !slices.Contains(listedBoxes, q.Box):
		return q, failure.Usagef("--box: there is no box %s", visible.Quote(string(q.Box))).WithHint("the boxes are inbox, outbox, archive and dead_letter")
	case q.Limit < 0:
		return q, failure.Usagef("--limit: %d is negative", q.Limit)
	case c.text("since") == "":
		return q, nil
	}
	q.Since, err = parseSince(c.text("since"), c.Now())
	return q, err
}

func runList(c *call, w *mailbox.Workspace) error {
	query, err := listQuery(c)
	if err != nil {
		return err
	}
	messages, err := find.Messages(c.ctx, w, query)
	if _, incomplete := errors.AsType[*mailbox.UnreadableError](err); err != nil && !incomplete {
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
	return errors.Join(c.answer(newListAnswer(w, messages), func() { printList(messages, c.Streams) }), err)
}

func printList(messages []find.Message, s *command.Streams) {
	if len(messages) == 0 {
		fmt.Fprintln(s.Out, "no message fits")
		return
	}
	const subject, others = 6, 95
	t := newTable(s, row{"ID", "Created", "From", "To", "Type", "Subject", "State"}, others, subject)
	for _, m := range messages {
		created := "?"
		if at := m.CreatedAt.Time(); !at.IsZero() {
			created = s.Time(at)
		}
		state := stateTexts(m.Recipients, s)
		switch held := m.Copies[0]; {
		case held.IsHeld() && m.Err != nil:
			state = append(state, paint(s, yellow, "held"))
		case m.Err != nil:
			state = append(state, paint(s, red, "not valid"))
		}
		known := func(text string) string { return cmp.Or(visible.Line(text), "?") }
		t.add(known(m.ID.Short()), created, known(string(m.From)), known(joinNames(m.To)), known(string(m.Type)),
			visible.Line(m.Subject), strings.Join(state, ", "))
	}
	t.print()
}

// stateTexts says what the recipients did: in one word, if all did the same.
func stateTexts(recipients []find.Recipient, s *command.Streams) (texts []string) {
	same := len(recipients) > 0
	for _, r := range recipients {
		same = same && r.State == recipients[0].State
		texts = append(texts, visible.Line(string(r.Agent))+" "+stateWord(r.State, s))
	}
	if same {
		return []string{stateWord(recipients[0].State, s)}
	}
	return texts
}

func stateWord(state find.State, s *command.Streams) string {
	switch state {
	case find.Dead:
		return paint(s, red, string(state))
	case find.Pending, find.Stored:
		return paint(s, yellow, string(state))
	}
	return string(state)
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
	Recipients     []find.Recipient      `json:"recipients"`
	Places         []place               `json:"places"`
	Error          string                `json:"error,omitempty"`
}

// listAnswer is the JSON of list.
type listAnswer struct {
	envelope
	Messages []listedJSON `json:"messages"`
}

func newListAnswer(w *mailbox.Workspace, messages []find.Message) listAnswer {
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
	return listAnswer{envelopeOf(w), listed}
}
