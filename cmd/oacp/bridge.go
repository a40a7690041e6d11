package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/spelling"
	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/mailbox/project"
)

const logHelp = `The log is the file --bridge, or that of the run --run-id of the repository around the
current folder, or of its latest run.`

// newBridgeCommand returns the command for AgentPair's bridge log. Without a subcommand, it shows the status of logs.
func newBridgeCommand(s *command.Streams) *cli.Command {
	show := withLog(s, func(c *call, selected command.BridgeLog) error {
		if selected.File == "" && selected.RunID == 0 {
			return showLogs(c, selected)
		}
		return selected.Reading(s, func(log *bridge.Log) error {
			answer, err := newLogStatus(c, log)
			if err != nil {
				return err
			}
			return c.answer(answer, func() { answer.print(c) })
		})
	})
	return &cli.Command{
		Name:      "bridge",
		Category:  command.CategoryBridge,
		Usage:     "use AgentPair's log",
		ArgsUsage: "[--bridge FILE]",
		Description: `bridge shows every run of the repository around the current folder, or the log that
--bridge or --run-id names. It reports lines that are not records on standard error,
with their numbers.

EXAMPLES:
   oacp bridge --run-id 1
   oacp bridge --bridge bridge.jsonl --json`,
		Flags:       append(new(command.BridgeLog).Flags(), jsonFlag()),
		Subcommands: []*cli.Command{newBridgeSendCommand(s), newBridgeDrainCommand(s)},
		Action: func(c *cli.Context) error {
			if c.Args().Present() {
				return needsCommand(c)
			}
			return show(c)
		},
	}
}

// withLog returns the action of a command for the log that the flags name.
func withLog(s *command.Streams, run func(*call, command.BridgeLog) error) cli.ActionFunc {
	return action(s, 0, func(c *call) error {
		log := bridgeLog(c)
		if err := log.Check(c.flags); err != nil {
			return err
		}
		return run(c, log)
	})
}

// bridgeLog returns the log that the flags name.
func bridgeLog(c *call) command.BridgeLog {
	return command.BridgeLog{
		File: c.text("bridge"), RunID: c.flags.Int("run-id"), Repository: c.text("repo"), RunsDir: c.text("runs-dir"), Create: c.isOn("create"),
	}
}

// agentOrEnvironment returns the value of a flag, or else the agent that the environment names.
func agentOrEnvironment(flag string, s *command.Streams) (string, error) {
	if flag != "" {
		return flag, nil
	}
	agent, err := project.AgentFromEnvironment(s.Getenv)
	return string(agent), err
}

func newBridgeDrainCommand(s *command.Streams) *cli.Command {
	return &cli.Command{
		Name:      "drain",
		Usage:     "print the records for an agent",
		ArgsUsage: "--agent AGENT [--cursor FILE]",
		Description: logHelp + `

drain prints the records addressed to the agent, and broadcasts from others, one per
line, as they are in the log. The log does not change.

With --cursor, drain prints each record once: FILE stores the position up to which the
log was printed. If drain is killed, the next run may print records again. If the log
was replaced, drain says so and prints all of the new one. Each agent needs its own
file.

EXAMPLES:
   oacp bridge drain --agent codex --cursor codex.cursor
   oacp bridge drain --agent codex --run-id 3 | jq -r .content`,
		Flags: append(new(command.BridgeLog).Flags(),
			&cli.StringFlag{Name: "agent", Usage: "print the records for `AGENT` (default: $OACP_AGENT, then $AGENT_NAME)"},
			&cli.StringFlag{Name: "cursor", Usage: "print only records after the position in `FILE`, and store the new one"},
			jsonFlag()),
		Action: withLog(s, func(c *call, selected command.BridgeLog) error {
			agent, err := agentOrEnvironment(c.text("agent"), s)
			if err != nil {
				return err
			}
			return selected.Reading(s, func(log *bridge.Log) error { return drain(c, log, agent) })
		}),
	}
}

