package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/agent"
	"github.com/oacp-go/oacp/client"
	"github.com/oacp-go/oacp/contract"
	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/sibling"
	"github.com/oacp-go/oacp/internal/spelling"
	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/live"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/gitmail"
	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn"
	"github.com/oacp-go/oacp/validate"
)

// A runCall is a call of run. The command of the agent is behind the "--".
type runCall struct {
	*call
	driverFlags
	reply, once, steer, showOutput                         bool
	input                                                  turn.Input
	autonomy                                               project.Autonomy
	allowFrom                                              []schema.AgentName
	maxAttempts, maxTurns, maxPairTurns, maxHops, parallel int
	timeout                                                time.Duration
	claim                                                  string
}

func newRunCommand(s *command.Streams) *cli.Command {
	c := &runCall{call: newCall(s)}
	return &cli.Command{
		Name:      "run",
		Category:  command.CategoryTurns,
		Usage:     "run an agent per message",
		ArgsUsage: "[PROJECT] [--agent AGENT] [-- COMMAND…]",
		Description: `run starts the command once for each message, in processing order: a turn. The command
reads the message from standard input; OACP_MESSAGE_ID, OACP_FILE and other variables
describe it. No shell is involved. When a turn succeeds, run
acknowledges the message and, with --reply, sends the output as the answer. A turn that
fails is retried; after --max-attempts the message becomes a dead letter.

Options can also be settings in the run section of agents/AGENT/config.yaml or
workspace.json, if oacp allow permits them. One process at a time works an inbox.
A signal stops run and its turn; the message stays in the inbox. With --once, run
fails if there were dead letters.

EXAMPLES:
   oacp run --agent codex --reply -- cat
   oacp run --agent claude --driver claude --allow edits --reply
   oacp run --agent gemini --driver acp --reply`,
		Flags: c.flagsWith(slices.Concat([]cli.Flag{
			c.agentFlag("work the inbox of `AGENT` (default: $OACP_AGENT)"),
			&cli.BoolFlag{Name: "reply", Usage: "send the output of a turn as the answer", Destination: &c.reply},
			&cli.GenericFlag{Name: "input", Category: command.Rare, Usage: "pass `INPUT` to a turn: message (the whole file) or body", Value: command.OneOf(&c.input, "input", turn.InputMessage, turn.InputBody)},
			&cli.GenericFlag{Name: "autonomy", Category: command.Rare, Usage: "`MODE` is auto (run a turn) or always_pause (hold messages for a person; default: the mode in config.yaml)", Value: command.Parsed(&c.autonomy, project.ParseAutonomy)},
			&cli.GenericFlag{Name: "allow-from", Category: command.Rare, Usage: "run turns only for messages from `AGENT`[,AGENT…] and hold others", Value: command.Each(&c.allowFrom, schema.ParseAgentName)},
			&cli.GenericFlag{Name: "max-attempts", Category: command.Rare, Usage: "run at most `N` turns for a message", DefaultText: fmt.Sprint(turn.DefaultMaxAttempts), Value: command.Positive(&c.maxAttempts)},
			&cli.GenericFlag{Name: "max-turns", Category: command.Rare, Usage: "run at most `N` turns in a conversation, -1 for no limit", DefaultText: fmt.Sprint(turn.DefaultMaxTurns), Value: command.Positive(&c.maxTurns, turn.Unlimited)},
			&cli.GenericFlag{Name: "max-pair-turns", Category: command.Rare, Usage: "run at most `N` turns an hour for messages from one agent, -1 for no limit", DefaultText: fmt.Sprint(turn.DefaultMaxPairTurns), Value: command.Positive(&c.maxPairTurns, turn.Unlimited)},
			&cli.GenericFlag{Name: "max-hops", Category: command.Rare, Usage: "run at most `N` turns in a row, each on a message that the one before sent, -1 for no limit", DefaultText: fmt.Sprint(turn.DefaultMaxHops), Value: command.Positive(&c.maxHops, turn.Unlimited)},
			&cli.GenericFlag{Name: "timeout", Usage: "stop a turn after `TIME`, such as 90s or 2h", DefaultText: shortDuration(turn.DefaultTimeout), Value: command.Parsed(&c.timeout, turnTimeout).Needed()},
			&cli.StringFlag{Name: "claim", Category: command.Rare, Usage: "claim each message on the remote, so that only one machine handles it: `HOW` is git (default with --sync) or none", Destination: &c.claim},
			&cli.GenericFlag{Name: "parallel", Category: command.Rare, Usage: "work on `N` conversations at the same time", DefaultText: "1", Value: command.Positive(&c.parallel)},
			&cli.BoolFlag{Name: "once", Usage: "exit when nothing is left to do", Destination: &c.once},
			&cli.BoolFlag{Name: "steer", Category: command.Rare, Usage: "let a P0 message join the running turn of its conversation (claude and codex)", Destination: &c.steer},
			c.sync.Flag(command.Rare),
			&cli.BoolFlag{Name: "show-output", Category: command.Rare, Usage: "print the agent's output during its turns", Destination: &c.showOutput},
		}, c.driverFlags.flags("the socket of the Ash bridge is `FILE`; a COMMAND starts the bridge"))...),
		Action: c.action(anyNumber, c.run),
	}
}

