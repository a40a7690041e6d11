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
	inherit inheritFlags
	log     command.BridgeLog
	config  pair.Config
	// resumed is set if --run-id names a run.
	resumed bool

	worker, review, timeout, driver string
	maxIterations                   int
	proof                           cli.StringSlice
	worktree, verbose               bool
	proofTimeout                    time.Duration
	allow                           agent.Permission
	// claude and codex are commands that replace the agents.
	claude, codex []string
	// repeated are the flags with which to resume the run.
	repeated []string
}

func newPairCommand(s *command.Streams) *cli.Command {
	p := &pairing{call: newCall(s), driver: "exec", allow: agent.PermitEdits}
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
		Flags:       p.flags(),
		Subcommands: []*cli.Command{newPairListCommand(s), newPairRemoveCommand(s)},
		Action:      p.action(anyNumber, p.drive),
	}
}

func (p *pairing) flags() []cli.Flag {
	return slices.Concat(p.inherit.flags(), []cli.Flag{
		&cli.StringFlag{Name: "agent", Aliases: []string{"a"}, Usage: "the worker is `AGENT`, claude or codex", DefaultText: string(pair.DefaultAgent), Destination: &p.worker},
		&cli.StringFlag{Name: "review", Usage: "the reviewer is `WHO`: claude, codex, claudex (both must pass), or none", DefaultText: string(pair.DefaultReview), Destination: &p.review},
		&cli.IntFlag{Name: "max-iterations", Category: command.Rare, Aliases: []string{"m"}, Usage: "give up after `N` iterations", DefaultText: fmt.Sprint(pair.DefaultMaxIterations), Destination: &p.maxIterations},
		&cli.StringSliceFlag{Name: "proof", Usage: "DONE counts only if `COMMAND` succeeds; may be repeated", Destination: &p.proof},
		&cli.BoolFlag{Name: "worktree", Usage: "work in a new git worktree, and keep it if it has changes", Destination: &p.worktree},
		&cli.GenericFlag{Name: "run-id", Usage: "continue the run `NUMBER`", DefaultText: "a new one", Value: command.Parsed(&p.log.RunID, command.ParseRunID)},
		&cli.StringFlag{Name: "timeout", Usage: "stop after `TIME`; the run can be continued", DefaultText: shortDuration(pair.DefaultTimeout), Destination: &p.timeout},
		&cli.GenericFlag{Name: "proof-timeout", Category: command.Rare, Usage: "stop a proof after `TIME`", DefaultText: shortDuration(pair.DefaultProofTimeout), Value: command.Parsed(&p.proofTimeout, pair.ParseTimeout)},
		&cli.BoolFlag{Name: "verbose", Category: command.Rare, Aliases: []string{"v"}, Usage: "print what the agents say and which tools they call", Destination: &p.verbose},
		allowFlag(&p.allow, "agents"),
		&cli.GenericFlag{Name: "claude-command", Category: command.Rare, Usage: "run `COMMAND` for each turn of claude: its input is the prompt, its output the answer", Value: command.Parsed(&p.claude, parseCommand)},
		&cli.GenericFlag{Name: "codex-command", Category: command.Rare, Usage: "run `COMMAND` for each turn of codex", Value: command.Parsed(&p.codex, parseCommand)},
		&cli.GenericFlag{Name: "driver", Category: command.Rare, Usage: "run these commands with `DRIVER`: exec, or acp for programs that speak ACP and run on", Value: command.OneOf(&p.driver, "driver", "exec", "acp")},
	}, runsFlags(p.call, &p.log))
}

// prepare combines the command line with the settings file.
func (p *pairing) prepare() error {
	p.resumed = p.log.RunID != 0
	if err := p.check(); err != nil {
		return err
	}
	p.repeated = p.flagsToRepeat()
	root, err := bridge.DefaultRoot()
	if err != nil {
		return err
	}
	if p.config, err = pair.LoadConfig(filepath.Dir(root)); err != nil {
		return err
	}
	prompt := ""
	if len(p.words) > 0 {
		prompt = p.words[0]
	}
	if prompt == "-" {
		if prompt, err = readInput("-", p.Streams); err != nil {
			return err
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
	return err
}

// keptByRun are the flags that a run keeps.
func (p *pairing) keptByRun() []any { return []any{&p.worker, &p.review, &p.proof, &p.worktree} }

// check returns an error if arguments and flags do not go together.
func (p *pairing) check() error {
	_, after := command.PositionalsAndRest(p.call.flags)
	switch {
	case len(after) > 0 && len(p.words) > 1:
		return failure.Usagef("unexpected argument %s", visible.Quote(after[0])).
			WithHint("pair runs claude and codex; --claude-command and --codex-command name other commands")
	case len(p.words) > 1:
		return failure.Usagef("unexpected argument %s", visible.Quote(p.words[1])).WithHint("put the task into quotes")
	case p.resumed && len(p.words) > 0:
		return failure.Usagef("a run that is resumed already has its task")
	}
	if i := slices.IndexFunc(p.keptByRun(), p.given); p.resumed && i >= 0 {
		return failure.Usagef("--%s: a run that is resumed keeps its settings", p.nameOf(p.keptByRun()[i]))
	}
	return nil
}

// merge replaces settings of the file by those of the flags.
func (p *pairing) merge() error {
	for _, f := range []struct {
		setting string
		flag    any
	}{
		{"agent", &p.worker}, {"review_mode", &p.review}, {"max_iterations", &p.maxIterations},
		{"use_worktree", &p.worktree}, {"verbose", &p.verbose}, {"timeout", &p.timeout},
	} {
		if p.given(f.flag) {
			if err := p.config.Set(f.setting, fmt.Sprint(p.call.flags.Value(p.nameOf(f.flag)))); err != nil {
				return err
			}
		}
	}
	if proofs := p.proof.Value(); len(proofs) > 0 {
		p.config.Proof = strings.Join(proofs, " && ")
	}
	return nil
}

// commandOf returns the command that replaces an agent, or nil.
func (p *pairing) commandOf(name pair.Agent) []string {
	if name == pair.Claude {
		return p.claude
	}
	return p.codex
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
func (p *pairing) flagsToRepeat() []string {
	var words []string
	for _, flag := range p.call.flags.Command.Flags {
		name := flag.Names()[0]
		destination := command.Destination(flag)
		if !p.call.flags.IsSet(name) || slices.Contains(append(p.keptByRun(), &p.maxIterations, &p.log.RunID), destination) {
			continue
		}
		switch value := destination.(type) {
		case *bool:
			if words = append(words, "--"+name); !*value {
				words[len(words)-1] += "=false"
			}
		case *variables:
			for _, one := range *value {
				words = append(words, "--"+name, one)
			}
		default:
			words = append(words, "--"+name, fmt.Sprint(p.call.flags.Value(name)))
		}
	}
	return words
}
