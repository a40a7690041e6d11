package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/spelling"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/gitmail"
	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/schema"
)

// An agentCall is a call of add-agent or remove-agent. The name of the agent is its last argument.
type agentCall struct {
	*call
	runtime     string
	dryRun, yes bool
}

func newAddAgentCommand(s *command.Streams) *cli.Command {
	c := &agentCall{call: newCall(s)}
	return &cli.Command{
		Name:      "add-agent",
		Category:  command.CategoryWorkspace,
		Usage:     "add an agent",
		ArgsUsage: "[PROJECT] NAME",
		Description: `With --runtime, add-agent also writes a card and a status file. Commands that run in
that runtime read the card to find out which agent they act for. add-agent keeps
existing files. A person is an agent with the runtime human; oacp decide shows her what
waits for her answer. oacp remove-agent removes an agent.

EXAMPLES:
   oacp add-agent reviewer
   oacp add-agent my-project codex --runtime codex
   oacp add-agent anna --runtime human`,
		Flags: c.flagsWith(&cli.GenericFlag{Name: "runtime", Usage: "the agent runs in `RUNTIME`: " + strings.Join(project.Runtimes, ", "),
			Value: command.OneOf(&c.runtime, "runtime", project.Runtimes...)}),
		Action: c.action(anyNumber, c.add),
	}
}

// takeAgent takes the agent from the arguments. A project may stand before it.
func (c *agentCall) takeAgent() error {
	last := len(c.words) - 1
	if last < 0 {
		return failure.Usagef("needs the name of the agent")
	}
	c.agent = schema.AgentName(c.words[last])
	return c.place.TakeProject(c.words[:last])
}

func (c *agentCall) add() error {
	if err := c.takeAgent(); err != nil {
		return err
	}
	if _, err := schema.ParseAgentName(string(c.agent)); err != nil {
		return err
	}
	return c.with(nil, func(w *mailbox.Workspace) error {
		made, err := project.AddAgent(w, c.agent, project.AgentOptions{Runtime: c.runtime, Now: c.Now()})
		if err != nil {
			return err
		}
		return c.printMade(w.Dir(), made, nil, nil)
	})
}

func newRemoveAgentCommand(s *command.Streams) *cli.Command {
	c := &agentCall{call: newCall(s)}
	return &cli.Command{
		Name:      "remove-agent",
		Category:  command.CategoryWorkspace,
		Usage:     "remove an agent",
		ArgsUsage: "[PROJECT] NAME",
		Description: `remove-agent moves the folder of an agent out of the workspace, to state/removed, with
all its mail. If the workspace is synced by git, remove-agent also removes the agent from
the branch, and the next sync of each other machine moves its folder to state/removed.
Messages that the agent sent to others stay with them. add-agent adds it again, empty;
then oacp restore ID returns a message to it.

The stage of messages that it had not handled becomes agent_removed, and send --wait
for one of them fails with agent_removed. oacp restore ID puts a message into the inbox of
the agent that was added again.

EXAMPLES:
   oacp remove-agent cursor --dry-run
   oacp remove-agent cursor`,
		Flags: c.flagsWith(
			&cli.BoolFlag{Name: "dry-run", Usage: "show what would be removed, and change nothing", Destination: &c.dryRun},
			&cli.BoolFlag{Name: "yes", Usage: "do not ask", Destination: &c.yes}),
		Action: c.action(anyNumber, c.remove),
	}
}

func (c *agentCall) remove() error {
	if err := c.takeAgent(); err != nil {
		return err
	}
	defer c.catchSignals()()
	return c.with(nil, c.removeFrom)
}

func (c *agentCall) removeFrom(w *mailbox.Workspace) error {
	agent := c.agent
	if err := w.CheckAgent(agent); err != nil {
		return err
	}
	pending, err := w.Inbox(c.ctx, agent)
	if err != nil {
		return err
	}
	repository, err := openRepository(c.ctx, w)
	if err != nil {
		return err
	}
	what := fmt.Sprintf("%s here", agent)
	if repository != nil {
		what = fmt.Sprintf("%s here and from the branch", agent)
	}
	withMail := fmt.Sprintf("%s, with %s pending", what, spelling.Plural(len(pending), "message"))
	text := "would remove " + withMail
	if !c.dryRun {
		if err := c.confirm(c.yes, "remove "+withMail+"?"); err != nil {
			return err
		}
		if err = mailbox.RemoveAgent(c.ctx, w, agent); err == nil && repository != nil {
			options := command.SyncOptions(w)
			options.Waiting = c.NoteWaiting
			_, err = repository.Sync(c.ctx, options)
		}
		if err != nil {
			return cmp.Or(context.Cause(c.ctx), err)
		}
		if text = "removed " + what + "; its folder is in state/removed"; repository != nil {
			text += ", on other machines after their next sync"
		}
	}
	answer := map[string]any{"agent": agent, "pending": len(pending), "dry_run": c.dryRun}
	return c.answer(answer, func() { c.Printf("%s\n", text) })
}

// openRepository returns the git repository of a workspace, or nil if it has none.
func openRepository(ctx context.Context, w *mailbox.Workspace) (*gitmail.Repository, error) {
	repository, err := gitmail.Open(ctx, w)
	if errors.Is(err, gitmail.ErrNoRepository) {
		return nil, nil
	}
	return repository, err
}
