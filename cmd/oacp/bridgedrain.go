package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/visible"
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
	flags := append(o.log.Flags(),
		&cli.StringFlag{Name: "agent", Usage: "print the records for `AGENT` (default: $OACP_AGENT, then $AGENT_NAME)", Destination: &o.agent},
		&cli.StringFlag{Name: "since", Usage: "only records behind the one with the id `HASH`", Destination: &o.since},
		&cli.StringFlag{Name: "cursor", Usage: "only records behind the place in `FILE`, which then moves", Destination: &o.cursor},
		command.JSONFlag(&o.json))
	return &cli.Command{
		Name:      "drain",
		Usage:     "print the records for an agent",
		ArgsUsage: "--agent AGENT [--since HASH | --cursor FILE]",
		Description: logHelp + `

drain prints the records addressed to the agent, and broadcasts from others, one per
line, as they are in the log. The log does not change.

With --cursor, drain prints each record once: FILE stores the position up to which the
log was printed. If drain is killed, the next run may print records again. Each agent
needs its own file.

EXAMPLES:
   oacp bridge drain --agent codex --cursor codex.cursor
   oacp bridge drain --agent codex --run-id 3 | jq -r .content`,
		Flags: flags,
		Action: func(c *cli.Context) error {
			if err := errors.Join(command.NoPositionals(c), o.log.Check(c)); err != nil {
				return err
			}
			if o.since != "" && o.cursor != "" {
				return failure.Usagef("--since and --cursor are mutually exclusive")
			}
			var err error
			if o.agent, err = agentOrEnvironment(o.agent, s); err != nil {
				return err
			}
			return o.log.Reading(s, func(log *bridge.Log) error { return o.drain(c.Context, log, s) })
		},
	}
}

func (o bridgeDrainOptions) drain(ctx context.Context, log *bridge.Log, s *command.Streams) error {
	var after bridge.Cursor
	var err error
	if o.cursor != "" {
		after, err = bridge.LoadCursor(o.cursor, o.agent)
	} else if o.since != "" {
		var e bridge.Entry
		e, err = log.Get(ctx, o.since)
		after = e.Cursor()
	}
	if err != nil {
		return err
	}
	end := after
	for e, err := range log.Records(ctx, after) {
		if skipped, ok := errors.AsType[*bridge.LineError](err); ok {
			s.Warn("skipped " + skipped.Error())
			err = nil
		} else if err == nil && e.IsFor(o.agent) {
			err = printRecord(e.Record, s)
		}
		if err != nil {
			return err
		}
		end = e.Cursor()
	}
	if err := s.Out.Flush(); err != nil || o.cursor == "" || end == after {
		return err
	}
	return bridge.SaveCursor(o.cursor, o.agent, end)
}

// printRecord prints a record as it is in its log. JSON may hold characters that disturb a
// terminal.
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
