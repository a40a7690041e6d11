package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/pair"
)

type pairOptions struct {
	workspace  command.Workspace
	log        command.BridgeLog
	reach      reachOptions
	prompt     string
	session    string
	follow     string
	claudeOnly bool
	codexOnly  bool
	mailbox    bool
	json       bool

	// What follows is taken from the settings where no flag says it.
	settings     pair.Settings
	resumed      bool
	verbose      bool
	tmux         bool
	timeout      time.Duration
	proofTimeout time.Duration
	// most is a new bound for a run that is resumed.
	most int
	// again are the flags with which the run is to be gone on with.
	again []string
}

func newPairCommand(s *command.Streams) *cli.Command {
	var o pairOptions
	return &cli.Command{
		Name:      "pair",
		Category:  command.CategoryTurns,
		Usage:     "have one agent work on a task and the other review it, until it is done",
		ArgsUsage: "[PROMPT]",
		Description: `The worker works on the task; when it says DONE and the proof, if there is one,
succeeds, the reviewers look at what it did and say PASS or FAIL. That goes on
until all have passed it. What the agents tell each other, and all that they
show, is kept in the run's folder (see oacp help bridge). Whatever stops the
command, oacp pair --run-id NUMBER goes on where it was. A PROMPT of - is read
from standard input.

A proof is a command, or several joined by &&. It never passes through a shell.
What no flag says is taken from ~/.agentpair/config.yaml.

With --mailbox, what the agents tell each other is delivered into their
mailboxes as well, and messages that are sent to them meanwhile reach them with
their next turn.

EXAMPLES:
   oacp pair "Fix the failing test" --proof "go test ./..."
   oacp pair --agent claude --review codex --worktree "Add rate limiting"
   oacp pair --claude-only "Describe the packages in README.md"
   oacp pair --run-id 3`,
		Flags: o.flags(),
		Action: func(c *cli.Context) error {
			if err := o.take(c, s); err != nil {
				return err
			}
			if o.follow != "" {
				return runPairFollow(c.Context, o, s)
			}
			return runPair(c.Context, o, s)
		},
	}
}

func (o *pairOptions) flags() []cli.Flag {
	flags := []cli.Flag{
		&cli.StringFlag{Name: "prompt", Aliases: []string{"p"}, Usage: "the task is `TEXT`", Destination: &o.prompt},
		&cli.StringFlag{Name: "agent", Aliases: []string{"a"}, Usage: "`AGENT` works, claude or codex", DefaultText: string(pair.DefaultAgent)},
		&cli.StringFlag{Name: "review", Usage: "`WHO` reviews: claude, codex, claudex (both must pass), or none", DefaultText: string(pair.DefaultReview)},
		&cli.IntFlag{Name: "max-iterations", Aliases: []string{"m"}, Usage: "give up after `N` iterations", DefaultText: fmt.Sprint(pair.DefaultMaxIterations)},
		&cli.StringSliceFlag{Name: "proof", Usage: "done is done only if `COMMAND` succeeds; may be repeated"},
		&cli.StringFlag{Name: "done", Usage: "the worker says `WORD` for DONE", DefaultText: string(bridge.SignalDone)},
		&cli.BoolFlag{Name: "claude-only", Usage: "claude works alone", Destination: &o.claudeOnly},
		&cli.BoolFlag{Name: "codex-only", Usage: "codex works alone", Destination: &o.codexOnly},
		&cli.BoolFlag{Name: "worktree", Usage: "work in a git worktree of the run's own, which is kept if it holds changes"},
		&cli.BoolFlag{Name: "tmux", Usage: "show the agents side by side in a tmux session"},
		&cli.StringFlag{Name: "follow", Usage: "only print what `AGENT` shows in a run, as it happens, until the run stops", Destination: &o.follow},
		&cli.IntFlag{Name: "run-id", Usage: "go on with the run `NUMBER`", Destination: &o.log.RunID, DefaultText: "a new one"},
		&cli.StringFlag{Name: "session", Usage: "go on with the run in which an agent has the session `ID`", Destination: &o.session},
		&cli.DurationFlag{Name: "timeout", Usage: "stop after `TIME`; the run can be resumed", DefaultText: pair.DefaultTimeout.String()},
		&cli.DurationFlag{Name: "proof-timeout", Usage: "stop a proof after `TIME`", DefaultText: pair.DefaultProofTimeout.String(), Destination: &o.proofTimeout},
		&cli.BoolFlag{Name: "mailbox", Usage: "carry messages between the run and the agents' mailboxes", Destination: &o.mailbox},
		&cli.BoolFlag{Name: "verbose", Aliases: []string{"v"}, Usage: "print what the agents show during their turns"},
		&cli.StringFlag{Name: "repo", Usage: "work in the repository `DIR` (default: the one around the current folder)", Destination: &o.log.Repository},
		&cli.StringFlag{Name: "runs-dir", Usage: "runs are below `DIR` (default $OACP_RUNS, then ~/.agentpair/runs)", Destination: &o.log.RunsDir},
		command.JSONFlag(&o.json),
	}
	return append(append(flags, o.reach.flags()...), o.workspace.Flags()...)
}

