package main

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/mailbox/project"
)

type bridgeDrainOptions struct {
	log    command.BridgeLog
	agent  string
	since  string
	cursor string
	json   bool
}

func newBridgeDrainCommand(s *command.Streams) *cli.Command {
	var o bridgeDrainOptions
	flags := []cli.Flag{
		&cli.StringFlag{Name: "agent", Usage: "print the records for `AGENT` (default: $OACP_AGENT, then $AGENT_NAME)", Destination: &o.agent},
		&cli.StringFlag{Name: "since", Usage: "only those behind the record `HASH`, its whole id", Destination: &o.since},
		&cli.StringFlag{Name: "cursor", Usage: "only those behind the place that is noted in `FILE`, and note how far they were printed", Destination: &o.cursor},
		command.JSONFlag(&o.json),
	}
	return &cli.Command{
		Name:      "drain",
		Usage:     "print the records for an agent",
		ArgsUsage: "--agent AGENT [--since HASH | --cursor FILE]",
		Description: logHelp + `

One record a line, as it stands in the log (JSON Lines): those addressed to the
agent and those that others sent to everybody. Nothing is taken out of the log.

With --cursor each record is printed once, by one command after the other: the
place is noted when all is printed, so a command that is killed prints again.

EXAMPLES:
   oacp bridge drain --agent codex --cursor codex.cursor
   oacp bridge drain --agent codex --run-id 3 | jq -r .content`,
		Flags: append(flags, o.log.Flags()...),
		Action: func(c *cli.Context) error {
			if err := errors.Join(command.NoPositionals(c), o.log.Check(c)); err != nil {
				return err
			}
			if o.since != "" && o.cursor != "" {
				return failure.Usagef("--since and --cursor exclude each other")
			}
			return runBridgeDrain(c.Context, o, s)
		},
	}
}

func runBridgeDrain(ctx context.Context, o bridgeDrainOptions, s *command.Streams) error {
	if o.agent == "" {
		agent, err := project.AgentFromEnvironment(s.Getenv)
		if err != nil {
			return err
		}
		o.agent = string(agent)
	}
	return o.log.Reading(s, func(log *bridge.Log) error {
		if o.cursor != "" {
			return o.drainToCursor(ctx, log, s)
		}
		behind := 0
		if o.since != "" {
			e, err := log.Get(ctx, o.since)
			if err != nil {
				return err
			}
			behind = e.Line
		}
		if _, err := warnOfSkipped(ctx, log, behind, s); err != nil {
			return err
		}
		_, err := printRecords(log.DrainSince(ctx, o.agent, o.since), s)
		return err
	})
}

// drainToCursor prints what is new since the cursor, and then moves it.
func (o bridgeDrainOptions) drainToCursor(ctx context.Context, log *bridge.Log, s *command.Streams) error {
	after, err := bridge.LoadCursor(o.cursor)
	if err != nil {
		return err
	}
	// What is appended from here on may or may not be printed below.
	end, err := log.End(ctx)
	if err != nil {
		return err
	}
	printed, err := printRecords(log.DrainAfter(ctx, o.agent, after), s)
	if err != nil {
		return err
	}
	if _, err := warnOfSkipped(ctx, log, after.Line(), s); err != nil {
		return err
	}
	if printed.Line() > end.Line() {
		end = printed
	}
	if err := s.Out.Flush(); err != nil || end == after {
		return err
	}
	return bridge.SaveCursor(o.cursor, end)
}

// printRecords prints one record a line, and returns the place behind the
// last one.
func printRecords(records iter.Seq2[bridge.Entry, error], s *command.Streams) (last bridge.Cursor, err error) {
	for e, err := range records {
		if err != nil {
			return last, err
		}
		if err := printRecord(e.Record, s); err != nil {
			return last, err
		}
		last = e.Cursor()
	}
	return last, nil
}

// printRecord prints a record as it stands in its log. JSON may hold
// characters that disturb a terminal.
func printRecord(r bridge.Record, s *command.Streams) error {
	line, err := r.Encode()
	if err != nil {
		return err
	}
	if s.OutTerminal {
		line = []byte(visible.Line(string(line)))
	}
	_, err = fmt.Fprintf(s.Out, "%s\n", line)
	return err
}
