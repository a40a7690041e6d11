package main

import (
	"cmp"
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

// A bridgeCall is a call of bridge or of a command below it.
type bridgeCall struct {
	*call
	log command.BridgeLog
	// cursor is a flag of drain, and the others are flags of send.
	cursor, from, to, kind, signal, content string
	noSync                                  bool
}

// newBridgeCommand returns the command for AgentPair's bridge log. Without a subcommand, it shows the status of logs.
func newBridgeCommand(s *command.Streams) *cli.Command {
	c := &bridgeCall{call: newCall(s)}
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
		Flags:       append(c.log.Flags(), c.jsonFlag()),
		Subcommands: []*cli.Command{newBridgeSendCommand(s), newBridgeDrainCommand(s)},
		Action:      c.action(anyNumber, c.show),
	}
}

func (c *bridgeCall) show() error {
	if len(c.words) > 0 {
		return needsCommand(c.flags)
	}
	if err := c.log.Check(); err != nil {
		return err
	}
	if c.log.File == "" && c.log.RunID == 0 {
		return c.showAll()
	}
	return c.log.Reading(c.Streams, func(log *bridge.Log) error {
		answer, err := newLogStatus(c.call, log)
		if err != nil {
			return err
		}
		return c.answer(answer, func() { answer.print(c.call) })
	})
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
	c := &bridgeCall{call: newCall(s)}
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
		Flags: append(c.log.Flags(),
			c.agentFlag("print the records for `AGENT` (default: $OACP_AGENT, then $AGENT_NAME)"),
			&cli.StringFlag{Name: "cursor", Usage: "print only records after the position in `FILE`, and store the new one", Destination: &c.cursor},
			c.jsonFlag()),
		Action: c.action(0, c.drain),
	}
}

func (c *bridgeCall) drain() error {
	agent, err := agentOrEnvironment(string(c.agent), c.Streams)
	if err := cmp.Or(c.log.Check(), err); err != nil {
		return err
	}
	return c.log.Reading(c.Streams, func(log *bridge.Log) error { return c.drainLog(log, agent) })
}

func (c *bridgeCall) drainLog(log *bridge.Log, agent string) (err error) {
	var after bridge.Cursor
	var before string // the log of the cursor
	if c.cursor != "" {
		if after, before, err = bridge.LoadCursor(c.cursor, agent); err != nil {
			return err
		}
	}
	end, err := c.drainFrom(log, agent, after)
	if errors.Is(err, bridge.ErrUnknownCursor) && before == log.Path() {
		c.Warn(log.Path() + " was replaced since the last drain, so all of its records are printed")
		end, err = c.drainFrom(log, agent, "")
	}
	if err := errors.Join(err, c.Out.Flush()); err != nil || c.cursor == "" || end == after {
		return err
	}
	return bridge.SaveCursor(c.cursor, agent, end, log.Path())
}

// drainFrom prints the records for the agent after a place, and returns the place after the last record.
func (c *bridgeCall) drainFrom(log *bridge.Log, agent string, after bridge.Cursor) (end bridge.Cursor, err error) {
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
	c := &bridgeCall{call: newCall(s)}
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
		Flags: append(c.log.WritingFlags(),
			&cli.StringFlag{Name: "from", Usage: "the sender is `AGENT` (default: $OACP_AGENT, then $AGENT_NAME)", Destination: &c.from},
			&cli.StringFlag{Name: "to", Usage: "the receiver is `AGENT` (default: everybody)", Destination: &c.to},
			&cli.StringFlag{Name: "type", Aliases: []string{"t"}, Usage: "the record is a `KIND`: " + spelling.Join(bridge.Types()), Destination: &c.kind},
			&cli.StringFlag{Name: "signal", Usage: "the control signal is `SIGNAL`: " + spelling.Join(bridge.Signals()) + "; makes the type signal", Destination: &c.signal},
			&cli.StringFlag{Name: "content", Usage: "the record says `TEXT`, - for standard input", Destination: &c.content},
			&cli.BoolFlag{Name: "no-sync", Category: command.Rare, Usage: "do not wait for the disk: a power failure may lose the record", Destination: &c.noSync},
			c.jsonFlag()),
		Action: c.action(0, c.send),
	}
}

func (c *bridgeCall) send() error {
	if err := c.log.Check(); err != nil {
		return err
	}
	record, err := c.record()
	if err != nil {
		return err
	}
	return c.log.With(c.Streams, bridge.Options{NoSync: c.noSync}, func(log *bridge.Log) error {
		receipt, err := log.Send(c.ctx, record)
		if err == nil {
			err = receipt.Conflict(record)
		}
		if err != nil {
			return err
		}
		return c.printAppended(log, receipt)
	})
}

// record returns the record that the command line describes.
func (c *bridgeCall) record() (r bridge.Record, err error) {
	if c.kind == "" && c.signal != "" {
		c.kind = string(bridge.TypeSignal)
	}
	r = bridge.Record{Type: bridge.Type(c.kind), To: c.to, Signal: bridge.Signal(strings.ToUpper(c.signal))}
	if c.kind == "" {
		return r, failure.Usagef("needs --type").WithHint("the types are " + spelling.Join(bridge.Types()))
	}
	if r.From, err = agentOrEnvironment(c.from, c.Streams); err != nil {
		return r, err
	}
	if err := r.Validate(); err != nil {
		return r, failure.Usagef("%w", err)
	}
	r.Content = c.content
	switch {
	case r.Content != "" && r.Content != "-":
		return r, nil
	case r.Content == "" && c.signal != "":
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

func (c *bridgeCall) printAppended(log *bridge.Log, receipt bridge.Receipt) error {
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
			c.Printf("duplicate: %s\n  sent:   %s\n", visible.Line(receipt.ID), visible.Line(receipt.Timestamp))
		} else {
			c.Confirm("OK: %s\n", visible.Line(receipt.ID))
		}
		c.Printf("  bridge: %s, line %d\n", visible.Line(log.Path()), receipt.Line)
	})
}

// showAll shows the status of the log of each run of the selected repository.
func (c *bridgeCall) showAll() error {
	root, repository, ids, err := c.log.RepositoryIDs(c.Streams, false)
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
			answer, err := newLogStatus(c.call, log)
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
			c.Printf("%s: no runs in %s\n", visible.Line(repository), visible.Line(root))
		}
		for i, answer := range answers {
			if i > 0 {
				c.Printf("\n")
			}
			answer.print(c.call)
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
	c.Printf("%s Bridge Status:\n  Total Messages: %d\n  Done Signal: %t\n  Pass Count: %d\n  Fail Count: %d\n  By Agent:\n",
		visible.Line(name), a.TotalMessages, a.HasDoneSignal, a.PassCount, a.FailCount)
	for _, agent := range slices.Sorted(maps.Keys(a.ByAgent)) {
		c.Printf("    %s: %d\n", visible.Line(agent), a.ByAgent[agent])
	}
}