// take reads the settings and what the command line says.
func (o *pairOptions) take(c *cli.Context, s *command.Streams) error {
	o.resumed = c.IsSet("run-id") || o.session != ""
	if err := o.check(c); err != nil {
		return err
	}
	o.again = flagsToRepeat(c)
	if o.follow != "" {
		return nil
	}
	root, err := bridge.DefaultRoot()
	if err != nil {
		return err
	}
	config, err := pair.LoadConfig(filepath.Dir(root))
	if err != nil {
		return err
	}
	if err := o.takePrompt(command.Positionals(c), s); err != nil {
		return err
	}
	o.override(c, config)
	if o.most = 0; c.IsSet("max-iterations") {
		o.most = o.settings.MaxIterations
	}
	if o.resumed {
		return nil
	}
	if err := o.settings.Check(); err != nil {
		return failure.Usagef("%w", err).WithHint("see oacp help pair")
	}
	return nil
}

// takePrompt takes the task, which is on standard input where it is "-".
func (o *pairOptions) takePrompt(rest []string, s *command.Streams) (err error) {
	if len(rest) > 0 {
		o.prompt = rest[0]
	}
	if o.prompt == "-" {
		o.prompt, err = readInput("-", s)
		o.prompt = strings.TrimRight(o.prompt, "\r\n")
	}
	return err
}

// check refuses what the flags cannot mean together.
func (o *pairOptions) check(c *cli.Context) error {
	rest := command.Positionals(c)
	switch {
	case len(rest) > 1:
		return failure.Usagef("unexpected argument %s", visible.Quote(rest[1])).WithHint("put the task into quotes")
	case len(rest) == 1 && o.prompt != "":
		return failure.Usagef("the task is given twice")
	case c.IsSet("run-id") && o.log.RunID < 1:
		return failure.Usagef("--run-id: runs are numbered from 1")
	case c.IsSet("run-id") && o.session != "":
		return failure.Usagef("--run-id and --session both name a run")
	case o.claudeOnly && o.codexOnly:
		return failure.Usagef("--claude-only and --codex-only cannot both be meant")
	case (o.claudeOnly || o.codexOnly) && (c.IsSet("agent") || c.IsSet("review")):
		return failure.Usagef("an agent alone is named already, and nobody reviews, so --agent and --review cannot go with it")
	case o.resumed && (len(rest) > 0 || o.prompt != ""):
		return failure.Usagef("a run that is resumed has its task")
	case c.IsSet("max-iterations") && c.Int("max-iterations") < 1:
		return failure.Usagef("--max-iterations: a run has at least one")
	case o.follow != "" && o.follow != string(pair.Claude) && o.follow != string(pair.Codex):
		return failure.Usagef("--follow: %s is neither claude nor codex", visible.Quote(o.follow))
	case o.follow != "" && !o.resumed:
		return failure.Usagef("--follow goes with --run-id or --session")
	case c.IsSet("timeout") && c.Duration("timeout") <= 0, c.IsSet("proof-timeout") && o.proofTimeout <= 0:
		return failure.Usagef("a timeout is more than nothing")
	}
	if o.resumed {
		for _, name := range []string{"agent", "review", "proof", "done", "claude-only", "codex-only", "worktree"} {
			if c.IsSet(name) {
				return failure.Usagef("--%s: a run that is resumed keeps what it was begun with", name)
			}
		}
	}
	return nil
}

// override puts the flags in the place of the settings.
func (o *pairOptions) override(c *cli.Context, config pair.Config) {
	o.settings = pair.Settings{
		Prompt: o.prompt, Agent: config.Agent, Review: config.Review, MaxIterations: config.MaxIterations,
		Proof: config.Proof, Done: config.Done, Worktree: config.Worktree,
	}
	o.verbose, o.tmux, o.timeout = config.Verbose, config.Tmux, config.Timeout
	switch {
	case o.claudeOnly:
		o.settings.Agent, o.settings.Review = pair.Claude, pair.ReviewNone
	case o.codexOnly:
		o.settings.Agent, o.settings.Review = pair.Codex, pair.ReviewNone
	}
	set := map[string]func(){
		"agent":          func() { o.settings.Agent = pair.Agent(c.String("agent")) },
		"review":         func() { o.settings.Review = pair.Review(c.String("review")) },
		"max-iterations": func() { o.settings.MaxIterations = c.Int("max-iterations") },
		"proof":          func() { o.settings.Proof = strings.Join(c.StringSlice("proof"), " && ") },
		"done":           func() { o.settings.Done = c.String("done") },
		"worktree":       func() { o.settings.Worktree = c.Bool("worktree") },
		"tmux":           func() { o.tmux = c.Bool("tmux") },
		"verbose":        func() { o.verbose = c.Bool("verbose") },
		"timeout":        func() { o.timeout = c.Duration("timeout") },
	}
	for name, take := range set {
		if c.IsSet(name) {
			take()
		}
	}
}
