package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime/debug"
	"slices"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/orphans"
	"github.com/oacp-go/oacp/internal/processgroup"
	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/live"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/schema"
)

// hookLimit bounds the work of a hook: the session waits for it.
const hookLimit = 10 * time.Second

type hookOptions struct {
	workspace command.Workspace
	agent     string
	sync      command.Sync
}

func newHookCommand(s *command.Streams) *cli.Command {
	var o hookOptions
	return &cli.Command{
		Name:      "hook",
		Hidden:    true,
		Usage:     "answer a hook of claude or codex",
		ArgsUsage: "claude|codex",
		Description: `The hooks that oacp setup writes call this command. It reads the event of a hook from
standard input and prints the mail that is new to the session, in the form that the
program reads. It prints nothing if there is no workspace, no agent, or no
news. An error does not disturb the session: the exit status is 0 all the same, and a
line in state/live/errors.log says what is wrong. To wake an idle claude it is 2.`,
		Flags: append([]cli.Flag{
			&cli.StringFlag{Name: "agent", Usage: "the session acts for `AGENT` unless $OACP_AGENT names another (default: the one named like the program)", Destination: &o.agent},
			sessionSync(&o.sync),
		}, o.workspace.Flags()...),
		Action: func(c *cli.Context) error {
			args := command.Positionals(c)
			if len(args) != 1 || !slices.Contains(live.Programs(), live.Program(args[0])) {
				return failure.Usagef("name the program whose hook this is: claude or codex")
			}
			if s.InTerminal {
				return failure.Usagef("this command is for hooks, which pass an event on standard input").WithHint("oacp setup " + args[0] + " writes the hooks")
			}
			if err := o.sync.Check(); err != nil {
				return err
			}
			return runHook(c.Context, o, live.Program(args[0]), s)
		},
	}
}

// sessionSync returns the flag --sync of commands for sessions.
func sessionSync(sync *command.Sync) cli.Flag {
	return &cli.GenericFlag{Name: "sync", Value: sync, Usage: "while the session is open, exchange mail with the git remote, every `TIME` (5s)"}
}

// notPanic makes a panic an error: the programs take the exit status of a crash for an answer.
func notPanic(err *error) {
	if cause := recover(); cause != nil {
		*err = fmt.Errorf("%v\n%s", cause, debug.Stack())
	}
}

// hookPace is the Pace of hooks. Tests shorten it.
var hookPace time.Duration

// runHook answers an event.
func runHook(ctx context.Context, o hookOptions, program live.Program, s *command.Streams) (err error) {
	defer notPanic(&err)
	e, err := live.ReadEvent(s.In)
	if err != nil {
		return err
	}
	if s.Getenv(orphans.Variable) != "" || live.IsScripted(program, s.Getenv) {
		return nil // nobody sits in the session, or its runner gives it the mail
	}
	place := o.workspace.Place(s)
	if e.Dir != "" {
		place.WorkingDir = e.Dir
	}
	w, err := command.Open(place, nil)
	if err != nil {
		return nil // the session has nothing to do with oacp, or there is no workspace for a log
	}
	defer func() { _ = w.Close() }() // nothing is written through it
	agent, known := o.agentOf(w, program, s)
	if !known {
		return nil
	}
	w.ViewAs(agent)
	h := &live.Hook{Workspace: w, Agent: agent, Program: program, Getenv: s.Getenv, Follow: o.sync.IsSet(), Pace: hookPace, Now: s.Now}
	h.Tools = func() bool { return command.FindSeparate("mcp") != "" } // setup registers it with the hooks
	exit, err := o.handle(ctx, h, e, s)
	if err != nil {
		if noteErr := live.NoteError(w, s.Now(), fmt.Errorf("%s of %s session %s: %w", e.Name, program, e.Session, err)); noteErr != nil {
			return err // which the program may show
		}
	}
	if exit != 0 {
		return &failure.StatusError{Status: exit}
	}
	return nil
}

// handle prints the answer to an event and returns the exit status.
func (o hookOptions) handle(ctx context.Context, h *live.Hook, e live.Event, s *command.Streams) (exit int, err error) {
	defer notPanic(&err)
	limit := hookLimit
	if e.Name == live.FileChanged {
		limit = live.WakeLimit
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	follow := false
	err = h.Handle(ctx, e, func(a live.Answer) error {
		_, err := s.Out.Write(a.Stdout)
		if err = cmp.Or(err, s.Out.Flush()); err == nil {
			_, err = s.Err.Write(a.Stderr)
		}
		if err == nil {
			exit, follow = a.Exit, a.Follow
		}
		return err
	})
	if follow {
		err = errors.Join(err, o.follow(h.Workspace, h.Agent, e.Session))
	}
	return exit, err
}

// agentOf returns the agent of the workspace for which a session acts.
func (o hookOptions) agentOf(w *mailbox.Workspace, program live.Program, s *command.Streams) (agent schema.AgentName, known bool) {
	if agent, err := project.AgentFromEnvironment(s.Getenv); err == nil && w.Knows(agent) {
		return agent, true
	}
	agent = schema.AgentName(o.agent)
	if agent == "" {
		agent = schema.AgentName(program)
	}
	return agent, agent.Valid() && w.Knows(agent)
}

// follow starts the process that follows a session. It outlives this one, and ends with the session.
func (o hookOptions) follow(w *mailbox.Workspace, agent schema.AgentName, session string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	args := []string{"live", "--dir", w.Dir(), "--agent", string(agent), "--follow", session}
	if o.sync.IsSet() {
		args = append(args, "--sync="+o.sync.String())
	}
	follower := exec.Command(self, args...)
	processgroup.LeadSession(follower)
	if err := follower.Start(); err != nil {
		return fmt.Errorf("starting %s: %w", visible.Quote(self), err)
	}
	return follower.Process.Release()
}