func drain(c *call, log *bridge.Log, agent string) (err error) {
	var after bridge.Cursor
	var before string // the log of the cursor
	cursor := c.text("cursor")
	if cursor != "" {
		if after, before, err = bridge.LoadCursor(cursor, agent); err != nil {
			return err
		}
	}
	end, err := drainFrom(c, log, agent, after)
	if errors.Is(err, bridge.ErrUnknownCursor) && before == log.Path() {
		c.Warn(log.Path() + " was replaced since the last drain, so all of its records are printed")
		end, err = drainFrom(c, log, agent, "")
	}
	if err := errors.Join(err, c.Out.Flush()); err != nil || cursor == "" || end == after {
		return err
	}
	return bridge.SaveCursor(cursor, agent, end, log.Path())
}

// drainFrom prints the records for the agent after a place, and returns the place after the last record.
func drainFrom(c *call, log *bridge.Log, agent string, after bridge.Cursor) (end bridge.Cursor, err error) {
	end = after
	for e, err := range log.Records(c.ctx, after) {
		if skipped, ok := errors.AsType[*bridge.LineError](err); ok {
			c.Warn("skipped " + skipped.Error())
			err = nil
		} else if err == nil && e.IsFor(agent) {
			err = printRecord(e.Record, c.Streams)
		}
		if err != nil {
			return end, err
		}
		end = e.Cursor()
	}
	return end, nil
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

func newBridgeSendCommand(s *command.Streams) *cli.Command {
	return &cli.Command{
		Name:      "send",
		Usage:     "append a record to the log, once",
		ArgsUsage: "--from AGENT [--to AGENT] --type KIND",
		Description: logHelp + ` If the repository has no run, send creates run 1.

If the log already holds the record, send writes nothing, prints the record's position
and succeeds, so you can repeat it. The id covers only type, sender, receiver and
content. If a different record has the same id, such as a FAIL with the content of
this PASS, send fails: use other words.

EXAMPLES:
   oacp bridge send --from claude --to codex --type task --content "Add a login"
   git diff | oacp bridge send --from codex -t result --content -
   oacp bridge send --from claude --signal PASS --content Approved`,
		Flags: append(new(command.BridgeLog).WritingFlags(),
			&cli.StringFlag{Name: "from", Usage: "the sender is `AGENT` (default: $OACP_AGENT, then $AGENT_NAME)"},
			&cli.StringFlag{Name: "to", Usage: "the receiver is `AGENT` (default: everybody)"},
			&cli.StringFlag{Name: "type", Aliases: []string{"t"}, Usage: "the record is a `KIND`: " + spelling.Join(bridge.Types())},
			&cli.StringFlag{Name: "signal", Usage: "the control signal is `SIGNAL`: " + spelling.Join(bridge.Signals()) + "; makes the type signal"},
			&cli.StringFlag{Name: "content", Usage: "the record says `TEXT`, - for standard input"},
			&cli.BoolFlag{Name: "no-sync", Category: command.Rare, Usage: "do not wait for the disk: a power failure may lose the record"},
			jsonFlag()),
		Action: withLog(s, func(c *call, selected command.BridgeLog) error {
			record, err := recordOf(c)
			if err != nil {
				return err
			}
			return selected.With(s, bridge.Options{NoSync: c.isOn("no-sync")}, func(log *bridge.Log) error {
				receipt, err := log.Send(c.ctx, record)
				if err == nil {
					err = receipt.Conflict(record)
				}
				if err != nil {
					return err
				}
				return printAppended(c, log, receipt)
			})
		}),
	}
}

// recordOf returns the record that the command line describes.
func recordOf(c *call) (r bridge.Record, err error) {
	signal := c.text("signal")
	kind := c.text("type")
	if kind == "" && signal != "" {
		kind = string(bridge.TypeSignal)
	}
	r = bridge.Record{Type: bridge.Type(kind), To: c.text("to"), Signal: bridge.Signal(strings.ToUpper(signal))}
	if kind == "" {
		return r, failure.Usagef("needs --type").WithHint("the types are " + spelling.Join(bridge.Types()))
	}
	if r.From, err = agentOrEnvironment(c.text("from"), c.Streams); err != nil {
		return r, err
	}
	if err := r.Validate(); err != nil {
		return r, failure.Usagef("%w", err)
	}
	r.Content = c.text("content")
	switch {
	case r.Content != "" && r.Content != "-":
		return r, nil
	case r.Content == "" && signal != "":
		return r, nil // a signal needs no content
	case r.Content == "-" || !c.InTerminal:
		if r.Content, err = readInput("-", c.Streams); err != nil {
			return r, fmt.Errorf("content: %w", err)
		}
	}
	if strings.TrimSpace(r.Content) == "" {
		err = failure.Usagef("content: there is no --content, and standard input is empty").WithHint("use --content TEXT, or a pipe")
	}
	return r, err
}

func printAppended(c *call, log *bridge.Log, receipt bridge.Receipt) error {
	object, err := withKeys(receipt.Record, struct {
		Duplicate bool   `json:"duplicate"`
		Line      int    `json:"line"`
		Bridge    string `json:"bridge_path"`
	}{receipt.Duplicate, receipt.Line, log.Path()})
	if err != nil {
		return err
	}
	return c.answer(object, func() {
		if receipt.Duplicate {
			c.printf("duplicate: %s\n  sent:   %s\n", visible.Line(receipt.ID), visible.Line(receipt.Timestamp))
		} else {
			c.printf("OK: %s\n", visible.Line(receipt.ID))
		}
		c.printf("  bridge: %s, line %d\n", visible.Line(log.Path()), receipt.Line)
	})
}

// showLogs shows the status of the log of each run of the selected repository.
func showLogs(c *call, selected command.BridgeLog) error {
	root, repository, ids, err := selected.RepositoryIDs(c.Streams, false)
	if err != nil {
		return err
	}
	runs, err := bridge.Runs(root, ids[0])
	if err != nil {
		return err
	}
	answers := []logStatus{}
	var failed []error
	for _, run := range runs {
		// A run that cannot be read does not hide the others.
		failed = append(failed, command.UseLog(run.BridgePath(), bridge.Options{}, c.Streams, func(log *bridge.Log) error {
			answer, err := newLogStatus(c, log)
			if err != nil {
				return err
			}
			answer.RepositoryID = run.RepositoryID
			answer.Repository, err = run.Repository()
			answers = append(answers, answer)
			return err
		}))
	}
	err = c.answer(map[string]any{"runs_dir": root, "runs": answers}, func() {
		if len(runs) == 0 {
			c.printf("%s: no runs in %s\n", visible.Line(repository), visible.Line(root))
		}
		for i, answer := range answers {
			if i > 0 {
				c.printf("\n")
			}
			answer.print(c)
		}
	})
	return errors.Join(append(failed, err)...)
}

// logStatus is the status of a log, as JSON.
type logStatus struct {
	RunID        int    `json:"run_id,omitempty"`
	RepositoryID string `json:"repository_id,omitempty"`
	Repository   string `json:"repository,omitempty"`
	Bridge       string `json:"bridge_path"`
	bridge.Status
	Skipped []map[string]any `json:"skipped"`
}

// newLogStatus counts the records of the log, and warns of the lines that it skips.
func newLogStatus(c *call, log *bridge.Log) (logStatus, error) {
	answer := logStatus{RunID: bridge.RunNumber(log.Path()), Bridge: log.Path(), Skipped: []map[string]any{}}
	var err error
	if answer.Status, err = log.Status(c.ctx); err != nil {
		return answer, err
	}
	lines, err := log.Skipped(c.ctx)
	for _, line := range lines {
		c.Warn("skipped " + line.Error())
		answer.Skipped = append(answer.Skipped, map[string]any{"line": line.Line, "reason": line.Err.Error()})
	}
	if answer.TornBytes > 0 {
		c.Warn(fmt.Sprintf("%s: the last line has no newline (%d bytes): it is being written, or a crash cut it off", log.Path(), answer.TornBytes))
	}
	return answer, err
}

// print shows the status in AgentPair's layout.
func (a logStatus) print(c *call) {
	name := a.Bridge
	if a.RunID != 0 {
		name = fmt.Sprintf("Run #%d", a.RunID)
	}
	c.printf("%s Bridge Status:\n  Total Messages: %d\n  Done Signal: %t\n  Pass Count: %d\n  Fail Count: %d\n  By Agent:\n",
		visible.Line(name), a.TotalMessages, a.HasDoneSignal, a.PassCount, a.FailCount)
	for _, agent := range slices.Sorted(maps.Keys(a.ByAgent)) {
		c.printf("    %s: %d\n", visible.Line(agent), a.ByAgent[agent])
	}
}
