package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/spelling"
	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/gitmail"
	"github.com/oacp-go/oacp/schema"
)

// errNotConfirmed ends a command that the user answered with no.
var errNotConfirmed = &failure.StatusError{Status: 1}

// confirm asks a question on a terminal. Programs that call the command have said what they want.
func confirm(s *command.Streams, yes bool, question string) error {
	if yes || !s.InTerminal || !s.ErrTerminal {
		return nil
	}
	fmt.Fprintf(s.Err, "%s [y/N] ", visible.Line(question))
	line, err := bufio.NewReader(s.In).ReadString('\n')
	if answer := strings.ToLower(strings.TrimSpace(line)); err != nil || answer != "y" && answer != "yes" {
		return errNotConfirmed
	}
	return nil
}

// yesFlag answers the question of confirm.
func yesFlag(yes *bool) cli.Flag {
	return &cli.BoolFlag{Name: "yes", Usage: "do not ask", Destination: yes}
}

type pruneOptions struct {
	workspace         command.Workspace
	olderThan         string
	dryRun, yes, json bool
}

func newPruneCommand(s *command.Streams) *cli.Command {
	var o pruneOptions
	return &cli.Command{
		Name:      "prune",
		Category:  command.CategoryWorkspace,
		Usage:     "remove old mail",
		ArgsUsage: "[PROJECT] [--older-than 30d]",
		Description: `prune removes messages that were handled or given up and are older than --older-than,
and the copies in outboxes that nobody has pending. Pending messages stay, whatever
their age. A file NAME.retain beside a message NAME keeps it, and so do permissions
that let only its owner read it: such a dead letter is evidence.

If the workspace is synced by git, the messages go from the branch, too. There a list
of their names stays, so that no machine brings them back. Other machines keep their
files until prune runs there. Nothing is pruned unless this command runs.

EXAMPLES:
   oacp prune --dry-run
   oacp prune --older-than 90d`,
		Flags: append([]cli.Flag{
			&cli.StringFlag{Name: "older-than", Usage: "prune what is older than `AGE`, such as 12h or 30d", Value: "30d", Destination: &o.olderThan},
			&cli.BoolFlag{Name: "dry-run", Usage: "count, and remove nothing", Destination: &o.dryRun},
			yesFlag(&o.yes),
			command.JSONFlag(&o.json),
		}, o.workspace.Flags()...),
		Action: o.workspace.OfProject(func(c *cli.Context) error {
			return o.run(c.Context, s)
		}),
	}
}

// pruneAnswer is what prune did, as JSON.
type pruneAnswer struct {
	mailbox.Pruned
	// Branch counts the messages that were removed from the branch.
	Branch int  `json:"branch"`
	DryRun bool `json:"dry_run"`
}

func (o *pruneOptions) run(ctx context.Context, s *command.Streams) error {
	age, err := schema.ParseDuration(o.olderThan)
	if err != nil {
		return failure.Usagef("--older-than: %w", err)
	}
	ctx, stop := command.UntilSignal(ctx)
	defer stop()
	return o.workspace.With(s, nil, func(w *mailbox.Workspace) error {
		may, err := w.Prunable(ctx, s.Now().Add(-age))
		if err != nil {
			return err
		}
		answer := pruneAnswer{DryRun: o.dryRun}
		repository, err := openRepository(ctx, w)
		if err != nil {
			return err
		}
		if !o.dryRun {
			counted, err := w.Prune(ctx, may, true)
			if err != nil {
				return err
			}
			question := "remove " + spelling.Count(counted.Messages, "message") + " and " + spelling.Count(counted.Copies, "outbox file") + " here"
			if repository != nil {
				question += ", and what is as old from the branch"
			}
			if err := confirm(s, o.yes, question+"?"); err != nil {
				return err
			}
		}
		if repository != nil {
			options := command.SyncOptions(w)
			options.DryRun, options.Prune, options.Waiting = o.dryRun, may, s.NoteWaiting
			result, err := repository.Sync(ctx, options)
			if err != nil {
				return cmp.Or(context.Cause(ctx), err)
			}
			answer.Branch = result.Pruned
		}
		if answer.Pruned, err = w.Prune(ctx, may, o.dryRun); err != nil {
			return err
		}
		return o.print(s, answer, repository != nil)
	})
}