func (c *runCall) run() error {
	before, after := command.PositionalsAndRest(c.call.flags)
	if err := checkOrder(after); err != nil {
		return err
	}
	for i, word := range before {
		if isProject := i == 0 && word != "" && word[0] != '.' && !strings.Contains(word, "/"); !isProject && len(after) == 0 {
			return failure.Usagef("unexpected argument %s", visible.Quote(word)).WithHint(afterDashes)
		}
	}
	if err := c.place.TakeProject(before); err != nil {
		return err
	}
	err := c.with(nil, func(w *mailbox.Workspace) error { return c.runAgent(w, after) })
	if unknown, ok := errors.AsType[*project.UnknownProjectError](err); ok && len(before) > 0 && len(after) == 0 {
		err = failure.WithHint(err, spelling.DidYouMean(unknown.Known, unknown.Project, afterDashes))
	}
	return err
}

// settings returns the settings of the agent. The flags and the command replace them.
func (c *runCall) settings(w *mailbox.Workspace, name schema.AgentName, command []string) (settings turn.Settings, err error) {
	if settings, err = turn.LoadSettings(w, name); err != nil {
		return settings, err
	}
	override(&settings.MaxAttempts, c.maxAttempts)
	override(&settings.Parallel, c.parallel)
	override(&settings.MaxTurns, c.maxTurns)
	override(&settings.MaxPairTurns, c.maxPairTurns)
	override(&settings.MaxHops, c.maxHops)
	override(&settings.Timeout, c.timeout)
	override(&settings.Input, c.input)
	override(&settings.Autonomy, c.autonomy)
	override(&settings.Claim, c.claim)
	if c.given(&c.reply) {
		settings.Reply = c.reply
	}
	if c.given(&c.steer) {
		settings.Steer = c.steer
	}
	if len(c.allowFrom) > 0 {
		settings.AllowFrom = c.allowFrom
	}
	if err := settings.CheckClaims(); err != nil {
		return settings, failure.Usagef("--%w", err)
	}
	if err := c.override(c.call, &settings, c.socket, command); err != nil {
		return settings, err
	}
	if settings.Driver == "acp" && len(settings.Command) == 0 {
		p := agent.FindProgram(string(name))
		if p == nil || p.Driver != "acp" {
			return settings, failure.Usagef("no command is given for %s, and no program of this name is known to speak the Agent Client Protocol", name).
				WithHint("give a command after --; oacp agents lists the programs that are known")
		}
		settings.Command = p.Command
	}
	return settings, nil
}

// override replaces a setting by the value of a flag, unless that is missing.
func override[T comparable](setting *T, flag T) { *setting = cmp.Or(flag, *setting) }

