package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
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

type nextOptions struct {
	workspace         command.Workspace
	agent             string
	selection         selection
	all, thread, json bool
	limit             time.Duration
	sync              command.Sync
}

func newNextCommand(s *command.Streams) *cli.Command {
	var o nextOptions
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
		Flags: slices.Concat([]cli.Flag{
			&cli.StringFlag{Name: "agent", Usage: "read the inbox of `AGENT` (default: $OACP_AGENT)", Destination: &o.agent},
			timeoutFlag(),
			o.sync.Flag(command.Rare),
			&cli.BoolFlag{Name: "thread", Usage: "also show what is new in the conversation since the agent's last message", Destination: &o.thread},
			&cli.BoolFlag{Name: "all", Usage: "show all pending messages", Destination: &o.all},
		}, o.selection.flags("only"), []cli.Flag{command.JSONFlag(&o.json)}, o.workspace.Flags()),
		Action: o.workspace.OfProject(func(c *cli.Context) (err error) {
			if o.all && o.thread {
				return failure.Usagef("--all and --thread are mutually exclusive")
			}
			if o.limit, err = timeLimit(c); err != nil {
				return err
			}
			if err := errors.Join(o.selection.parse(), o.sync.Check()); err != nil {
				return err
			}
			return runNext(c.Context, o, s)
		}),
	}
}

func runNext(ctx context.Context, o nextOptions, s *command.Streams) error {
	ctx, stop := command.UntilSignal(ctx)
	defer stop()
	return o.workspace.With(s, nil, func(w *mailbox.Workspace) error {
		agent, err := command.ActingAgent(w, o.agent, s)
		if err != nil {
			return err
		}
		o.selection.warn(w, s)
		options := watch.PendingOptions{Match: o.selection.matches, Timeout: o.limit, Most: 1}
		if o.all {
			options.Most = 0
		}
		synchronizer, err := o.sync.Open(ctx, s, w)
		if err != nil {
			return err
		}
		began := time.Now()
		defer synchronizer.Begin(ctx, o.limit).Stop()
		found, err := awaitPending(ctx, w, []schema.AgentName{agent}, o.selection.String(), options, began, o.json, s)
		if err != nil {
			return waitedInVain(err, fmt.Sprintf("no %s came for %s within %s", &o.selection, agent, shortDuration(o.limit)),
				"run oacp next again to wait longer: it misses nothing in between")
		}
		if o.thread {
			return o.printThread(ctx, w, agent, found[0], s)
		}
		return o.print(ctx, w, agent, found, found, s)
	})
}

// awaitPending is watch.AwaitPending, whose timeout counts from the time when the command began. It says on
// standard error what it waits for, unless it prints JSON, and which files are not messages.
func awaitPending(ctx context.Context, w *mailbox.Workspace, agents []schema.AgentName, what string, options watch.PendingOptions,
	began time.Time, asJSON bool, s *command.Streams) ([]mailbox.Entry, error) {
	targets := make([]watch.Target, len(agents))
	for i, agent := range agents {
		targets[i] = watch.Target{Workspace: w, Agent: agent}
	}
	hinted := false
	options.Problem = func(e mailbox.Entry) {
		place := schema.BoxPath(e.Agent, e.Box)
		if e.Name != "" {
			place += "/" + e.Name
		}
		s.Warn(place + ": " + strings.TrimPrefix(failure.OneLine(e.Err.Error()), "reading "+e.Path+": "))
		if e.Name != "" && !hinted { // the hint for one shows what to do with all
			hinted = true
			_, _ = fmt.Fprintf(s.Err, "hint: %s\n", visible.Line(doctor.BadFileHint(e)))
		}
	}
	limit := ""
	if options.Timeout > 0 {
		limit = " for at most " + shortDuration(options.Timeout)
		options.Timeout = max(options.Timeout-time.Since(began), 1)
	}
	if !asJSON {
		options.Idle = func() { s.Note("no " + what + " is pending for " + joinNames(agents) + "; waiting" + limit) }
	}
	return watch.AwaitPending(ctx, targets, options)
}

// printThread prints what is new in the conversation of a pending message.
func (o nextOptions) printThread(ctx context.Context, w *mailbox.Workspace, agent schema.AgentName, pending mailbox.Entry, s *command.Streams) error {
	thread, err := conversation.Thread(ctx, w, string(pending.Message.ID))
	if _, err = warnUnreadable(err, s); err != nil {
		return err
	}
	return o.print(ctx, w, agent, conversation.NewFor(thread, agent, pending), []mailbox.Entry{pending}, s)
}

// print prints messages, then the command that ends the work on the pending ones.
func (o nextOptions) print(ctx context.Context, w *mailbox.Workspace, agent schema.AgentName, entries, pending []mailbox.Entry, s *command.Streams) error {
	if err := printAll(withReplies(ctx, w, agent, entries), o.json, !o.all && !o.thread, s); err != nil {
		return err
	}
	if err := s.Out.Flush(); err != nil || o.json {
		return err
	}
	whenDone := "oacp reply ID --ack --body TEXT, or oacp ack ID"
	if len(pending) == 1 {
		whenDone = o.afterWork(pending[0].Message)
	}
	_, err := fmt.Fprintln(s.Err, "when done:", whenDone)
	return err
}

// afterWork returns the command that ends the work on a message.
func (o nextOptions) afterWork(m *schema.Message) string {
	reply, ack := "oacp reply "+m.ID.Short(), "oacp ack "+m.ID.Short()
	if o.agent != "" && len(m.To) > 1 { // of several recipients, the commands need the one
		reply, ack = reply+" --from "+o.agent, ack+" --agent "+o.agent
	}
	switch {
	case !m.Type.IsRequest():
		return ack
	case m.Type.Answer() == schema.ReviewFeedback:
		return reply + " --ack --type review_lgtm --body TEXT; --type review_feedback asks for changes"
	case m.Type == schema.Handoff:
		return reply + " --ack --body-file FILE; oacp send --template handoff_complete prints one to fill in"
	}
	return reply + " --ack --body TEXT"
}
