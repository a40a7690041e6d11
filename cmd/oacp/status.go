package main

import (
	"context"
	"fmt"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/turn"
)

type statusOptions struct {
	workspace workspaceOptions
	id        string
	json      bool
}

func newStatusCommand(s *streams) *cli.Command {
	var o statusOptions
	return &cli.Command{
		Name:      "status",
		Category:  categoryTurns,
		Usage:     "show who works, what waits, and how far a message got",
		ArgsUsage: "[ID]",
		Description: `Without an ID: for each agent, whether a process works its inbox, what is pending,
its last turn, how many turns failed since the last success, and how deep its
conversations are. With an ID: how far the message got with each recipient:

   stored    sent, and not in the inbox yet
   waiting   in the inbox; held and expired ones get no turn
   in_turn   an agent is working on it
   done      its turn succeeded, or somebody took it out of the inbox
   answered  done, and there is an answer
   dead      given up

Nothing is told before it is true.

EXAMPLES:
   oacp status
   oacp status k3x9 --json`,
		Flags: append([]cli.Flag{jsonFlag(&o.json)}, o.workspace.flags()...),
		Action: func(c *cli.Context) error {
			args := positionals(c)
			if len(args) > 1 {
				return usageErrorf("unexpected argument %s", quote(args[1]))
			}
			if len(args) == 1 {
				o.id = args[0]
			}
			return runStatus(c.Context, o, s)
		},
	}
}

func runStatus(ctx context.Context, o statusOptions, s *streams) error {
	return o.workspace.with(s, nil, func(w *mailbox.Workspace) error {
		if o.id != "" {
			return printProgress(ctx, o, w, s)
		}
		statuses, err := turn.Status(ctx, w)
		if err != nil {
			return err
		}
		if o.json {
			return writeJSON(s.out, struct {
				Project   string             `json:"project"`
				Workspace string             `json:"workspace"`
				Agents    []turn.AgentStatus `json:"agents"`
			}{w.Project(), w.Dir(), statuses})
		}
		printStatuses(statuses, s)
		return nil
	})
}

func printStatuses(statuses []turn.AgentStatus, s *streams) {
	now := s.now()
	const last, others = 6, 70
	t := newTable(s, table.Row{"Agent", "Runner", "Pending", "Oldest", "Dead", "Last turn", "Failures"}, others, last)
	for _, a := range statuses {
		t.AppendRow(table.Row{a.Agent, runnerText(a, s), a.Pending, oldestText(a, now), a.DeadLetters, lastTurnText(a, now), a.Failures})
	}
	printTable(s, t)
	for _, a := range statuses {
		printDetails(a, now, s)
	}
}

// printDetails prints what most agents have nothing of.
func printDetails(a turn.AgentStatus, now time.Time, s *streams) {
	for _, idle := range []struct {
		count int
		what  string
	}{{a.Held, "held"}, {a.Expired, "expired"}, {a.Invalid, "invalid"}} {
		if idle.count > 0 {
			fmt.Fprintf(s.out, "%s: %d %s in the inbox\n", a.Agent, idle.count, idle.what)
		}
	}
	for _, current := range a.InTurn {
		fmt.Fprintf(s.out, "%s: in a turn for %s, on %s from %s: %s\n", a.Agent, age(current.Started, now),
			escapeLine(string(current.ID)), current.From, escapeLine(current.Subject))
	}
	for _, c := range a.Conversations {
		bound := ""
		if c.Bound {
			bound = paint(s, text.Colors{text.FgYellow}, "; it waits for oacp thread resume "+string(c.ID))
		}
		fmt.Fprintf(s.out, "%s: %s with %s, %s%s\n", a.Agent, escapeLine(string(c.ID)), c.With, plural(c.Turns, "turn"), bound)
	}
}

func plural(count int, what string) string {
	if count == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", count, what)
}

func oldestText(a turn.AgentStatus, now time.Time) string {
	if a.Oldest.IsZero() {
		return "-"
	}
	return age(a.Oldest, now)
}

func runnerText(a turn.AgentStatus, s *streams) string {
	switch {
	case !a.Running:
		return "-"
	case a.Runner == nil:
		return paint(s, text.Colors{text.FgGreen}, "runs")
	}
	return paint(s, text.Colors{text.FgGreen}, fmt.Sprintf("%d@%s", a.Runner.PID, escapeLine(a.Runner.Host)))
}

func lastTurnText(a turn.AgentStatus, now time.Time) string {
	switch {
	case a.Last == nil:
		return "-"
	case a.Last.Succeeded:
		return "done " + age(a.Last.Ended, now) + " ago: " + escapeLine(a.Last.Subject)
	}
	return "failed " + age(a.Last.Ended, now) + " ago: " + escapeLine(a.Last.Reason)
}

func printProgress(ctx context.Context, o statusOptions, w *mailbox.Workspace, s *streams) error {
	progress, err := turn.Track(ctx, w, o.id)
	if err != nil {
		return err
	}
	if o.json {
		return writeJSON(s.out, struct {
			ID         string          `json:"id"`
			Recipients []turn.Progress `json:"recipients"`
		}{string(progress[0].ID), progress})
	}
	fmt.Fprintln(s.out, escapeLine(string(progress[0].ID)))
	for _, p := range progress {
		line := fmt.Sprintf("  %s: %s", p.Agent, p.Stage)
		if p.Answer != "" {
			line += " with " + escapeLine(string(p.Answer))
		}
		if p.Attempts > 1 {
			line += ", after " + plural(p.Attempts, "turn")
		}
		if p.Reason != "" {
			line += ": " + escapeLine(p.Reason)
		}
		if !p.RetryAt.IsZero() {
			line += "; again at " + p.RetryAt.Local().Format(time.TimeOnly)
		}
		fmt.Fprintln(s.out, line)
	}
	return nil
}
