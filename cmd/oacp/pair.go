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
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/pair"
	"github.com/oacp-go/oacp/schema"
)

// A pairing is a call of oacp pair.
type pairing struct {
	*call
	log    command.BridgeLog
	config pair.Config
	// resumed is set if flags name a run. follow is the agent of it that is only shown.
	resumed bool
	follow  string

	proofTimeout time.Duration
	// commands replace agents.
	commands map[pair.Agent][]string
	// repeated are the flags with which to resume the run, inTmux those with which another process
	// drives it in a tmux session; there pane is set.
	repeated, inTmux []string
	pane             bool
}

func newPairCommand(s *command.Streams) *cli.Command {
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
		Flags:       pairFlags(),
		Subcommands: []*cli.Command{newPairListCommand(s), newPairRemoveCommand(s)},
		Action: action(s, anyNumber, func(c *call) error {
			p, err := newPairing(c)
			switch {
			case err != nil:
				return err
			case p.follow != "":
				return p.showAgent()
			case !c.isOn("mailbox"):
				return p.drive(nil)
			}
			return c.open(func(_ *call, w *mailbox.Workspace) error {
				for _, name := range []pair.Agent{pair.Claude, pair.Codex} {
					if err := w.CheckAgent(schema.AgentName(name)); err != nil {
						return err
					}
				}
				return p.drive(w)
			})
		}),
	}
}

func pairFlags() []cli.Flag {
	return flagsWith(
		&cli.StringFlag{Name: "prompt", Category: command.Rare, Aliases: []string{"p"}, Usage: "the task is `TEXT`"},
		&cli.StringFlag{Name: "agent", Aliases: []string{"a"}, Usage: "the worker is `AGENT`, claude or codex", DefaultText: string(pair.DefaultAgent)},
		&cli.StringFlag{Name: "review", Usage: "the reviewer is `WHO`: claude, codex, claudex (both must pass), or none", DefaultText: string(pair.DefaultReview)},
		&cli.IntFlag{Name: "max-iterations", Category: command.Rare, Aliases: []string{"m"}, Usage: "give up after `N` iterations", DefaultText: fmt.Sprint(pair.DefaultMaxIterations)},
		&cli.StringSliceFlag{Name: "proof", Usage: "DONE counts only if `COMMAND` succeeds; may be repeated"},
		&cli.StringFlag{Name: "done", Category: command.Rare, Usage: "the worker says `WORD` instead of DONE", DefaultText: string(bridge.SignalDone)},
		&cli.BoolFlag{Name: "claude-only", Category: command.Rare, Usage: "claude works alone"},
		&cli.BoolFlag{Name: "codex-only", Category: command.Rare, Usage: "codex works alone"},
		&cli.BoolFlag{Name: "worktree", Usage: "work in a new git worktree, and keep it if it has changes"},
		&cli.BoolFlag{Name: "tmux", Usage: "run in a tmux session that shows the agents side by side"},
		&cli.BoolFlag{Name: "tmux-pane", Hidden: true},
		&cli.StringFlag{Name: "follow", Category: command.Rare, Usage: "only print the output of `AGENT` in a run until it stops"},
		&cli.IntFlag{Name: "run-id", Usage: "continue the run `NUMBER`", DefaultText: "a new one"},
		&cli.StringFlag{Name: "session", Category: command.Rare, Usage: "continue the run in which an agent has the session `ID`"},
		&cli.StringFlag{Name: "timeout", Usage: "stop after `TIME`; the run can be continued", DefaultText: pair.DefaultTimeout.String()},
		&cli.StringFlag{Name: "proof-timeout", Category: command.Rare, Usage: "stop a proof after `TIME`", DefaultText: pair.DefaultProofTimeout.String()},
		&cli.BoolFlag{Name: "mailbox", Category: command.Rare, Usage: "give the agents their mail, and copy their messages to their mailboxes"},
		&cli.BoolFlag{Name: "verbose", Category: command.Rare, Aliases: []string{"v"}, Usage: "print what the agents say and which tools they call"},
		&cli.StringFlag{Name: "repo", Category: command.Rare, Usage: "work in the repository `DIR` (default: the one around the current folder)"},
		&cli.StringFlag{Name: "runs-dir", Category: command.Rare, Usage: "runs are below `DIR` (default $OACP_RUNS, then ~/.agentpair/runs)"},
		&cli.StringFlag{Name: "allow", Usage: "let agents do without asking what `PERMISSION` says: " + permissionSummary, Value: string(agent.PermitEdits)},
		&cli.StringFlag{Name: "claude-command", Category: command.Rare, Usage: "run `COMMAND` for each turn of claude: its input is the prompt, its output the answer"},
		&cli.StringFlag{Name: "codex-command", Category: command.Rare, Usage: "run `COMMAND` for each turn of codex"})
}

