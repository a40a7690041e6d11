package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn/track"
)

type restoreOptions struct {
	workspace    command.Workspace
	ids          []string
	agent        string
	dryRun, json bool
}

func newRestoreCommand(s *command.Streams) *cli.Command {
	var o restoreOptions
	return &cli.Command{
		Name:      "restore",
		Category:  command.CategoryFiles,
		Usage:     "return a message to its inbox",
		ArgsUsage: "ID…",
		Description: `restore returns a message to the inbox of each recipient that acknowledged it
or gave it up. It removes the dead letter and resets the count of turns.
A pending message does not change. oacp list finds ids.

If any id is unknown, restore does nothing.

EXAMPLES:
   oacp restore ID
   oacp restore ID ID --agent codex --dry-run`,
		Flags: append([]cli.Flag{
			&cli.StringFlag{Name: "agent", Usage: "only into the inbox of `AGENT`", Destination: &o.agent},
			&cli.BoolFlag{Name: "dry-run", Usage: "show what would be restored and change nothing", Destination: &o.dryRun},
			command.JSONFlag(&o.json),
		}, o.workspace.Flags()...),
		Action: func(c *cli.Context) error {
			o.ids = command.Positionals(c)
			if len(o.ids) == 0 {
				return failure.Usagef("needs an id").WithHint("oacp list shows the ids")
			}
			return runRestore(c.Context, o, s)
		},
	}
}

func runRestore(ctx context.Context, o restoreOptions, s *command.Streams) error {
	return o.workspace.With(s, nil, func(w *mailbox.Workspace) error {
		agent := schema.AgentName(o.agent)
		if o.agent != "" {
			if err := w.CheckAgent(agent); err != nil {
				return err
			}
		}
		whole := make([]string, len(o.ids))
		for i, id := range o.ids {
			found, err := w.Find(ctx, id)
			if _, err = mailbox.SplitUnreadable(err); err != nil {
				return err
			}
			whole[i] = string(found[0].Message.ID)
		}
		var all []track.Restored
		var failed error
		for _, id := range whole {
			restored, err := track.Restore(ctx, w, id, agent, o.dryRun)
			all, failed = append(all, restored...), errors.Join(failed, err)
		}
		return errors.Join(o.print(all, s), failed)
	})
}

func (o restoreOptions) print(all []track.Restored, s *command.Streams) error {
	now := s.Now()
	for _, one := range all {
		switch name := visible.Line(one.ID.Short()); {
		case one.Was == track.StageWaiting:
		case one.Err != nil:
			s.Note(name + " is not valid, so oacp run gives it up again: " + failure.OneLine(one.Err.Error()))
		case one.Message.ExpiredAt(now):
			s.Note(name + " expired at " + s.Time(one.Message.ExpiresAt.Time()) + ", so oacp run skips it")
		}
	}
	if o.json {
		if len(all) == 0 {
			return nil // an error follows
		}
		// One line, because an error may follow on another.
		return command.WriteJSONLine(s.Out, map[string]any{"restored": all, "dry_run": o.dryRun})
	}
	for _, one := range all {
		name := visible.Line(one.ID.Short())
		switch {
		case one.Was == track.StageWaiting && one.Path == "":
			fmt.Fprintf(s.Out, "%s is on its way to the inbox of %s already\n", name, one.Agent)
		case one.Was == track.StageWaiting:
			fmt.Fprintf(s.Out, "%s is in the inbox of %s already\n", name, one.Agent)
		case o.dryRun:
			fmt.Fprintf(s.Out, "%s would be back in the inbox of %s; it is %s\n", name, one.Agent, one.Was)
		default:
			fmt.Fprintf(s.Out, "OK: %s is back in the inbox of %s; it was %s\n", name, one.Agent, one.Was)
		}
	}
	return nil
}