// openRepository returns the git repository of a workspace, or nil if it has none.
func openRepository(ctx context.Context, w *mailbox.Workspace) (*gitmail.Repository, error) {
	repository, err := gitmail.Open(ctx, w)
	if errors.Is(err, gitmail.ErrNoRepository) {
		return nil, nil
	}
	return repository, err
}

func (o *pruneOptions) print(s *command.Streams, answer pruneAnswer, shared bool) error {
	text := "removed"
	if o.dryRun {
		text = "would remove"
	}
	text += fmt.Sprintf(": %s, %s", spelling.Count(answer.Messages, "message"), spelling.Count(answer.Copies, "outbox file"))
	if shared {
		text += "; from the branch: " + spelling.Count(answer.Branch, "message")
	}
	return s.Answer(o.json, answer, func() { fmt.Fprintln(s.Out, text) })
}

type removeAgentOptions struct {
	workspace         command.Workspace
	dryRun, yes, json bool
}

func newRemoveAgentCommand(s *command.Streams) *cli.Command {
	var o removeAgentOptions
	return &cli.Command{
		Name:      "remove-agent",
		Hidden:    true, // add-agent and sync name it
		Category:  command.CategoryWorkspace,
		Usage:     "remove an agent's mailbox",
		ArgsUsage: "[PROJECT] NAME",
		Description: `remove-agent moves the folder of an agent out of the workspace, to state/removed, with
all its mail. If the workspace is synced by git, the agent goes from the branch, and with
the next sync from all other machines; their folders move to state/removed, too.
Messages that the agent sent to others stay with them. add-agent adds it again, empty.

EXAMPLES:
   oacp remove-agent cursor --dry-run
   oacp remove-agent cursor`,
		Flags: append([]cli.Flag{
			&cli.BoolFlag{Name: "dry-run", Usage: "say what would go, and remove nothing", Destination: &o.dryRun},
			yesFlag(&o.yes),
			command.JSONFlag(&o.json),
		}, o.workspace.Flags()...),
		Action: func(c *cli.Context) error {
			args := command.Positionals(c)
			if len(args) == 0 {
				return failure.Usagef("needs the name of the agent")
			}
			if err := o.workspace.TakeProject(args[:len(args)-1]); err != nil {
				return err
			}
			return o.run(c.Context, s, schema.AgentName(args[len(args)-1]))
		},
	}
}

func (o *removeAgentOptions) run(ctx context.Context, s *command.Streams, agent schema.AgentName) error {
	ctx, stop := command.UntilSignal(ctx)
	defer stop()
	return o.workspace.With(s, nil, func(w *mailbox.Workspace) error {
		if err := w.CheckAgent(agent); err != nil {
			return err
		}
		pending, err := w.Inbox(ctx, agent)
		if err != nil {
			return err
		}
		repository, err := openRepository(ctx, w)
		if err != nil {
			return err
		}
		where := "here"
		if repository != nil {
			where = "from all machines"
		}
		if o.dryRun {
			return o.print(s, agent, fmt.Sprintf("would remove %s %s, with %s pending", agent, where, spelling.Count(len(pending), "message")), len(pending))
		}
		if err := confirm(s, o.yes, fmt.Sprintf("remove %s %s, with %s pending?", agent, where, spelling.Count(len(pending), "message"))); err != nil {
			return err
		}
		if repository != nil {
			options := command.SyncOptions(w)
			options.RemoveAgent, options.Waiting = agent, s.NoteWaiting
			_, err = repository.Sync(ctx, options)
		} else {
			err = gitmail.SetAside(w, agent, s.Now())
		}
		if err != nil {
			return cmp.Or(context.Cause(ctx), err)
		}
		return o.print(s, agent, fmt.Sprintf("removed %s %s; its folder is in state/removed", agent, where), len(pending))
	})
}

func (o *removeAgentOptions) print(s *command.Streams, agent schema.AgentName, text string, pending int) error {
	answer := map[string]any{"agent": agent, "pending": pending, "dry_run": o.dryRun}
	return s.Answer(o.json, answer, func() { fmt.Fprintln(s.Out, text) })
}
