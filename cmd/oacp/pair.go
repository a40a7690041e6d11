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

// A pairing is a call of oacp pair.
type pairing struct {
	*call
	log    command.BridgeLog
	config pair.Config
	// resumed is set if --run-id names a run.
	resumed bool

	proofTimeout time.Duration
	// commands replace agents.
	commands map[pair.Agent][]string
	// repeated are the flags with which to resume the run.
	repeated []string
}

func newPairCommand(s *command.Streams) *cli.Command {
	return &cli.Command{
		Name:      "pair",
		Category:  command.CategoryTurns,
		Usage:     "let agents work and review",
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
   oacp pair --proof "make test" - <task
   oacp pair --run-id 3`,
		Flags:       pairFlags(),
		Subcommands: []*cli.Command{newPairListCommand(s), newPairRemoveCommand(s)},
		Action: action(s, anyNumber, func(c *call) error {
			p, err := newPairing(c)
			if err != nil {
				return err
			}
			return p.drive()
		}),
	}
}

func pairFlags() []cli.Flag {
	return slices.Concat(inheritFlags(), []cli.Flag{
		&cli.StringFlag{Name: "agent", Aliases: []string{"a"}, Usage: "the worker is `AGENT`, claude or codex", DefaultText: string(pair.DefaultAgent)},
		&cli.StringFlag{Name: "review", Usage: "the reviewer is `WHO`: claude, codex, claudex (both must pass), or none", DefaultText: string(pair.DefaultReview)},
		&cli.IntFlag{Name: "max-iterations", Category: command.Rare, Aliases: []string{"m"}, Usage: "give up after `N` iterations", DefaultText: fmt.Sprint(pair.DefaultMaxIterations)},
		&cli.StringSliceFlag{Name: "proof", Usage: "DONE counts only if `COMMAND` succeeds; may be repeated"},
		&cli.BoolFlag{Name: "worktree", Usage: "work in a new git worktree, and keep it if it has changes"},
		&cli.IntFlag{Name: "run-id", Usage: "continue the run `NUMBER`", DefaultText: "a new one"},
		&cli.StringFlag{Name: "timeout", Usage: "stop after `TIME`; the run can be continued", DefaultText: shortDuration(pair.DefaultTimeout)},
		&cli.StringFlag{Name: "proof-timeout", Category: command.Rare, Usage: "stop a proof after `TIME`", DefaultText: shortDuration(pair.DefaultProofTimeout)},
		&cli.BoolFlag{Name: "verbose", Category: command.Rare, Aliases: []string{"v"}, Usage: "print what the agents say and which tools they call"},
		&cli.StringFlag{Name: "allow", Usage: "`PERMISSION` is what agents " + permissionSummary, Value: string(agent.PermitEdits)},
		&cli.StringFlag{Name: "claude-command", Category: command.Rare, Usage: "run `COMMAND` for each turn of claude: its input is the prompt, its output the answer"},
		&cli.StringFlag{Name: "codex-command", Category: command.Rare, Usage: "run `COMMAND` for each turn of codex"},
		&cli.StringFlag{Name: "driver", Category: command.Rare, Usage: "run these commands with `DRIVER`: exec, or acp for programs that speak ACP and run on", Value: "exec"},
	}, pairRunsFlags())
}

// newPairing combines the command line with the settings file.
func newPairing(c *call) (*pairing, error) {
	p := &pairing{call: c, log: bridgeLog(c), resumed: c.isSet("run-id")}
	if err := p.check(); err != nil {
		return nil, err
	}
	p.repeated = flagsToRepeat(c)
	root, err := bridge.DefaultRoot()
	if err != nil {
		return nil, err
	}
	if p.config, err = pair.LoadConfig(filepath.Dir(root)); err != nil {
		return nil, err
	}
	prompt := ""
	if len(c.words) > 0 {
		prompt = c.words[0]
	}
	if prompt == "-" {
		if prompt, err = readInput("-", c.Streams); err != nil {
			return nil, err
		}
		prompt = strings.TrimRight(prompt, "\r\n")
	}
	p.config.Prompt = prompt
	if err = p.merge(); err == nil && !p.resumed {
		err = p.config.Check()
	}
	if err != nil {
		err = failure.Usagef("%w", err).WithHint("see oacp help pair")
	}
	return p, err
}

// keptByRun are the flags that a run keeps.
var keptByRun = []string{"agent", "review", "proof", "worktree"}

// check returns an error if arguments and flags do not go together.
func (p *pairing) check() error {
	_, after := command.PositionalsAndRest(p.flags)
	switch {
	case len(after) > 0 && len(p.words) > 1:
		return failure.Usagef("unexpected argument %s", visible.Quote(after[0])).
			WithHint("pair runs claude and codex; --claude-command and --codex-command name other commands")
	case len(p.words) > 1:
		return failure.Usagef("unexpected argument %s", visible.Quote(p.words[1])).WithHint("put the task into quotes")
	case p.resumed && p.log.RunID < 1:
		return failure.Usagef("--run-id: runs are numbered from 1")
	case p.resumed && len(p.words) > 0:
		return failure.Usagef("a run that is resumed already has its task")
	}
	if i := slices.IndexFunc(keptByRun, p.isSet); p.resumed && i >= 0 {
		return failure.Usagef("--%s: a run that is resumed keeps its settings", keptByRun[i])
	}
	return nil
}

// flagSettings are the flags that replace a setting of the settings file.
var flagSettings = []struct{ flag, setting string }{
	{"agent", "agent"}, {"review", "review_mode"}, {"max-iterations", "max_iterations"},
	{"worktree", "use_worktree"}, {"verbose", "verbose"}, {"timeout", "timeout"},
}

// merge replaces settings of the file by those of the flags.
func (p *pairing) merge() (err error) {
	for _, f := range flagSettings {
		if p.isSet(f.flag) {
			if err := p.config.Set(f.setting, fmt.Sprint(p.flags.Value(f.flag))); err != nil {
				return err
			}
		}
	}
	if p.isSet("proof") {
		p.config.Proof = strings.Join(p.texts("proof"), " && ")
	}
	if p.isSet("proof-timeout") {
		if p.proofTimeout, err = pair.ParseTimeout(p.text("proof-timeout")); err != nil {
			return fmt.Errorf("--proof-timeout: %w", err)
		}
	}
	p.commands = make(map[pair.Agent][]string)
	for _, name := range []pair.Agent{pair.Claude, pair.Codex} {
		if p.commands[name], err = parseCommand(p.text(string(name) + "-command")); err != nil {
			return fmt.Errorf("--%s-command: %w", name, err)
		}
	}
	return nil
}

// parseCommand parses a text that holds one command, or none.
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

// flagsToRepeat returns the flags with which to resume the run of this command line.
func flagsToRepeat(c *call) []string {
	var words []string
	for _, flag := range c.flags.Command.Flags {
		name := flag.Names()[0]
		if !c.isSet(name) || slices.Contains(keptByRun, name) || name == "max-iterations" || name == "run-id" {
			continue
		}
		switch value := c.flags.Value(name).(type) {
		case bool:
			if words = append(words, "--"+name); !value {
				words[len(words)-1] += "=false"
			}
		case *variables:
			for _, one := range *value {
				words = append(words, "--"+name, one)
			}
		default:
			words = append(words, "--"+name, fmt.Sprint(value))
		}
	}
	return words
}
