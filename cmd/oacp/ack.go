package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"

	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn"
)

type ackOptions struct {
	workspace command.Workspace
	ids       []string
	agent     string
	all, json bool
	selection selection
}

func newAckCommand(s *command.Streams) *cli.Command {
	var o ackOptions
	return &cli.Command{
		Name:      "ack",
		Category:  command.CategoryMessages,
		Usage:     "mark messages as handled",
		ArgsUsage: "[ID|FILE…] [--all]",
		Description: `ack moves messages from the inbox to its archive. Other recipients keep their copies.
oacp restore puts a message back.

If any id is unknown, ack does nothing. --all acknowledges every message that is
pending when ack starts, including expired ones; --type and --from select among them.
Files that are not valid messages stay.

To archive a file that is not a message, name it as oacp inbox lists it.

EXAMPLES:
   oacp ack ID
   oacp ack notes.yaml
   oacp ack --all --type notification --agent codex`,
		Flags: slices.Concat([]cli.Flag{
			&cli.BoolFlag{Name: "all", Usage: "acknowledge every pending message of the agent", Destination: &o.all},
		}, o.selection.flags("with --all: only"), []cli.Flag{
			&cli.StringFlag{Name: "agent", Usage: "use the inbox of `AGENT` (default: $OACP_AGENT)", Destination: &o.agent},
			command.JSONFlag(&o.json),
		}, o.workspace.Flags()),
		Action: func(c *cli.Context) error {
			o.ids = command.Positionals(c)
			if !o.all && (c.IsSet("type") || c.IsSet("from")) {
				return failure.Usagef("--type and --from need --all")
			}
			if err := o.selection.parse(); err != nil {
				return err
			}
			if err := checkIDs(o.ids, o.all); err != nil {
				return err
			}
			return runAck(c.Context, o, s)
		},
	}
}

// acknowledgedJSON is an acknowledged message or file.
type acknowledgedJSON struct {
	MessageID schema.ID        `json:"message_id,omitempty"`
	File      string           `json:"file"`
	Agent     schema.AgentName `json:"agent"`
	Path      string           `json:"path"`
}

func runAck(ctx context.Context, o ackOptions, s *command.Streams) error {
	return o.workspace.With(s, nil, func(w *mailbox.Workspace) error {
		agent, err := command.ActingAgent(w, o.agent, s)
		if err != nil && (o.all || !errors.Is(err, project.ErrNoSender)) {
			return err
		}
		var entries, left []mailbox.Entry
		if o.all {
			entries, left, err = o.pending(ctx, w, agent, s)
		} else {
			entries, err = o.named(ctx, w, agent)
		}
		for _, e := range entries {
			if e.Message != nil {
				err = cmp.Or(err, turn.CheckFence(ctx, w, e.Message.ID, e.Agent, s.Getenv))
			}
		}
		if err != nil {
			return err
		}
		done, err := o.acknowledge(w, entries)
		for _, e := range left {
			if _, failed := errors.AsType[syscall.Errno](e.Err); failed { // it may be a message
				err = cmp.Or(err, e.Err)
			}
		}
		if len(done) > 0 || o.all {
			err = errors.Join(o.print(agent, done, left, err != nil, s), err)
		}
		return err
	})
}

// acknowledge acknowledges the entries. Its error is the first one.
func (o ackOptions) acknowledge(w *mailbox.Workspace, entries []mailbox.Entry) (done []acknowledgedJSON, first error) {
	done = []acknowledgedJSON{}
	for i, err := range w.AcknowledgeAll(entries) {
		if err != nil {
			if !o.all || !mailbox.IsGone(err) { // else another process acknowledged it
				first = cmp.Or(first, err)
			}
			continue
		}
		e := entries[i]
		one := acknowledgedJSON{File: e.Name, Agent: e.Agent, Path: e.Path}
		if e.Err == nil {
			one.MessageID = e.Message.ID
		}
		done = append(done, one)
	}
	return done, first
}

// named returns the entries that the ids name, each once.
func (o ackOptions) named(ctx context.Context, w *mailbox.Workspace, agent schema.AgentName) (entries []mailbox.Entry, err error) {
	for _, id := range o.ids {
		e, err := w.Pending(ctx, id, agent)
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(entries, func(other mailbox.Entry) bool { return other.Path == e.Path }) {
			entries = append(entries, e)
		}
	}
	return entries, nil
}

// pending returns the messages in the agent's inbox that are wanted, and the files that are not valid
// messages.
func (o ackOptions) pending(ctx context.Context, w *mailbox.Workspace, agent schema.AgentName, s *command.Streams) (wanted, left []mailbox.Entry, err error) {
	o.selection.warn(w, s)
	entries, err := w.Inbox(ctx, agent)
	for _, e := range entries {
		switch {
		case e.Err != nil:
			left = append(left, e)
		case o.selection.matches(e.Message):
			wanted = append(wanted, e)
		}
	}
	return wanted, left, err
}

// print prints what is done and, after --all, which files are left because they are not messages.
func (o ackOptions) print(agent schema.AgentName, done []acknowledgedJSON, left []mailbox.Entry, failed bool, s *command.Streams) error {
	var names []string
	for _, e := range left {
		names = append(names, e.Name)
	}
	if len(names) > 0 {
		s.Warn(fmt.Sprintf("not a valid message, so it stays: %s; oacp inbox says what is wrong", strings.Join(names, ", ")))
	}
	if o.json {
		// One line, because an error may follow on another.
		answer := map[string]any{"acknowledged": done}
		if len(names) > 0 {
			answer["left"] = names
		}
		return command.WriteJSONLine(s.Out, answer)
	}
	if len(done) == 0 && !failed {
		fmt.Fprintf(s.Out, "%s: nothing to acknowledge\n", agent)
	}
	for _, one := range done {
		fmt.Fprintf(s.Out, "acknowledged: %s\n", visible.Line(cmp.Or(one.MessageID.Short(), one.File)))
	}
	return nil
}
