package main

import (
	"cmp"
	"context"
	"errors"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/convert/mirror"
	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/mailbox"
)

type mirrorOptions struct {
	workspace command.Workspace
	log       command.BridgeLog
	direction string
	since     string
	all       bool
	follow    bool
	sync      command.Sync
	noSync    bool
	json      bool
}

func newMirrorCommand(s *command.Streams) *cli.Command {
	var o mirrorOptions
	flags := []cli.Flag{
		&cli.StringFlag{Name: "direction", Usage: "copy `WAY`: out (to the log), in (to the mailboxes), or both", Value: string(mirror.Both), Destination: &o.direction},
		&cli.StringFlag{Name: "since", Usage: "record messages since `TIME`: an age such as 2h, or YYYY-MM-DDTHH:MM:SSZ", DefaultText: "when the run began", Destination: &o.since},
		&cli.BoolFlag{Name: "all", Usage: "record everything in the outboxes, including older messages and messages from other logs", Destination: &o.all},
		&cli.BoolFlag{Name: "follow", Aliases: []string{"f"}, Usage: "keep running and copy new messages until stopped", Destination: &o.follow},
		o.sync.Flag(command.Rare),
		&cli.BoolFlag{Name: "no-sync", Category: command.Rare, Usage: "do not wait for the disk: a power cut may lose copies", Destination: &o.noSync},
		command.JSONFlag(&o.json),
	}
	return &cli.Command{
		Name:      "mirror",
		Category:  command.CategoryBridge,
		Usage:     "synchronize mailboxes with a bridge log",
		ArgsUsage: "[PROJECT] [--follow] [--direction WAY]",
		Description: logHelp + ` If the repository has no run, mirror creates run 1.

mirror copies sent messages to the log and records to the mailboxes, each exactly once,
even if it is run repeatedly or killed midway.

The log of a run gets the messages sent since the run began. A repository's first run
and a log without a manifest get all messages. Messages from another log are left out.
--since and --all also record messages that would be left out.

A record that cannot be delivered becomes a dead letter with the reason; mirror copies
the rest, and fails.

With --follow, mirror prints a line for each copy until a signal stops it, and then
exits with status 0.

EXAMPLES:
   oacp mirror
   oacp mirror --run-id 1 --direction out
   oacp mirror --run-id 2 --since 2h
   oacp mirror my-project --bridge bridge.jsonl --follow`,
		Flags: append(append(flags, o.log.WritingFlags()...), o.workspace.Flags()...),
		Action: o.workspace.OfProject(func(c *cli.Context) error {
			if err := errors.Join(o.log.Check(c), o.sync.Check()); err != nil {
				return err
			}
			return runMirror(c.Context, o, s)
		}),
	}
}

func runMirror(ctx context.Context, o mirrorOptions, s *command.Streams) error {
	m, err := o.mirror(s)
	if err != nil {
		return err
	}
	return o.workspace.With(s, &mailbox.Options{NoSync: o.noSync}, func(w *mailbox.Workspace) error {
		synchronizer, err := o.sync.Open(ctx, s, w)
		if err != nil {
			return err
		}
		return o.log.With(s, bridge.Options{NoSync: o.noSync}, func(log *bridge.Log) error {
			m.Workspace, m.Log = w, log
			ctx, stop := command.UntilSignal(ctx)
			defer stop()
			if o.follow {
				return synchronizer.Around(ctx, false, func() error { return o.followMirror(ctx, m, s) })
			}
			var report mirror.Report
			synchronizer.Once(ctx)
			err := synchronizer.Around(ctx, false, func() (err error) {
				report, err = m.Run(ctx)
				return err
			})
			err = cmp.Or(context.Cause(ctx), err)
			// What was done before an error is done.
			printErr := reportAnswer{Bridge: log.Path(), Report: report}.print(o.json && err == nil, s)
			return cmp.Or(err, printErr)
		})
	})
}

// mirror returns the mirror that the flags describe.
func (o mirrorOptions) mirror(s *command.Streams) (*mirror.Mirror, error) {
	direction, err := mirror.ParseDirection(o.direction)
	if err != nil {
		return nil, failure.Usagef("--direction: %w", err)
	}
	m := &mirror.Mirror{Direction: direction, All: o.all}
	if o.since == "" {
		return m, nil
	}
	if o.all {
		return nil, failure.Usagef("--since and --all are mutually exclusive")
	}
	if m.Since, err = parseSince(o.since, s.Now()); err != nil {
		return nil, failure.Usagef("--since: %w", err)
	}
	return m, nil
}

// followMirror prints a line whenever something was carried, until a signal ends it. That is not a failure.
func (o mirrorOptions) followMirror(ctx context.Context, m *mirror.Mirror, s *command.Streams) error {
	var printErr error
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	err := m.Follow(ctx, func(report mirror.Report, passErr error) {
		answer := reportAnswer{Bridge: m.Log.Path(), Report: report}
		if passErr != nil {
			answer.Error = strings.ReplaceAll(passErr.Error(), "\n", "; ")
			s.Warn(answer.Error)
		}
		err := answer.print(o.json, s)
		if errors.Is(err, failure.ErrReported) {
			err = nil
		}
		if err = errors.Join(err, s.Out.Flush()); err != nil {
			printErr = err
			cancel()
		}
	})
	return errors.Join(err, printErr)
}