func (c *runCall) runAgent(w *mailbox.Workspace, words []string) error {
	synchronizer, err := c.synchronizer(w)
	if err != nil {
		return err
	}
	name, err := client.Viewer(w, c.agent, c.Caller())
	if err != nil {
		return err
	}
	if err := project.CheckProgram(w, name); err != nil {
		return err
	}
	settings, err := c.settings(w, name, words)
	if err != nil {
		return err
	}
	if settings.Unsigned {
		c.Warn(fmt.Sprintf("the section run of workspace.json does not count: the settings of %s are signed, and the signature does not cover it", name))
	}
	claimsByDefault(c.ctx, w, &settings, synchronizer != nil)
	if settings.Claim != "" && synchronizer == nil { // other machines must see claims and answers
		if synchronizer, err = command.UsualSync(c.ctx, c.Streams, w); err != nil {
			return err
		}
	}
	settings.MCP = oacpTools(c.Streams, settings.Driver, "--agent", string(name), "--dir", w.Dir())
	config, err := settings.Config(name)
	if failure.Of(err).Code == "not_allowed" {
		return err
	}
	if err != nil {
		return failure.Usagef("%w", err).WithHint("give a command after --, or a --driver, or set one under run: in agents/" + string(name) + "/config.yaml")
	}
	c.noteCommand(settings.Command)
	config.Once = c.once
	config.Contract = func(ctx context.Context, answer *schema.Message) (permanent bool, err error) {
		err = client.CheckText(ctx, w, answer, validate.Source{})
		code := failure.Of(err).Code
		return code == "invalid_message" || code == "secret", err
	}
	if names, err := contract.Names(w.Root(), w.Dir()); err != nil || config.Reply && len(names) > 0 && sibling.Find("contract") == "" {
		return cmp.Or(err, error(contract.ErrNotInstalled)) // after a turn it would be too late
	}
	if err := checkNoSession(w, name); err != nil {
		return err
	}
	printer := &runPrinter{runCall: c}
	config.Observe = printer.print
	var runner *turn.Runner
	var sessionErr error
	config.Ready = func() {
		// A session that began before the runner locked the inbox does not know about the runner.
		if sessionErr = checkNoSession(w, name); sessionErr != nil {
			runner.Finish()
		} else if !config.Once && !c.asJSON {
			c.Note(waitingText(name, &settings))
		}
	}
	if err := openClaims(c.call, w, &settings, &config); err != nil {
		return err
	}
	if runner, err = turn.New(w, config); err != nil {
		return err
	}
	printer.gone = runner.Finish
	defer command.OutliveOutput()()
	defer c.catchSignals()()
	defer c.notify(config.Once, true, w)()
	err = synchronizer.Around(c.ctx, config.Once, func() error { return runner.Run(c.ctx) })
	err = errors.Join(err, sessionErr, printer.err)
	if err == nil && config.Once && !c.asJSON && !printer.printed {
		c.Note(fmt.Sprintf("there was nothing to do in the inbox of %s", name))
	}
	return err
}

// waitingText describes what a runner waits for and what it does with a message.
func waitingText(name schema.AgentName, settings *turn.Settings) string {
	var what string
	switch settings.Driver {
	case "ash":
		what = "goes to the Ash bridge " + cmp.Or(settings.Socket, visible.ShellCommand(settings.Command...))
	case "claude", "codex", "acp":
		program := settings.Driver
		if len(settings.Command) > 0 {
			program = visible.ShellCommand(settings.Command...)
		}
		what = fmt.Sprintf("is a turn of %s with --allow %s", program, cmp.Or(settings.Allow, agent.PermitOwn))
	case "echo":
		what = "is echoed"
	default:
		what = "starts " + visible.ShellCommand(settings.Command...)
	}
	text := fmt.Sprintf("waiting for mail to %s, ^C stops; each message %s", name, what)
	if !settings.Reply {
		text += "; without --reply its output is not sent back"
	}
	return text
}

// checkNoSession returns an error if the agent has live sessions. They get its mail, too, so a message would
// be handled twice.
func checkNoSession(w *mailbox.Workspace, name schema.AgentName) error {
	err := live.CheckNone(w, name)
	if _, ok := errors.AsType[*live.SessionsError](err); ok {
		return &failure.Error{Code: "live_session", Hint: "close the session, or use another agent for the runner; oacp live lists sessions", Err: err}
	}
	return err
}

// claimsByDefault makes a runner that syncs make claims, unless the settings say otherwise: two machines that
// run one agent without them answer its mail twice.
func claimsByDefault(ctx context.Context, w *mailbox.Workspace, settings *turn.Settings, synced bool) {
	if settings.Claim == turn.ClaimNone {
		settings.Claim = ""
		return
	}
	if settings.Claim != "" || !synced {
		return
	}
	if repository, err := gitmail.Open(ctx, w); err == nil && repository.Settings().URL != "" {
		settings.Claim = turn.ClaimGit
	}
}

// openClaims sets the claims of a configuration if the settings ask for some.
func openClaims(c *call, w *mailbox.Workspace, settings *turn.Settings, config *turn.Config) error {
	if settings.Claim == "" {
		return nil
	}
	repository, err := gitmail.Open(c.ctx, w)
	if err != nil {
		return err
	}
	options := command.SyncOptions(w)
	if config.Once {
		options.Waiting = c.NoteWaiting
	}
	config.Claims, err = repository.NewClaims(c.ctx, config.Agent, settings.Lease, options)
	return err
}
