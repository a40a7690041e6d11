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
		&cli.StringFlag{Name: "since", Usage: "only records behind the one with the id `HASH`", Destination: &o.since},
		&cli.StringFlag{Name: "cursor", Usage: "only records behind the place in `FILE`, which then moves", Destination: &o.cursor},
		command.JSONFlag(&o.json),
	}
	return &cli.Command{
		Name:      "drain",
		Usage:     "print the records for an agent",
		ArgsUsage: "--agent AGENT [--since HASH | --cursor FILE]",
		Description: logHelp + `

Prints the records addressed to the agent, and those that others sent to
everybody, one a line, as they are in the log, which stays as it is.

With --cursor, successive commands print each record once: FILE keeps the place
up to which the agent's records were printed. A command that is killed prints
again. Every agent needs a file of its own.

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
		after, err := o.start(ctx, log)
		if err != nil {
			return err
		}
		// What is appended from here on may or may not be printed below.
		end, err := log.End(ctx)
		if err != nil {
			return err
		}
		printed, err := o.printRecords(log.Records(ctx, after), s)
		if err != nil || o.cursor == "" {
			return err
		}
		if printed.Line() > end.Line() {
			end = printed
		}
		if err := s.Out.Flush(); err != nil || end == after {
			return err
		}
		return bridge.SaveCursor(o.cursor, o.agent, end)
	})
}

// start returns the place in the log that the command line names.
func (o bridgeDrainOptions) start(ctx context.Context, log *bridge.Log) (bridge.Cursor, error) {
	switch {
	case o.cursor != "":
		return bridge.LoadCursor(o.cursor, o.agent)
	case o.since != "":
		e, err := log.Get(ctx, o.since)
		return e.Cursor(), err
	}
	return "", nil
}

// printRecords prints the records for the agent, one a line, names skipped lines on standard error, and
// returns the place behind the last record.
func (o bridgeDrainOptions) printRecords(records iter.Seq2[bridge.Entry, error], s *command.Streams) (last bridge.Cursor, err error) {
	for e, err := range records {
		var skipped *bridge.LineError
		switch {
		case errors.As(err, &skipped):
			s.Warn("skipped " + skipped.Error())
			continue
		case err != nil:
			return last, err
		}
		if e.IsFor(o.agent) {
			if err := printRecord(e.Record, s); err != nil {
				return last, err
			}
		}
		last = e.Cursor()
	}
	return last, nil
}

// printRecord prints a record as it is in its log. JSON may hold characters that disturb a terminal.
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
