package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	"github.com/fatih/color"
	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/spelling"
	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/conversation"
	"github.com/oacp-go/oacp/mailbox/doctor"
	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/mailbox/trust"
	"github.com/oacp-go/oacp/mailbox/watch"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/signing"
)

type inboxOptions struct {
	workspace command.Workspace
	agent     string
	all, json bool
	wait      bool
	limit     time.Duration
}

func newInboxCommand(s *command.Streams) *cli.Command {
	var o inboxOptions
	return &cli.Command{
		Name:      "inbox",
		Category:  command.CategoryMessages,
		Usage:     "list pending messages",
		ArgsUsage: "[PROJECT] [--agent AGENT | --all]",
		Description: `inbox sorts by priority, then requests before other messages and notifications and
follow-ups last, then by age. Files that are not valid messages come last, with the
fields that could be decoded and the error; read and ack accept their names.

The other commands accept the short ids in the ID column.

EXAMPLES:
   oacp inbox --agent codex
   oacp inbox my-project --all --json`,
		Flags: append([]cli.Flag{
			&cli.StringFlag{Name: "agent", Usage: "list the inbox of `AGENT` (default: $OACP_AGENT)", Destination: &o.agent},
			&cli.BoolFlag{Name: "all", Usage: "list every agent's inbox", Destination: &o.all},
			&cli.BoolFlag{Name: "wait", Usage: "wait until a message is pending", Destination: &o.wait},
			timeoutFlag(),
			command.JSONFlag(&o.json),
			&cli.StringFlag{Name: "from", Hidden: true},
		}, o.workspace.Flags()...),
		Action: o.workspace.OfProject(func(c *cli.Context) error {
			if c.IsSet("from") {
				return failure.Usagef("there is no flag --from").WithHint(
					"--agent names the owner of the inbox; oacp list --from and oacp next --from choose by sender")
			}
			if o.all && o.agent != "" {
				return failure.Usagef("--agent and --all are mutually exclusive")
			}
			if c.IsSet("timeout") && !o.wait {
				return failure.Usagef("--timeout requires --wait")
			}
			var err error
			if o.limit, err = timeLimit(c); err != nil {
				return err
			}
			return runInbox(c.Context, o, s)
		}),
	}
}

// A listing is the content of an agent's inbox, or why it cannot be listed.
type listing struct {
	agent   schema.AgentName
	entries []mailbox.Entry
	err     error
	// signatures are what the signatures of the entries are worth.
	signatures []trust.Finding
	// replies are what the agent has sent in reply.
	replies map[schema.ID]conversation.Response
}

