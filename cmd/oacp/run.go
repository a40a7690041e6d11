package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn"
)

type runOptions struct {
	workspace command.Workspace
	agent     string
	driver    driverOptions
	input     string
	allowFrom cli.StringSlice
	once      bool
	output    bool
	json      bool
}

func newRunCommand(s *command.Streams) *cli.Command {
	var o runOptions
	return &cli.Command{
		Name:      "run",
		Category:  command.CategoryTurns,
		Usage:     "give an agent a turn for each message that arrives",
		ArgsUsage: "[PROJECT] [--agent AGENT] [-- COMMAND…]",
		Description: `The command is started once for each message, in processing order, with the
message on its standard input and what there is to know of it in OACP_MESSAGE_ID,
OACP_MESSAGE_FROM, OACP_MESSAGE_TYPE, OACP_MESSAGE_SUBJECT, OACP_FILE and others.
It never passes through a shell. With --driver claude or codex, that program is
the agent, with the tools of oacp mcp, and does what --allow says without asking.
When a turn succeeds the message is acknowledged, and with --reply what it said is
sent as the answer; when it fails it is tried again, and in the end the message
becomes a dead letter and its sender is told.

What is not said here is taken from the section run of agents/AGENT/config.yaml
or workspace.json, so that oacp run alone can be enough. One process at a time
works an inbox. run goes on until it is told to stop, which is no failure; a turn
that is running then is stopped, and its message stays in the inbox. When nobody
reads the output any more, run ends with the turn that is running. With --once
it ends when nothing is left to do, and fails if there were dead letters.

--json prints an object a line for each thing that happens.

EXAMPLES:
   oacp run --agent codex --reply -- cat
   oacp run --agent codex --once --timeout 10m -- ./on-message.sh
   oacp run --agent claude --driver claude --allow edits --reply
   oacp run --agent codex --driver ash --socket /tmp/ash-1.sock --reply`,
		Flags: slices.Concat([]cli.Flag{
			&cli.StringFlag{Name: "agent", Usage: "work the inbox of `AGENT` (default: see oacp help)", Destination: &o.agent},
			&cli.BoolFlag{Name: "reply", Usage: "send what a turn says as an answer, to messages that expect one"},
			&cli.StringFlag{Name: "input", Usage: "give a turn `INPUT` to read: message (the whole file) or body", Destination: &o.input},
			&cli.StringSliceFlag{Name: "allow-from", Usage: "give turns to messages from `AGENT`[,AGENT…] only; others wait", Destination: &o.allowFrom},
			&cli.IntFlag{Name: "max-attempts", Usage: "give a message at most `N` turns", DefaultText: fmt.Sprint(turn.DefaultMaxAttempts)},
			&cli.IntFlag{Name: "max-turns", Usage: "give a conversation at most `N` turns, -1 for any number", DefaultText: fmt.Sprint(turn.DefaultMaxTurns)},
			&cli.IntFlag{Name: "max-pair-turns", Usage: "give messages from one agent at most `N` turns an hour, -1 for any number", DefaultText: fmt.Sprint(turn.DefaultMaxPairTurns)},
			&cli.DurationFlag{Name: "timeout", Usage: "stop a turn after `TIME`", DefaultText: turn.DefaultTimeout.String()},
			&cli.IntFlag{Name: "parallel", Usage: "work on `N` conversations side by side", DefaultText: "1"},
			&cli.BoolFlag{Name: "once", Usage: "end when nothing is left to do", Destination: &o.once},
			&cli.BoolFlag{Name: "show-output", Usage: "print what the agent shows during its turns", Destination: &o.output},
			command.JSONFlag(&o.json),
		}, o.driver.flags("the Ash bridge listens on `FILE`; with a command, it is started to listen there"), o.workspace.Flags()),
		Action: func(c *cli.Context) error {
			before, command := command.PositionalsAndRest(c)
			if err := o.workspace.TakeProject(before); err != nil {
				return err
			}
			o.driver.command = command
			if err := o.check(c); err != nil {
				return err
			}
			return runRun(c.Context, o, func(settings *turn.Settings) error { return o.override(c, settings) }, s)
		},
	}
}

// inputs are what a turn can be given to read.
var inputs = []turn.Input{turn.InputMessage, turn.InputBody}

// check refuses values that mean nothing.
func (o runOptions) check(c *cli.Context) error {
	for _, name := range []string{"max-attempts", "parallel"} {
		if c.IsSet(name) && c.Int(name) < 1 {
			return failure.Usagef("--%s: %d is less than 1", name, c.Int(name))
		}
	}
	for _, name := range []string{"max-turns", "max-pair-turns"} {
		if n := c.Int(name); c.IsSet(name) && n < 1 && n != turn.Unlimited {
			return failure.Usagef("--%s: want a number from 1, or %d for any number", name, turn.Unlimited)
		}
	}
	if c.IsSet("timeout") && c.Duration("timeout") <= 0 {
		return failure.Usagef("--timeout: a turn needs some time")
	}
	if o.input != "" && !slices.Contains(inputs, turn.Input(o.input)) {
		return failure.Usagef("--input: %s is neither message nor body", visible.Quote(o.input))
	}
	for _, name := range o.allowFrom.Value() {
		if _, err := schema.ParseAgentName(name); err != nil {
			return failure.Usagef("--allow-from: %w", err)
		}
	}
	return nil
}

