package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/doctor"
	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/schema"
)

type inboxOptions struct {
	workspace command.Workspace
	agent     string
	all       bool
	json      bool
}

func newInboxCommand(s *command.Streams) *cli.Command {
	var o inboxOptions
	return &cli.Command{
		Name:      "inbox",
		Category:  command.CategoryMessages,
		Usage:     "list what is pending, in processing order",
		ArgsUsage: "[PROJECT] [--agent AGENT | --all]",
		Description: `By priority; within a priority requests first, notifications and follow-ups last;
then the oldest first. A file that is not a message is listed with its error; read
--raw and ack take its name. Listing changes nothing.

The other commands accept the text in the ID column as an id.

EXAMPLES:
   oacp inbox --agent codex
   oacp inbox my-project --all --json`,
		Flags: append([]cli.Flag{
			&cli.StringFlag{Name: "agent", Usage: "list the inbox of `AGENT` (default: see oacp help)", Destination: &o.agent},
			&cli.BoolFlag{Name: "all", Usage: "list every agent's inbox", Destination: &o.all},
			command.JSONFlag(&o.json),
		}, o.workspace.Flags()...),
		Action: func(c *cli.Context) error {
			if o.all && o.agent != "" {
				return failure.Usagef("--agent and --all exclude each other")
			}
			if err := o.workspace.TakeProject(command.Positionals(c)); err != nil {
				return err
			}
			return runInbox(c.Context, o, s)
		},
	}
}

func runInbox(ctx context.Context, o inboxOptions, s *command.Streams) error {
	return o.workspace.With(s, nil, func(w *mailbox.Workspace) error {
		agents, err := o.agents(w, s)
		if err != nil {
			return err
		}
		inboxes := make([]listing, len(agents))
		for i, agent := range agents {
			entries, err := w.Inbox(ctx, agent)
			// With --all, an inbox that cannot be listed does not hide the others.
			if err != nil && (!o.all || context.Cause(ctx) != nil) {
				return err
			}
			inboxes[i] = listing{agent, entries, err}
		}
		if o.json {
			return o.printJSON(w, inboxes, s)
		}
		for i, inbox := range inboxes {
			if i > 0 {
				fmt.Fprintln(s.Out)
			}
			printInbox(inbox, s)
		}
		return nil
	})
}

// A listing is the content of an agent's inbox, or why it cannot be listed.
type listing struct {
	agent   schema.AgentName
	entries []mailbox.Entry
	err     error
}

func (o inboxOptions) agents(w *mailbox.Workspace, s *command.Streams) ([]schema.AgentName, error) {
	if o.all {
		return w.Agents()
	}
	agent, err := command.AgentOf(w, o.agent, s)
	if errors.Is(err, project.ErrNoSender) {
		return nil, failure.Usagef("%w", err).WithHint("use --agent AGENT or --all, or set OACP_AGENT")
	}
	return []schema.AgentName{agent}, err
}

func printInbox(inbox listing, s *command.Streams) {
	entries := inbox.entries
	switch {
	case inbox.err != nil:
		fmt.Fprintf(s.Out, "%s: %s\n", inbox.agent, paint(s, text.Colors{text.FgRed}, "bad: "+visible.Line(failure.OneLine(inbox.err.Error()))))
		return
	case len(entries) == 0:
		fmt.Fprintf(s.Out, "%s: nothing pending\n", inbox.agent)
		return
	}
	fmt.Fprintf(s.Out, "%s: %d pending\n", inbox.agent, len(entries))
	const subject, remark, others = 6, 8, 60
	t := newTable(s, table.Row{"#", "ID", "From", "Type", "Priority", "Subject", "Age", ""}, others, subject, remark)
	ids := shortIDs(entries)
	now := s.Now()
	for i, e := range entries {
		m := e.Message
		if m == nil {
			t.AppendRow(table.Row{i + 1, "?", "?", "?", "?", visible.Line(e.Name), command.Age(e.Modified, now),
				paint(s, text.Colors{text.FgRed}, "bad: "+visible.Line(e.Err.Error()))})
			continue
		}
		mark := ""
		if m.ExpiredAt(now) {
			mark = paint(s, text.Colors{text.FgYellow}, "expired")
		}
		t.AppendRow(table.Row{i + 1, ids[i], visible.Line(string(m.From)), visible.Line(string(m.Type)), priorityText(s, m.Priority),
			visible.Line(m.Subject), command.Age(m.CreatedAt.Time(), now), mark})
	}
	printTable(s, t)
	// Bad files come last. The hint for one shows what to do with all.
	if last := entries[len(entries)-1]; last.Message == nil {
		fmt.Fprintf(s.Out, "hint: %s\n", visible.Line(doctor.BadFileHint(last)))
	}
}

// shortIDs returns the last part of each message's id, or all of it if another one has the same
// last part.
func shortIDs(entries []mailbox.Entry) []string {
	short := make([]string, len(entries))
	uses := make(map[string]int, len(entries))
	for i, e := range entries {
		if e.Message != nil {
			id := string(e.Message.ID)
			short[i] = id[strings.LastIndexByte(id, '-')+1:]
			uses[short[i]]++
		}
	}
	for i, e := range entries {
		if e.Message != nil && uses[short[i]] > 1 {
			short[i] = string(e.Message.ID)
		}
		short[i] = visible.Line(short[i])
	}
	return short
}
