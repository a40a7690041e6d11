package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/agent"
	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/pair"
)

type pairOptions struct {
	workspace command.Workspace
	log       command.BridgeLog
	config    pair.Config
	session   string
	follow    string
	allow     string
	mailbox   bool
	json      bool

	resumed      bool
	proofTimeout time.Duration
	// maxIterations is a new bound for a run that is resumed, or 0.
	maxIterations int
	// commands replace agents.
	commands map[pair.Agent][]string
	// repeated are the flags with which to resume the run, inTmux those with which another process
	// drives it in a tmux session; there pane is set.
	repeated, inTmux []string
	pane             bool
}

func newPairCommand(s *command.Streams) *cli.Command {
	var o pairOptions
	return &cli.Command{
		Name:      "pair",
		Category:  command.CategoryTurns,
		Usage:     "let one agent work and others review",
		ArgsUsage: "[PROMPT]",
		Description: `One agent works on the task. When it says DONE and the proof, if any, succeeds, the
reviewers say PASS or FAIL, and the work repeats until all pass. If the command stops
for any reason, oacp pair --run-id NUMBER continues the run. If PROMPT is -, pair reads
standard input.

A proof is a command, or several joined by &&, and runs without a shell.
~/.agentpair/config.yaml sets the defaults of flags.

EXAMPLES:
   oacp pair "Fix the failing test" --proof "go test ./..."
   oacp pair --agent claude --review codex --worktree "Add rate limiting"
   oacp pair --tmux --proof "make test" - <task
   oacp pair --run-id 3`,
		Flags:       o.flags(),
		Subcommands: []*cli.Command{newPairListCommand(s), newPairRemoveCommand(s)},
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
	return append([]cli.Flag{
		&cli.StringFlag{Name: "prompt", Category: command.Rare, Aliases: []string{"p"}, Usage: "the task is `TEXT`", Destination: &o.config.Prompt},
		&cli.StringFlag{Name: "agent", Aliases: []string{"a"}, Usage: "the worker is `AGENT`, claude or codex", DefaultText: string(pair.DefaultAgent)},
		&cli.StringFlag{Name: "review", Usage: "the reviewer is `WHO`: claude, codex, claudex (both must pass), or none", DefaultText: string(pair.DefaultReview)},
		&cli.IntFlag{Name: "max-iterations", Category: command.Rare, Aliases: []string{"m"}, Usage: "give up after `N` iterations", DefaultText: fmt.Sprint(pair.DefaultMaxIterations)},
		&cli.StringSliceFlag{Name: "proof", Usage: "DONE counts only if `COMMAND` succeeds; may be repeated"},
		&cli.StringFlag{Name: "done", Category: command.Rare, Usage: "the worker says `WORD` instead of DONE", DefaultText: string(bridge.SignalDone)},
		&cli.BoolFlag{Name: "claude-only", Category: command.Rare, Usage: "claude works alone"},
		&cli.BoolFlag{Name: "codex-only", Category: command.Rare, Usage: "codex works alone"},
		&cli.BoolFlag{Name: "worktree", Usage: "work in a new git worktree, and keep it if it has changes"},
		&cli.BoolFlag{Name: "tmux", Usage: "run in a tmux session that shows the agents side by side"},
		&cli.BoolFlag{Name: "tmux-pane", Hidden: true, Destination: &o.pane},
		&cli.StringFlag{Name: "follow", Category: command.Rare, Usage: "only print the output of `AGENT` in a run until it stops", Destination: &o.follow},
		&cli.IntFlag{Name: "run-id", Usage: "continue the run `NUMBER`", Destination: &o.log.RunID, DefaultText: "a new one"},
		&cli.StringFlag{Name: "session", Category: command.Rare, Usage: "continue the run in which an agent has the session `ID`", Destination: &o.session},
		&cli.StringFlag{Name: "timeout", Usage: "stop after `TIME`; the run can be continued", DefaultText: pair.DefaultTimeout.String()},
		&cli.StringFlag{Name: "proof-timeout", Category: command.Rare, Usage: "stop a proof after `TIME`", DefaultText: pair.DefaultProofTimeout.String()},
		&cli.BoolFlag{Name: "mailbox", Category: command.Rare, Usage: "give the agents their mail, and copy their messages to their mailboxes", Destination: &o.mailbox},
		&cli.BoolFlag{Name: "verbose", Category: command.Rare, Aliases: []string{"v"}, Usage: "print what the agents say and which tools they call"},
		&cli.StringFlag{Name: "repo", Category: command.Rare, Usage: "work in the repository `DIR` (default: the one around the current folder)", Destination: &o.log.Repository},
		&cli.StringFlag{Name: "runs-dir", Category: command.Rare, Usage: "runs are below `DIR` (default $OACP_RUNS, then ~/.agentpair/runs)", Destination: &o.log.RunsDir},
		command.JSONFlag(&o.json),
		&cli.StringFlag{Name: "allow", Usage: "let agents do without asking what `PERMISSION` says: " + permissionSummary, Value: string(agent.PermitEdits), Destination: &o.allow},
		&cli.StringFlag{Name: "claude-command", Category: command.Rare, Usage: "run `COMMAND` for each turn of claude: its input is the prompt, its output the answer"},
		&cli.StringFlag{Name: "codex-command", Category: command.Rare, Usage: "run `COMMAND` for each turn of codex"},
	}, o.workspace.Flags()...)
}

// take combines the command line with the settings file.
func (o *pairOptions) take(c *cli.Context, s *command.Streams) error {
	o.resumed = c.IsSet("run-id") || o.session != ""
	if err := o.check(c); err != nil {
		return err
	}
	if o.follow != "" {
		return nil
	}
	o.repeated = flagsToRepeat(c)
	o.inTmux = flagsToRepeat(c, "tmux", "verbose", "json", "repo", "runs-dir")
	root, err := bridge.DefaultRoot()
	if err != nil {
		return err
	}
	config, err := pair.LoadConfig(filepath.Dir(root))
	if err != nil {
		return err
	}
	config.Prompt = o.config.Prompt
	if rest := command.Positionals(c); len(rest) > 0 {
		config.Prompt = rest[0]
	}
	if config.Prompt == "-" {
		if config.Prompt, err = readInput("-", s); err != nil {
			return err
		}
		config.Prompt = strings.TrimRight(config.Prompt, "\r\n")
	}
	o.config = config
	if err = o.merge(c); err == nil && o.pane {
		o.config.Tmux, o.config.Verbose = false, false // the agents have panes of their own
	}
	if err == nil && !o.resumed {
		err = o.config.Check()
	}
	if err != nil {
		return failure.Usagef("%w", err).WithHint("see oacp help pair")
	}
	return nil
}

// keptByRun are the flags that a run keeps, or that name it.
var keptByRun = []string{"agent", "review", "proof", "done", "claude-only", "codex-only", "worktree"}

// check returns an error for flags that are mutually exclusive.
func (o *pairOptions) check(c *cli.Context) error {
	rest := command.Positionals(c)
	_, after := command.PositionalsAndRest(c)
	alone := c.Bool("claude-only") || c.Bool("codex-only")
	switch {
	case len(rest) > 1 && len(after) > 0:
		return failure.Usagef("unexpected argument %s", visible.Quote(after[0])).
			WithHint("pair runs claude and codex; --claude-command and --codex-command name other commands")
	case len(rest) > 1:
		return failure.Usagef("unexpected argument %s", visible.Quote(rest[1])).WithHint("put the task into quotes")
	case len(rest) == 1 && o.config.Prompt != "":
		return failure.Usagef("the task is given twice")
	case c.IsSet("run-id") && o.log.RunID < 1:
		return failure.Usagef("--run-id: runs are numbered from 1")
	case c.IsSet("run-id") && o.session != "":
		return failure.Usagef("--run-id and --session both name a run")
	case c.Bool("claude-only") && c.Bool("codex-only"):
		return failure.Usagef("--claude-only and --codex-only are mutually exclusive")
	case alone && (c.IsSet("agent") || c.IsSet("review")):
		return failure.Usagef("--agent and --review exclude --claude-only and --codex-only")
	case o.resumed && (len(rest) > 0 || o.config.Prompt != ""):
		return failure.Usagef("a run that is resumed already has its task")
	case o.follow != "" && o.follow != string(pair.Claude) && o.follow != string(pair.Codex):
		return failure.Usagef("--follow: %s is neither claude nor codex", visible.Quote(o.follow))
	case o.follow != "" && !o.resumed:
		return failure.Usagef("--follow requires --run-id or --session")
	}
	if i := slices.IndexFunc(keptByRun, c.IsSet); o.resumed && i >= 0 {
		return failure.Usagef("--%s: a run that is resumed keeps its settings", keptByRun[i])
	}
	return nil
}

// flagSettings are the flags that replace a setting of the settings file.
var flagSettings = []struct{ flag, setting string }{
	{"agent", "agent"}, {"review", "review_mode"}, {"max-iterations", "max_iterations"}, {"done", "done_signal"},
	{"worktree", "use_worktree"}, {"tmux", "use_tmux"}, {"verbose", "verbose"}, {"timeout", "timeout"},
}

// merge takes the flags, which replace the settings of the file.
func (o *pairOptions) merge(c *cli.Context) (err error) {
	for _, f := range flagSettings {
		if c.IsSet(f.flag) {
			if err := o.config.Set(f.setting, fmt.Sprint(c.Value(f.flag))); err != nil {
				return err
			}
		}
	}
	if c.IsSet("proof") {
		o.config.Proof = strings.Join(c.StringSlice("proof"), " && ")
	}
	if c.IsSet("proof-timeout") {
		if o.proofTimeout, err = pair.ParseTimeout(c.String("proof-timeout")); err != nil {
			return fmt.Errorf("--proof-timeout: %w", err)
		}
	}
	o.maxIterations = c.Int("max-iterations")
	o.commands = make(map[pair.Agent][]string)
	for _, name := range []pair.Agent{pair.Claude, pair.Codex} {
		if o.commands[name], err = parseCommand(c.String(string(name) + "-command")); err != nil {
			return fmt.Errorf("--%s-command: %w", name, err)
		}
		if c.Bool(string(name) + "-only") {
			o.config.Agent, o.config.Review = name, pair.ReviewNone
		}
	}
	return nil
}

// parseCommand parses the only command of a text; an empty text is none.
func parseCommand(text string) ([]string, error) {
	commands, err := pair.ParseCommands(text)
	switch {
	case err != nil || len(commands) == 0:
		return nil, err
	case len(commands) > 1:
		return nil, fmt.Errorf("there is more than one command in %s", visible.Quote(text))
	}
	return commands[0], nil
}

// flagsToRepeat returns the flags with which to resume the run of this command line, without others.
func flagsToRepeat(c *cli.Context, others ...string) []string {
	var words []string
	for _, flag := range c.Command.Flags {
		name := flag.Names()[0]
		if !c.IsSet(name) || slices.Contains(keptByRun, name) ||
			slices.Contains([]string{"prompt", "max-iterations", "run-id", "session", "tmux-pane"}, name) || slices.Contains(others, name) {
			continue
		}
		switch value := c.Value(name); value {
		case true:
			words = append(words, "--"+name)
		case false:
			words = append(words, "--"+name+"=false")
		default:
			words = append(words, "--"+name, fmt.Sprint(value))
		}
	}
	return words
}