func runInbox(ctx context.Context, o inboxOptions, s *command.Streams) error {
	// A long listing allocates much and ends soon: collecting garbage less often is faster.
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	return o.workspace.With(s, nil, func(w *mailbox.Workspace) error {
		agents, err := o.agents(w, s)
		if err != nil {
			return err
		}
		if o.wait && len(agents) > 0 {
			if err := o.await(ctx, w, agents, s); err != nil {
				return err
			}
		}
		inboxes, err := o.list(ctx, w, agents)
		if err != nil {
			return err
		}
		if o.json {
			return o.printJSON(w, inboxes, s)
		}
		if o.all && len(inboxes) == 0 {
			printNoAgents(s)
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

// list lists the inboxes of the agents.
func (o inboxOptions) list(ctx context.Context, w *mailbox.Workspace, agents []schema.AgentName) ([]listing, error) {
	inboxes := make([]listing, len(agents))
	checker := trust.NewChecker(w)
	for i, agent := range agents {
		entries, err := w.Inbox(ctx, agent)
		// With --all, an inbox that cannot be listed does not hide the others.
		if err != nil && (!o.all || context.Cause(ctx) != nil) {
			return nil, err
		}
		inboxes[i] = listing{agent, entries, err, make([]trust.Finding, len(entries)), responses(ctx, w, agent, entries)}
		mode, _ := trust.ModeOf(w, agent) // an error makes it trust.Enforce
		for k, e := range entries {
			inboxes[i].signatures[k] = checker.Check(e)
			if mode == trust.Off {
				inboxes[i].signatures[k].Status = ""
			}
		}
	}
	return inboxes, nil
}

// await waits until an inbox holds a message to work on.
func (o inboxOptions) await(ctx context.Context, w *mailbox.Workspace, agents []schema.AgentName, s *command.Streams) error {
	ctx, stop := command.UntilSignal(ctx)
	defer stop()
	_, err := awaitPending(ctx, w, agents, "message", watch.PendingOptions{Timeout: o.limit, Most: 1}, time.Now(), o.json, s)
	return waitedInVain(err, "no message came for "+joinNames(agents)+" within "+shortDuration(o.limit), "run it again to wait longer: it misses nothing in between")
}

func (o inboxOptions) agents(w *mailbox.Workspace, s *command.Streams) ([]schema.AgentName, error) {
	if o.all {
		return w.Agents()
	}
	agent, err := command.AgentOf(w, o.agent, s)
	if errors.Is(err, project.ErrNoSender) {
		err = failure.WithHint(err, "use --agent AGENT or --all, or set OACP_AGENT")
	}
	return []schema.AgentName{agent}, err
}

func printNoAgents(s *command.Streams) {
	fmt.Fprintln(s.Out, "there are no agents yet; oacp add-agent NAME adds one")
}

func printInbox(inbox listing, s *command.Streams) {
	entries := inbox.entries
	bad := func(err error) string {
		return paint(s, colors{color.FgRed}, "bad: "+visible.Line(failure.OneLine(err.Error())))
	}
	switch {
	case inbox.err != nil:
		fmt.Fprintf(s.Out, "%s: %s\n", inbox.agent, bad(inbox.err))
		return
	case len(entries) == 0:
		fmt.Fprintf(s.Out, "%s: nothing pending\n", inbox.agent)
		return
	}
	fmt.Fprintf(s.Out, "%s: %d pending\n", inbox.agent, len(entries))
	const subject, remark = 5, 7
	t := newTable(s, row{"ID", "From", "Type", "Priority", "Subject", "Age", ""}, subject, remark)
	ids := shortIDs(entries)
	now := s.Now()
	for i, e := range entries {
		m := e.Message
		var marks []string
		if e.Err != nil {
			m, marks = command.Preview(&e), []string{bad(e.Err)}
			if e.IsHeld() {
				marks = []string{paint(s, colors{color.FgYellow}, "held: "+visible.Line(inbox.signatures[i].Reason))}
			}
			if e.Message == nil {
				m.Subject = e.Name
			}
		} else if m.ExpiresAt != "" {
			marks = append(marks, paint(s, colors{color.FgYellow}, expiry(m, now)))
		}
		if r := inbox.replies[m.ID]; r.Message != nil {
			marks = append(marks, replyMark(r.Answers))
		}
		if v := inbox.signatures[i].Verdict; v != "" && !e.IsHeld() {
			marks = append(marks, signatureText(s, v))
		}
		t.add(row{ids[i], visible.Line(string(m.From)), visible.Line(string(m.Type)), priorityText(s, m.Priority),
			visible.Line(m.Subject), spelling.Age(m.CreatedAt.Time(), now), strings.Join(marks, ", ")})
	}
	t.print(s)
	// Bad files come last. The hint for one shows what to do with all.
	if last := entries[len(entries)-1]; last.Err != nil {
		fmt.Fprintf(s.Out, "hint: %s\n", visible.Line(doctor.BadFileHint(last)))
	}
}

// signatureText returns a verdict on a signature as people see it.
func signatureText(s *command.Streams, v signing.Verdict) string {
	switch v {
	case signing.VerdictVerified:
		return paint(s, colors{color.FgGreen}, string(v))
	case signing.VerdictBad:
		return paint(s, colors{color.FgRed}, "bad signature")
	}
	return paint(s, colors{color.FgYellow}, string(v))
}

// shortIDs returns the short form of each message's id, or the whole id if another one has the same
// short form, or a question mark if there is none.
func shortIDs(entries []mailbox.Entry) []string {
	short := make([]string, len(entries))
	uses := make(map[string]int, len(entries))
	for i, e := range entries {
		if e.Message != nil {
			short[i] = e.Message.ID.Short()
			uses[short[i]]++
		}
	}
	for i, e := range entries {
		if e.Message != nil && uses[short[i]] > 1 {
			short[i] = string(e.Message.ID)
		}
		short[i] = cmp.Or(visible.Line(short[i]), "?")
	}
	return short
}
