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
		&cli.StringFlag{Name: "direction", Usage: "carry `WAY`: out (into the log), in (into the mailboxes), or both", Value: string(mirror.Both), Destination: &o.direction},
		&cli.StringFlag{Name: "since", Usage: "record what was made from `TIME` on: an age such as 2h, or YYYY-MM-DDTHH:MM:SSZ", DefaultText: "when the run began", Destination: &o.since},
		&cli.BoolFlag{Name: "all", Usage: "record everything in the outboxes, also what is older than the run and what came from other logs", Destination: &o.all},
		&cli.BoolFlag{Name: "follow", Aliases: []string{"f"}, Usage: "go on with what is new, as it comes, until stopped", Destination: &o.follow},
		o.sync.Flag(command.Rare),
		&cli.BoolFlag{Name: "no-sync", Category: command.Rare, Usage: "do not wait for the disk: a power cut may lose what was carried", Destination: &o.noSync},
		command.JSONFlag(&o.json),
	}
	return &cli.Command{
		Name:      "mirror",
		Category:  command.CategoryBridge,
		Usage:     "keep mailboxes and a bridge log in step",
		ArgsUsage: "[PROJECT] [--follow] [--direction WAY]",
		Description: logHelp + ` If the repository has no run, run 1 is made.

Sent messages appear in the log, and records of the log appear in the mailboxes:
each once, however often the command runs, even if it is killed midway.

The log of a run takes in what was sent since the run began; a repository's first
run and a log without a manifest beside it take in everything. What came from
another log is left out. --since and --all record what was left out.

What cannot be delivered becomes a dead letter that says why, and the command
fails; the rest is carried all the same.

With --follow the command prints a line whenever it carried something, until a
signal stops it; it then exits with status 0.

EXAMPLES:
   oacp mirror
   oacp mirror --run-id 1 --direction out
   oacp mirror --run-id 2 --since 2h
   oacp mirror my-project --bridge bridge.jsonl --follow`,
		Flags: append(append(flags, o.log.WritingFlags()...), o.workspace.Flags()...),
		Action: func(c *cli.Context) error {
			if err := errors.Join(o.log.Check(c), o.sync.Check()); err != nil {
				return err
			}
			if err := o.workspace.TakeProject(command.Positionals(c)); err != nil {
				return err
			}
			return runMirror(c.Context, o, s)
		},
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
			bar := newProgress(s, "mirroring")
			defer bar.clear()
			m.Workspace, m.Log, m.Progress = w, log, bar.update
			ctx, stop := command.UntilSignal(ctx)
			defer stop()
			if o.follow {
				return synchronizer.Around(ctx, false, func() error { return o.followMirror(ctx, m, bar, s) })
			}
			var report mirror.Report
			err := synchronizer.Around(ctx, true, func() (err error) {
				report, err = m.Run(ctx)
				bar.clear()
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
		return nil, failure.Usagef("--since and --all exclude each other")
	}
	if m.Since, err = parseSince(o.since, s.Now()); err != nil {
		return nil, failure.Usagef("--since: %w", err)
	}
	return m, nil
}

// followMirror prints a line whenever something was carried, until a signal ends it. That is not a failure.
func (o mirrorOptions) followMirror(ctx context.Context, m *mirror.Mirror, bar *progress, s *command.Streams) error {
	var printErr error
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	err := m.Follow(ctx, func(report mirror.Report, passErr error) {
		bar.clear()
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
