package main

import (
	"fmt"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/spelling"
	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn/track"
)

func newOwedCommand(s *command.Streams) *cli.Command {
	return &cli.Command{
		Name:      "owed",
		Category:  command.CategoryMessages,
		Usage:     "list unanswered requests",
		ArgsUsage: "[PROJECT] [--agent AGENT]",
		Description: `owed lists the requests that wait for this agent's answer, then its own requests that
wait for others, oldest first. A request that was acknowledged without an answer is
still owed; an expired one is not. A task_request waits for a final reply: oacp reply
--ack or --final makes a notification final.

EXAMPLES:
   oacp owed --agent codex
   oacp owed --json`,
		Flags:  flagsWith(&cli.StringFlag{Name: "agent", Usage: "list what `AGENT` owes and is owed (default: $OACP_AGENT)"}),
		Action: inProject(s, runOwed),
	}
}

func runOwed(c *call, w *mailbox.Workspace) error {
	defer lessGarbageCollection()()
	agent, err := command.AgentOf(w, c.text("agent"), c.Streams)
	if err != nil {
		return err
	}
	owed, err := track.OwedBy(c.ctx, w, agent)
	unreadable, err := warnUnreadable(err, c.Streams)
	if err != nil {
		return err
	}
	return c.answer(struct {
		envelope
		track.Owed
		LoadError string `json:"load_error,omitempty"`
	}{envelopeOf(w), owed, unreadable}, func() { printOwed(owed, c.Streams) })
}

func printOwed(owed track.Owed, s *command.Streams) {
	if len(owed.Mine)+len(owed.Theirs) == 0 {
		fmt.Fprintf(s.Out, "%s: nothing owed\n", owed.Agent)
		return
	}
	if len(owed.Mine) > 0 {
		fmt.Fprintf(s.Out, "%s owes %s:\n", owed.Agent, spelling.Count(len(owed.Mine), "answer"))
		printOpen(owed.Mine, "From", func(r track.OpenRequest) schema.AgentName { return r.From }, s)
	}
	if len(owed.Theirs) > 0 {
		if len(owed.Mine) > 0 {
			fmt.Fprintln(s.Out)
		}
		fmt.Fprintf(s.Out, "%s waits for %s:\n", owed.Agent, spelling.Count(len(owed.Theirs), "answer"))
		printOpen(owed.Theirs, "To", func(r track.OpenRequest) schema.AgentName { return r.To }, s)
	}
}

// printOpen prints a line for each request, with the other agent.
func printOpen(requests []track.OpenRequest, title string, other func(track.OpenRequest) schema.AgentName, s *command.Streams) {
	var entries []mailbox.Entry // of each request one, although several recipients may owe an answer
	for _, r := range requests {
		if len(entries) == 0 || entries[len(entries)-1].Message.ID != r.ID {
			entries = append(entries, mailbox.Entry{Message: &schema.Message{ID: r.ID}})
		}
	}
	short := make(map[schema.ID]string, len(entries))
	for i, id := range shortIDs(entries) {
		short[entries[i].Message.ID] = id
	}
	const subject = 6
	t := newTable(s, row{"ID", title, "Type", "Age", "Stage", "Subject"}, subject)
	now := s.Now()
	for _, r := range requests {
		t.add(short[r.ID], other(r), r.Type, spelling.Age(r.CreatedAt.Time(), now), openText(r, now), visible.Line(r.Subject))
	}
	t.print()
}

// openText says where a request is.
func openText(r track.OpenRequest, now time.Time) string {
	text := string(r.Stage)
	if n := len(r.Replies); n > 0 {
		text += fmt.Sprintf(", %s sent", r.Replies[n-1].Type)
	}
	if r.ExpiresAt != "" {
		text += ", expires in " + spelling.Age(now, r.ExpiresAt.Time())
	}
	return text
}
