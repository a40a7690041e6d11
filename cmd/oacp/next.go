package main

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/conversation"
	"github.com/oacp-go/oacp/mailbox/doctor"
	"github.com/oacp-go/oacp/mailbox/watch"
	"github.com/oacp-go/oacp/schema"
)

func newNextCommand(s *command.Streams) *cli.Command {
	return &cli.Command{
		Name:      "next",
		Category:  command.CategoryMessages,
		Usage:     "show the next message, or wait for one",
		ArgsUsage: "[PROJECT] [--agent AGENT]",
		Description: `next shows the first pending message, in the order of oacp inbox, or waits for one
if there is none. It never misses a message, and it removes none: until you
acknowledge the message, next shows it again.

The exit status is 3 if no message arrives in time.

EXAMPLES:
   oacp next --agent codex
   oacp next --type question --from claude --timeout 30s
   oacp next --thread`,
		Flags: flagsWith(append([]cli.Flag{
			&cli.StringFlag{Name: "agent", Usage: "read the inbox of `AGENT` (default: $OACP_AGENT)"},
			timeoutFlag(),
			new(command.Sync).Flag(command.Rare),
			&cli.BoolFlag{Name: "thread", Usage: "also show what is new in the conversation since the agent's last message"},
			&cli.BoolFlag{Name: "all", Usage: "show all pending messages"},
		}, selectionFlags("only")...)...),
		Action: ofProject(s, func(c *call) error {
			defer c.catchSignals()()
			return c.open(runNext)
		}),
	}
}

func runNext(c *call, w *mailbox.Workspace) error {
	if c.isOn("all") && c.isOn("thread") {
		return failure.Usagef("--all and --thread are mutually exclusive")
	}
	limit, err := timeLimit(c.flags)
	if err != nil {
		return err
	}
	selected, err := newSelection(c, w)
	if err != nil {
		return err
	}
	agent, err := c.actsFor(command.ActingAgent(w, c.text("agent"), c.Streams))
	if err != nil {
		return err
	}
	options := watch.PendingOptions{Match: selected.matches, Timeout: limit, Most: 1}
	if c.isOn("all") {
		options.Most = 0
	}
	synchronizer, err := c.synchronizer(w)
	if err != nil {
		return err
	}
	began := time.Now()
	defer synchronizer.Begin(c.ctx, cmp.Or(limit, defaultWait))()
	found, err := awaitPending(c, watch.Target{Workspace: w, Agent: agent}, selected.String(), options, began)
	if err != nil {
		return timeoutError(err, fmt.Sprintf("no %s came for %s within %s", selected, agent, shortDuration(limit)),
			"run oacp next again to wait longer: it misses nothing in between")
	}
	shown := found
	if c.isOn("thread") {
		thread, err := conversation.Thread(c.ctx, w, string(found[0].Message.ID))
		if _, err = warnUnreadable(err, c.Streams); err != nil {
			return err
		}
		shown = conversation.NewFor(thread, agent, found[0])
	}
	if err := printAll(withReplies(c.ctx, w, agent, shown), c.json(), !c.isOn("all") && !c.isOn("thread"), c.Streams); err != nil {
		return err
	}
	if err := c.Out.Flush(); err != nil || c.json() {
		return err
	}
	whenDone := "oacp reply ID --ack --body TEXT, or oacp ack ID"
	if len(found) == 1 {
		whenDone = afterWork(found[0].Message, c.text("agent"))
	}
	_, err = fmt.Fprintln(c.Err, "when done:", whenDone)
	return err
}

// awaitPending calls watch.AwaitPending with a timeout that counts from the start of the command. On
// standard error it warns of files that are not messages and, without --json, says what it waits for.
func awaitPending(c *call, target watch.Target, what string, options watch.PendingOptions, began time.Time) ([]mailbox.Entry, error) {
	hinted := false
	options.Problem = func(e mailbox.Entry) {
		place := schema.BoxPath(e.Agent, e.Box)
		if e.Name != "" {
			place += "/" + e.Name
		}
		c.Warn(place + ": " + strings.TrimPrefix(failure.OneLine(e.Err.Error()), "reading "+e.Path+": "))
		if e.Name != "" && !hinted { // one hint is enough for all of them
			hinted = true
			_, _ = fmt.Fprintf(c.Err, "hint: %s\n", visible.Line(doctor.BadFileHint(e)))
		}
	}
	limit := ""
	if options.Timeout > 0 {
		limit = " for at most " + shortDuration(options.Timeout)
		options.Timeout = max(options.Timeout-time.Since(began), 1)
	}
	if !c.json() {
		options.Idle = func() { c.Note("no " + what + " is pending for " + string(target.Agent) + "; waiting" + limit) }
	}
	return watch.AwaitPending(c.ctx, []watch.Target{target}, options)
}

// afterWork returns the command that ends the work on a message. The agent is the value of --agent.
func afterWork(m *schema.Message, agent string) string {
	reply, ack := "oacp reply "+m.ID.Short(), "oacp ack "+m.ID.Short()
	if agent != "" && len(m.To) > 1 { // the commands must name one of several recipients
		reply, ack = reply+" --from "+agent, ack+" --agent "+agent
	}
	switch {
	case m.Choices() != nil:
		return reply + " --ack --choose CHOICE, or --body TEXT"
	case !m.Type.IsRequest():
		return ack
	case m.Type.Answer() == schema.ReviewFeedback:
		return reply + " --ack --type review_lgtm --body TEXT; --type review_feedback asks for changes"
	case m.Type == schema.Handoff:
		return reply + " --ack --body-file FILE; oacp send --template handoff_complete --in-reply-to " + m.ID.Short() + " prints one to fill in"
	}
	return reply + " --ack --body TEXT"
}
