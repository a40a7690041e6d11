package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/convert/mirror"
	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/mailbox"
)

// A mirrorCall is a call of mirror.
type mirrorCall struct {
	*call
	log            command.BridgeLog
	mirror         mirror.Mirror
	follow, noSync bool
}

func newMirrorCommand(s *command.Streams) *cli.Command {
	c := &mirrorCall{call: newCall(s), mirror: mirror.Mirror{Direction: mirror.Both}}
	return &cli.Command{
		Name:      "mirror",
		Category:  command.CategoryBridge,
		Usage:     "sync with a bridge log",
		ArgsUsage: "[PROJECT] [--follow] [--direction WAY]",
		Description: logHelp + ` If the repository has no run, mirror creates run 1.

mirror copies sent messages to the log and records to the mailboxes, each exactly once,
even if killed midway.

The log of a run gets the messages sent since the run began. A repository's first run
and a log without a manifest get all messages. Messages from another log are left out.
--since also records older messages.

A record that cannot be delivered becomes a dead letter with the reason; mirror copies
the rest, and fails.

A run of oacp pair works its records itself: mirror delivers them as notices, which get
no turn and no answer. The log of a finished run gets no messages, and its records stay
there, or --finished delivers notices.

With --follow, mirror prints a line for each copy until a signal stops it, and then
exits with status 0.

EXAMPLES:
   oacp mirror
   oacp mirror --run-id 1 --direction out
   oacp mirror --run-id 2 --since 2h
   oacp mirror my-project --bridge bridge.jsonl --follow`,
		Flags: c.flagsWith(append([]cli.Flag{
			&cli.GenericFlag{Name: "direction", Usage: "copy `WAY`: out (to the log), in (to the mailboxes), or both", Value: command.OneOf(&c.mirror.Direction, "direction", mirror.Out, mirror.In, mirror.Both)},
			&cli.GenericFlag{Name: "since", Usage: "record messages since `TIME`: an age such as 2h, or YYYY-MM-DDTHH:MM:SSZ", DefaultText: "when the run began", Value: command.Parsed(&c.mirror.Since, c.parseTime)},
			&cli.BoolFlag{Name: "follow", Aliases: []string{"f"}, Usage: "keep running and copy new messages until stopped", Destination: &c.follow},
			&cli.BoolFlag{Name: "finished", Usage: "deliver the records of a finished run, as notices that start no turn", Destination: &c.mirror.Finished},
			c.sync.Flag(command.Rare),
			&cli.BoolFlag{Name: "no-sync", Category: command.Rare, Usage: "do not wait for the disk: a power failure may lose copies", Destination: &c.noSync},
		}, c.log.WritingFlags()...)...),
		Action: c.ofProject(c.run),
	}
}

func (c *mirrorCall) run() error {
	if err := c.log.Check(); err != nil {
		return err
	}
	return c.with(&mailbox.Options{NoSync: c.noSync}, func(w *mailbox.Workspace) error {
		synchronizer, err := c.synchronizer(w)
		if err != nil {
			return err
		}
		return c.log.With(c.Streams, bridge.Options{NoSync: c.noSync}, func(log *bridge.Log) error {
			c.mirror.Workspace, c.mirror.Log = w, log
			defer c.catchSignals()()
			if c.follow {
				return synchronizer.Around(c.ctx, false, c.followLog)
			}
			var report mirror.Report
			synchronizer.Briefly(c.ctx)
			err := synchronizer.Around(c.ctx, false, func() (err error) {
				report, err = c.mirror.Run(c.ctx)
				return err
			})
			err = cmp.Or(context.Cause(c.ctx), err)
			// Work done before an error counts.
			printErr := reportAnswer{Bridge: log.Path(), Report: report, asText: err != nil}.print(c.call)
			return cmp.Or(err, printErr)
		})
	})
}

// followLog prints a line for each copy until a signal ends it, which is not a failure.
func (c *mirrorCall) followLog() error {
	var printErr error
	ctx, cancel := context.WithCancel(c.ctx)
	defer cancel()
	err := c.mirror.Follow(ctx, func(report mirror.Report, passErr error) {
		answer := reportAnswer{Bridge: c.mirror.Log.Path(), Report: report}
		if passErr != nil {
			answer.Error = strings.ReplaceAll(passErr.Error(), "\n", "; ")
			c.Warn(answer.Error)
		}
		err := answer.print(c.call)
		if errors.Is(err, failure.ErrReported) {
			err = nil
		}
		if err = errors.Join(err, c.Out.Flush()); err != nil {
			printErr = err
			cancel()
		}
	})
	return errors.Join(err, printErr)
}

// reportAnswer is what mirror and convert did, as JSON.
type reportAnswer struct {
	Bridge string `json:"bridge_path,omitempty"`
	mirror.Report
	// Error says what stopped a pass; the next pass tries again.
	Error string `json:"error,omitempty"`

	// asText makes print ignore --json, because an error follows as JSON.
	asText bool
}

// print prints the completed work and, on standard error, the problems. It returns failure.ErrReported if
// something is undeliverable.
func (a reportAnswer) print(c *call) error {
	var warnings []string
	for _, line := range a.Skipped {
		warnings = append(warnings, fmt.Sprintf("%s:%d: skipped: %s", a.Bridge, line.Line, line.Reason))
	}
	warnings = append(warnings, a.Warnings...)
	for _, letter := range a.DeadLetters {
		warnings = append(warnings, fmt.Sprintf("undeliverable: %s (now %s)", letter.Reason, letter.Path))
	}
	for _, text := range warnings {
		c.Warn(text)
	}
	var err error
	if c.asJSON && !a.asText {
		err = command.WriteJSONLine(c.Out, a)
	} else {
		err = c.Printf("%s\n", a.summary())
	}
	if err == nil && len(a.DeadLetters) > 0 {
		err = failure.ErrReported
	}
	return err
}

// summary returns one line about the completed work.
func (a reportAnswer) summary() string {
	parts := []string{fmt.Sprintf("%d recorded", a.Recorded), fmt.Sprintf("%d delivered", a.Delivered)}
	already := a.AlreadyDelivered
	if a.Recorded+a.Delivered > 0 {
		already = 0 // the second direction finds the results of the first
	}
	for _, more := range []struct {
		count int
		what  string
	}{
		{already, "there already"},
		{len(a.DeadLetters), "undeliverable"},
		{a.LeftInLog, "left in the log"},
		{a.NotRecorded, "not recorded"},
		{a.LeftOut, "left out"},
		{len(a.Skipped), "skipped"},
	} {
		if more.count > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", more.count, more.what))
		}
	}
	return strings.Join(parts, ", ") + ": " + visible.Line(a.Bridge)
}