// override puts what the command line says in the place of what the
// workspace says.
func (o runOptions) override(c *cli.Context, settings *turn.Settings) error {
	for flag, field := range map[string]*int{
		"max-attempts": &settings.MaxAttempts, "max-turns": &settings.MaxTurns,
		"max-pair-turns": &settings.MaxPairTurns, "parallel": &settings.Parallel,
	} {
		if c.IsSet(flag) {
			*field = c.Int(flag)
		}
	}
	if c.IsSet("timeout") {
		settings.Timeout = c.Duration("timeout")
	}
	if c.IsSet("reply") {
		settings.Reply = c.Bool("reply")
	}
	if o.input != "" {
		settings.Input = turn.Input(o.input)
	}
	if names := o.allowFrom.Value(); len(names) > 0 {
		settings.AllowFrom = nil
		for _, name := range names {
			settings.AllowFrom = append(settings.AllowFrom, schema.AgentName(name))
		}
	}
	return o.driver.override(settings)
}

func runRun(ctx context.Context, o runOptions, override func(*turn.Settings) error, s *command.Streams) error {
	return o.workspace.With(s, nil, func(w *mailbox.Workspace) error {
		agent, err := command.AgentOf(w, o.agent, s)
		if err != nil {
			return err
		}
		settings, err := turn.LoadSettings(w, agent)
		if err != nil {
			return err
		}
		if err := override(&settings); err != nil {
			return err
		}
		program, err := os.Executable()
		if err != nil {
			return err
		}
		settings.MCP = oacpTools(program, "--agent", string(agent), "--dir", w.Dir())
		config, err := settings.Config(agent)
		if err != nil {
			return failure.Usagef("%w", err).WithHint("name a command behind --, or a --driver, or write it under run: in agents/" + string(agent) + "/config.yaml")
		}
		config.Once = o.once
		printer := &runPrinter{o: o, s: s}
		config.Observe = printer.print
		runner, err := turn.New(w, config)
		if err != nil {
			return err
		}
		printer.gone = runner.Finish
		defer command.OutliveOutput()()
		ctx, stop := command.UntilSignal(ctx)
		defer stop()
		err = runner.Run(ctx)
		return errors.Join(err, printer.err)
	})
}

// A runPrinter tells what a runner does. An answer that cannot be printed
// does not stop the turns; it is told in the end.
type runPrinter struct {
	o   runOptions
	s   *command.Streams
	err error
	// gone is called when nobody reads what is printed.
	gone func()
}

func (p *runPrinter) print(e turn.Event) {
	if e.Kind == turn.EventOutput && !p.o.output {
		return
	}
	var err error
	switch {
	case p.o.json:
		err = command.WriteJSONLine(p.s.Out, e)
	case e.Kind == turn.EventOutput:
		printIndented(p.s, e.Output.Text)
	default:
		_, err = fmt.Fprintln(p.s.Out, p.line(e))
	}
	if err = errors.Join(err, p.s.Out.Flush()); err != nil && p.err == nil {
		if p.err = command.OutputError(err); errors.Is(p.err, failure.ErrOutputClosed) {
			p.gone()
		}
	}
}

// eventWords are the events in words for people, and their colours.
var eventWords = map[turn.EventKind]struct {
	word   string
	colors text.Colors
}{
	turn.EventStarted:      {"turn", nil},
	turn.EventSucceeded:    {"done", text.Colors{text.FgGreen}},
	turn.EventFailed:       {"failed", text.Colors{text.FgRed}},
	turn.EventInterrupted:  {"stopped", text.Colors{text.FgYellow}},
	turn.EventAnswered:     {"answered", nil},
	turn.EventAcknowledged: {"acknowledged", nil},
	turn.EventDuplicate:    {"duplicate", nil},
	turn.EventDeadLetter:   {"dead letter", text.Colors{text.FgRed}},
	turn.EventBounced:      {"bounced", nil},
	turn.EventUnsendable:   {"not sent", text.Colors{text.FgRed}},
	turn.EventHeld:         {"held", text.Colors{text.FgYellow}},
	turn.EventExpired:      {"expired", text.Colors{text.FgYellow}},
	turn.EventBound:        {"bound", text.Colors{text.FgYellow}},
	turn.EventUnavailable:  {"unavailable", text.Colors{text.FgRed}},
	turn.EventWarning:      {"warning", text.Colors{text.FgYellow}},
	turn.EventProblem:      {"problem", text.Colors{text.FgRed}},
}

func (p *runPrinter) line(e turn.Event) string {
	words := eventWords[e.Kind]
	const column = 12
	line := e.At.Local().Format(time.TimeOnly) + "  " + paint(p.s, words.colors, fmt.Sprintf("%-*s", column, words.word))
	for _, part := range []string{string(e.ID), string(e.From), string(e.Type), e.Subject} {
		if part != "" {
			line += "  " + visible.Line(part)
		}
	}
	if e.ID == "" && e.File != "" {
		line += "  " + visible.Line(e.File)
	}
	if e.Kind == turn.EventStarted && e.Attempt > 1 {
		line += fmt.Sprintf("  (turn %d)", e.Attempt)
	}
	if e.Sent != "" {
		line += "  with " + string(e.Sent)
	}
	if e.Reason != "" {
		line += ": " + visible.Line(e.Reason)
	}
	if !e.RetryAt.IsZero() {
		line += "; again at " + e.RetryAt.Local().Format(time.TimeOnly)
	}
	return line
}