// newPairing combines the command line with the settings file.
func newPairing(c *call) (*pairing, error) {
	p := &pairing{call: c, follow: c.text("follow"), pane: c.isOn("tmux-pane"), resumed: c.isSet("run-id") || c.text("session") != ""}
	p.log = command.BridgeLog{RunID: c.flags.Int("run-id"), Repository: c.text("repo"), RunsDir: c.text("runs-dir")}
	if err := p.check(); err != nil || p.follow != "" {
		return p, err
	}
	p.repeated = flagsToRepeat(c)
	p.inTmux = flagsToRepeat(c, "tmux", "verbose", "json", "repo", "runs-dir")
	root, err := bridge.DefaultRoot()
	if err != nil {
		return nil, err
	}
	if p.config, err = pair.LoadConfig(filepath.Dir(root)); err != nil {
		return nil, err
	}
	prompt := c.text("prompt")
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
	if err = p.merge(); err == nil && p.pane {
		p.config.Tmux, p.config.Verbose = false, false // the agents have panes of their own
	}
	if err == nil && !p.resumed {
		err = p.config.Check()
	}
	if err != nil {
		err = failure.Usagef("%w", err).WithHint("see oacp help pair")
	}
	return p, err
}

// keptByRun are the flags that a run keeps, or that name it.
var keptByRun = []string{"agent", "review", "proof", "done", "claude-only", "codex-only", "worktree"}

// check returns an error for flags that are mutually exclusive.
func (c *pairing) check() error {
	rest := c.words
	_, after := command.PositionalsAndRest(c.flags)
	alone := c.isOn("claude-only") || c.isOn("codex-only")
	switch {
	case len(rest) > 1 && len(after) > 0:
		return failure.Usagef("unexpected argument %s", visible.Quote(after[0])).
			WithHint("pair runs claude and codex; --claude-command and --codex-command name other commands")
	case len(rest) > 1:
		return failure.Usagef("unexpected argument %s", visible.Quote(rest[1])).WithHint("put the task into quotes")
	case len(rest) == 1 && c.text("prompt") != "":
		return failure.Usagef("the task is given twice")
	case c.isSet("run-id") && c.log.RunID < 1:
		return failure.Usagef("--run-id: runs are numbered from 1")
	case c.isSet("run-id") && c.text("session") != "":
		return failure.Usagef("--run-id and --session both name a run")
	case c.isOn("claude-only") && c.isOn("codex-only"):
		return failure.Usagef("--claude-only and --codex-only are mutually exclusive")
	case alone && (c.isSet("agent") || c.isSet("review")):
		return failure.Usagef("--agent and --review exclude --claude-only and --codex-only")
	case c.resumed && (len(rest) > 0 || c.text("prompt") != ""):
		return failure.Usagef("a run that is resumed already has its task")
	case c.follow != "" && c.follow != string(pair.Claude) && c.follow != string(pair.Codex):
		return failure.Usagef("--follow: %s is neither claude nor codex", visible.Quote(c.follow))
	case c.follow != "" && !c.resumed:
		return failure.Usagef("--follow requires --run-id or --session")
	}
	if i := slices.IndexFunc(keptByRun, c.isSet); c.resumed && i >= 0 {
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
func (c *pairing) merge() (err error) {
	for _, f := range flagSettings {
		if c.isSet(f.flag) {
			if err := c.config.Set(f.setting, fmt.Sprint(c.flags.Value(f.flag))); err != nil {
				return err
			}
		}
	}
	if c.isSet("proof") {
		c.config.Proof = strings.Join(c.texts("proof"), " && ")
	}
	if c.isSet("proof-timeout") {
		if c.proofTimeout, err = pair.ParseTimeout(c.text("proof-timeout")); err != nil {
			return fmt.Errorf("--proof-timeout: %w", err)
		}
	}
	c.commands = make(map[pair.Agent][]string)
	for _, name := range []pair.Agent{pair.Claude, pair.Codex} {
		if c.commands[name], err = parseCommand(c.text(string(name) + "-command")); err != nil {
			return fmt.Errorf("--%s-command: %w", name, err)
		}
		if c.isOn(string(name) + "-only") {
			c.config.Agent, c.config.Review = name, pair.ReviewNone
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
func flagsToRepeat(c *call, others ...string) []string {
	var words []string
	for _, flag := range c.flags.Command.Flags {
		name := flag.Names()[0]
		if !c.isSet(name) || slices.Contains(keptByRun, name) ||
			slices.Contains([]string{"prompt", "max-iterations", "run-id", "session", "tmux-pane"}, name) || slices.Contains(others, name) {
			continue
		}
		switch value := c.flags.Value(name); value {
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
