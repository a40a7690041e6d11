package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/agent"
	"github.com/oacp-go/oacp/contract"
	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/spelling"
	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/live"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn"
	"github.com/oacp-go/oacp/validate"
)

type runOptions struct {
	workspace command.Workspace
	agent     string
	driver    driverOptions
	input     string
	autonomy  string
	allowFrom cli.StringSlice
	once      bool
	sync      command.Sync
	output    bool
	json      bool
}

func newRunCommand(s *command.Streams) *cli.Command {
	var o runOptions
	return &cli.Command{
		Name:      "run",
		Category:  command.CategoryTurns,
		Usage:     "run an agent per message",
		ArgsUsage: "[PROJECT] [--agent AGENT] [-- COMMAND…]",
		Description: `run starts the command once for each message, in processing order: a turn. The command
reads the message from standard input; OACP_MESSAGE_ID, OACP_MESSAGE_FROM, OACP_FILE
and other variables describe it. No shell is involved. When a turn succeeds, run
acknowledges the message and, with --reply, sends the output as the answer. A turn that
fails is retried; after --max-attempts the message becomes a dead letter.

Options can also be settings in the run section of agents/AGENT/config.yaml or
workspace.json. One process at a time works an inbox; with --claim git, one machine
handles each message. A signal stops run and the current turn, and the message stays
in the inbox. With --once, run fails if there were dead letters.

EXAMPLES:
   oacp run --agent codex --reply -- cat
   oacp run --agent claude --driver claude --allow edits --reply`,
		Flags: slices.Concat([]cli.Flag{
			&cli.StringFlag{Name: "agent", Usage: "work the inbox of `AGENT` (default: $OACP_AGENT)", Destination: &o.agent},
			&cli.BoolFlag{Name: "reply", Usage: "send the output of a turn as the answer"},
			&cli.StringFlag{Name: "input", Category: command.Rare, Usage: "pass `INPUT` to a turn: message (the whole file) or body", Destination: &o.input},
			&cli.StringFlag{Name: "autonomy", Category: command.Rare, Usage: "`MODE` is auto (run a turn) or always_pause (hold messages for a person; default: the mode in config.yaml)", Destination: &o.autonomy},
			&cli.StringSliceFlag{Name: "allow-from", Category: command.Rare, Usage: "run turns only for messages from `AGENT`[,AGENT…] and hold others", Destination: &o.allowFrom},
			&cli.BoolFlag{Name: "require-signed", Category: command.Rare, Usage: "run turns only for messages whose signature AGENT can verify and hold others"},
			&cli.IntFlag{Name: "max-attempts", Category: command.Rare, Usage: "run at most `N` turns for a message", DefaultText: fmt.Sprint(turn.DefaultMaxAttempts)},
			&cli.IntFlag{Name: "max-turns", Category: command.Rare, Usage: "run at most `N` turns in a conversation, -1 for no limit", DefaultText: fmt.Sprint(turn.DefaultMaxTurns)},
			&cli.IntFlag{Name: "max-pair-turns", Category: command.Rare, Usage: "run at most `N` turns an hour for messages from one agent, -1 for no limit", DefaultText: fmt.Sprint(turn.DefaultMaxPairTurns)},
			&cli.StringFlag{Name: "timeout", Usage: "stop a turn after `TIME`, such as 90s or 2h", DefaultText: turn.DefaultTimeout.String()},
			&cli.IntFlag{Name: "parallel", Category: command.Rare, Usage: "work on `N` conversations at the same time", DefaultText: "1"},
			claimFlags()[0], claimFlags()[1], claimFlags()[2],
			&cli.BoolFlag{Name: "once", Usage: "exit when nothing is left to do", Destination: &o.once},
			o.sync.Flag(command.Rare),
			&cli.BoolFlag{Name: "show-output", Category: command.Rare, Usage: "print the agent's output during its turns", Destination: &o.output},
			command.JSONFlag(&o.json),
		}, o.driver.flags("the socket of the Ash bridge is `FILE`; a COMMAND starts the bridge"), o.workspace.Flags()),
		Action: func(c *cli.Context) error {
			before, after := command.PositionalsAndRest(c)
			if err := checkOrder(after); err != nil {
				return err
			}
			for i, word := range before {
				if isProject := i == 0 && word != "" && word[0] != '.' && !strings.Contains(word, "/"); !isProject && len(after) == 0 {
					return failure.Usagef("unexpected argument %s", visible.Quote(word)).WithHint(afterDashes)
				}
			}
			if err := errors.Join(o.sync.Check(), o.workspace.TakeProject(before)); err != nil {
				return err
			}
			o.driver.command = after
			err := runRun(c, o, s)
			if unknown, ok := errors.AsType[*project.UnknownProjectError](err); ok && len(before) > 0 && len(after) == 0 {
				err = failure.WithHint(err, spelling.DidYouMean(unknown.Known, unknown.Project, afterDashes))
			}
			return err
		},
	}
}

// inputs are what a turn can read.
var inputs = []turn.Input{turn.InputMessage, turn.InputBody}

// override replaces settings with the options of the command line.
func (o runOptions) override(c *cli.Context, settings *turn.Settings) error {
	for _, count := range []struct {
		flag      string
		field     *int
		unlimited bool
	}{
		{"max-attempts", &settings.MaxAttempts, false}, {"parallel", &settings.Parallel, false},
		{"max-turns", &settings.MaxTurns, true}, {"max-pair-turns", &settings.MaxPairTurns, true},
	} {
		n := c.Int(count.flag)
		switch {
		case !c.IsSet(count.flag):
			continue
		case n < 1 && !count.unlimited:
			return failure.Usagef("--%s: %d is less than 1", count.flag, n)
		case n < 1 && n != turn.Unlimited:
			return failure.Usagef("--%s: want a number from 1, or %d for any number", count.flag, turn.Unlimited)
		}
		*count.field = n
	}
	if c.IsSet("timeout") {
		timeout, err := turnTimeout(c.String("timeout"))
		if err != nil {
			return err
		}
		settings.Timeout = timeout
	}
	if c.IsSet("reply") {
		settings.Reply = c.Bool("reply")
	}
	if c.IsSet("require-signed") {
		settings.RequireSigned = c.Bool("require-signed")
	}
	if o.input != "" {
		settings.Input = turn.Input(o.input)
		if !slices.Contains(inputs, settings.Input) {
			return failure.Usagef("--input: %s is neither message nor body", visible.Quote(o.input))
		}
	}
	if o.autonomy != "" {
		autonomy, err := project.ParseAutonomy(o.autonomy)
		if err != nil {
			return failure.Usagef("--autonomy: %w", err)
		}
		settings.Autonomy = autonomy
	}
	if names := o.allowFrom.Value(); len(names) > 0 {
		settings.AllowFrom = nil
		for _, text := range names {
			name, err := schema.ParseAgentName(text)
			if err != nil {
				return failure.Usagef("--allow-from: %w", err)
			}
			settings.AllowFrom = append(settings.AllowFrom, name)
		}
	}
	if err := overrideClaims(c, settings); err != nil {
		return err
	}
	return o.driver.override(settings)
}

func runRun(c *cli.Context, o runOptions, s *command.Streams) error {
	return o.workspace.With(s, nil, func(w *mailbox.Workspace) error {
		synchronizer, err := o.sync.Open(c.Context, s, w)
		if err != nil {
			return err
		}
		name, err := command.AgentOf(w, o.agent, s)
		if err != nil {
			return err
		}
		settings, err := turn.LoadSettings(w, name)
		if err != nil {
			return err
		}
		if err := o.override(c, &settings); err != nil {
			return err
		}
		claimsByDefault(c.Context, w, &settings, synchronizer != nil)
		if settings.Claim != "" && synchronizer == nil { // other machines must see claims and answers
			if synchronizer, err = command.UsualSync(c.Context, s, w); err != nil {
				return err
			}
		}
		settings.MCP = oacpTools(s, settings.Driver, "--agent", string(name), "--dir", w.Dir())
		config, err := settings.Config(name)
		if err != nil {
			return failure.Usagef("%w", err).WithHint("give a command after --, or a --driver, or set one under run: in agents/" + string(name) + "/config.yaml")
		}
		config.Once = o.once
		config.Contract = func(ctx context.Context, answer *schema.Message) (permanent bool, err error) {
			err = command.CheckDraft(ctx, w, answer, validate.Source{})
			return err != nil && failure.Of(err).Code == "invalid_message", err
		}
		if err := checkContractProgram(w, config.Reply); err != nil {
			return err
		}
		if err := checkNoSession(w, name); err != nil {
			return err
		}
		printer := &runPrinter{o: o, s: s, ended: make(map[schema.ID]turn.Event)}
		config.Observe = printer.print
		var runner *turn.Runner
		var sessionErr error
		config.Ready = func() {
			// A session that began before the inbox was this runner's does not know of it.
			if sessionErr = checkNoSession(w, name); sessionErr != nil {
				runner.Finish()
			} else if !o.once && !o.json {
				s.Note(waitingText(name, &settings))
			}
		}
		if err := openClaims(c.Context, s, w, &settings, &config); err != nil {
			return err
		}
		if runner, err = turn.New(w, config); err != nil {
			return err
		}
		printer.gone = runner.Finish
		defer command.OutliveOutput()()
		ctx, stop := command.UntilSignal(c.Context)
		defer stop()
		err = synchronizer.Around(ctx, o.once, func() error { return runner.Run(ctx) })
		printer.finish()
		err = errors.Join(err, sessionErr, printer.err)
		if err == nil && o.once && !o.json && !printer.printed {
			s.Note(fmt.Sprintf("there was nothing to do in the inbox of %s", name))
		}
		return err
	})
}

// waitingText says what a runner waits for and what it then does.
func waitingText(name schema.AgentName, settings *turn.Settings) string {
	var what string
	switch settings.Driver {
	case "ash":
		what = "goes to the Ash bridge " + cmp.Or(settings.Socket, visible.Shell(settings.Command...))
	case "claude", "codex":
		what = fmt.Sprintf("is a turn of %s with --allow %s", settings.Driver, cmp.Or(settings.Allow, agent.PermitNothing))
	case "echo":
		what = "is echoed"
	default:
		what = "starts " + visible.Shell(settings.Command...)
	}
	text := fmt.Sprintf("waiting for mail to %s, ^C stops; each message %s", name, what)
	if !settings.Reply {
		text += "; without --reply its output is not sent back"
	}
	return text
}

// checkContractProgram returns an error if answers may have to fit schemas of the workspace and the
// program that checks them is missing. After a turn it would be too late.
func checkContractProgram(w *mailbox.Workspace, reply bool) error {
	names, err := contract.Names(w.Root(), w.Dir())
	if err == nil && reply && len(names) > 0 && command.ContractProgram() == "" {
		err = contract.ErrNotInstalled
	}
	return err
}

// checkNoSession returns an error if the agent has living sessions. They get its mail, and a message would be
// worked twice.
func checkNoSession(w *mailbox.Workspace, name schema.AgentName) error {
	err := live.CheckNone(w, name)
	if _, ok := errors.AsType[*live.SessionsError](err); ok {
		return &failure.Error{Code: "live_session", Hint: "close the session, or use another agent for the runner; oacp live lists sessions", Err: err}
	}
	return err
}
