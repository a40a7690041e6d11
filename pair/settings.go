package pair

import (
	"cmp"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/mattn/go-shellwords"

	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/internal/visible"
)

// Agent is one of the two agents of a pair.
type Agent string

// The agents, by their names in the bridge.
const (
	Claude Agent = "claude"
	Codex  Agent = "codex"
)

// other returns the other agent of the pair.
func (a Agent) other() Agent {
	if a == Claude {
		return Codex
	}
	return Claude
}

// Review is a review mode.
type Review string

// The review modes. ReviewNone is a run of one agent.
const (
	ReviewClaude  Review = "claude"
	ReviewCodex   Review = "codex"
	ReviewClaudex Review = "claudex" // both, the worker last; both must pass
	ReviewNone    Review = "none"
)

// Defaults of Settings, which are AgentPair's, and of a session.
const (
	DefaultAgent         = Codex
	DefaultReview        = ReviewClaudex
	DefaultMaxIterations = 20
	DefaultTimeout       = 2 * time.Hour
	DefaultProofTimeout  = 10 * time.Minute
)

// Settings describe a run. Its manifest stores them.
type Settings struct {
	// Prompt is the task.
	Prompt string
	// Agent is the worker; empty means DefaultAgent.
	Agent Agent
	// Review says who reviews; empty means DefaultReview.
	Review Review
	// MaxIterations is the number of iterations after which the run fails, 1 to 1000; zero means
	// DefaultMaxIterations.
	MaxIterations int
	// Proof is the command that must succeed, in the syntax of ParseCommands; empty means none.
	Proof string
	// Done is the word that means DONE in answers; empty means DONE.
	Done string
	// Worktree asks for a git worktree for this run.
	Worktree bool
}

const (
	maxIterations = 1000
	maxPrompt     = 1 << 20 // bytes
	maxDone       = 200     // characters
)

// Check returns the error that Create would return for the settings, or an error if the program of the
// proof is missing. The error names the setting.
func (s Settings) Check() error {
	s, err := s.complete()
	if err != nil {
		return err
	}
	commands, _ := ParseCommands(s.Proof) // complete has checked it
	// The worker may create a program that is named by a path, but not one in PATH.
	for _, command := range commands {
		if _, err := exec.LookPath(command[0]); err != nil && filepath.Base(command[0]) == command[0] {
			return fmt.Errorf("proof: there is no program %s in PATH", command[0])
		}
	}
	return nil
}

// complete fills in the defaults and checks the result. The error names the setting.
func (s Settings) complete() (Settings, error) {
	s.Agent = cmp.Or(s.Agent, DefaultAgent)
	s.Review = cmp.Or(s.Review, DefaultReview)
	s.MaxIterations = cmp.Or(s.MaxIterations, DefaultMaxIterations)
	s.Done = cmp.Or(s.Done, string(bridge.SignalDone))
	return s, s.check()
}

func (s Settings) check() error {
	_, proofErr := ParseCommands(s.Proof)
	switch {
	case strings.TrimSpace(s.Prompt) == "":
		return errors.New("prompt: the task is empty")
	case len(s.Prompt) > maxPrompt || !utf8.ValidString(s.Prompt):
		return fmt.Errorf("prompt: a task is UTF-8 of at most %d bytes", maxPrompt)
	case s.Agent != Claude && s.Agent != Codex:
		return fmt.Errorf("agent: %q is neither claude nor codex", s.Agent)
	case s.reviewers() == nil && s.Review != ReviewNone:
		return fmt.Errorf("review: %q is not claude, codex, claudex or none", s.Review)
	case s.MaxIterations < 1 || s.MaxIterations > maxIterations:
		return fmt.Errorf("max_iterations: %d is not between 1 and %d", s.MaxIterations, maxIterations)
	case proofErr != nil:
		return fmt.Errorf("proof: %w", proofErr)
	case s.Done == string(bridge.SignalPass) || s.Done == string(bridge.SignalFail):
		return fmt.Errorf("done_signal: %s is a word of the review", s.Done)
	case !utf8.ValidString(s.Done) || utf8.RuneCountInString(s.Done) > maxDone || lastLine(s.Done) != s.Done:
		return fmt.Errorf("done_signal: %q is not one line of at most %d characters without outer white space", s.Done, maxDone)
	}
	return nil
}

// reviewers lists the reviewers in order.
func (s Settings) reviewers() []Agent {
	switch s.Review {
	case ReviewClaude, ReviewCodex:
		return []Agent{Agent(s.Review)}
	case ReviewClaudex:
		return []Agent{s.Agent.other(), s.Agent}
	}
	return nil
}

// agents lists the agents of the run, the worker first.
func (s Settings) agents() []Agent {
	if other := s.Agent.other(); slices.Contains(s.reviewers(), other) {
		return []Agent{s.Agent, other}
	}
	return []Agent{s.Agent}
}

// MayRun returns the shell commands that an agent may run to see whether the proof succeeds: the whole
// proof and each of its commands.
func (s Settings) MayRun() []string {
	commands, err := ParseCommands(s.Proof)
	if err != nil || len(commands) == 0 {
		return nil
	}
	var texts []string
	for _, command := range commands {
		texts = append(texts, visible.ShellCommand(command...))
	}
	return append([]string{strings.Join(texts, " && ")}, texts...)
}

// proofText returns the proof, which must exist, as a shell command.
func (s Settings) proofText() string { return s.MayRun()[0] }

// ParseCommands parses a command, or several joined by &&. It splits and quotes words as a shell
// does, but leaves variables, patterns and substitutions alone. It returns an error for what needs
// a shell, such as a pipe, a redirection or a line break outside quotes. An empty text is no
// command.
func ParseCommands(text string) ([][]string, error) {
	text = strings.TrimSpace(text)
	if text == "" {
		return nil, nil
	}
	quoted := regexp.MustCompile(`\\[^\r\n]|'[^']*'|"(\\.|[^"\\])*"`)
	if strings.ContainsAny(quoted.ReplaceAllString(text, ""), "\r\n") {
		return nil, fmt.Errorf("%q has several lines: join commands with &&, or use a script", text)
	}
	var commands [][]string
	for rest := text; ; {
		parser := shellwords.NewParser()
		words, err := parser.Parse(rest)
		switch {
		case err != nil:
			return nil, fmt.Errorf("reading %q: %w", text, err)
		case len(words) == 0:
			return nil, fmt.Errorf("%q lacks a command", text)
		}
		commands = append(commands, words)
		if parser.Position < 0 {
			return commands, nil
		}
		// The parser stops at the first shell operator.
		operator := string([]rune(rest)[parser.Position:])
		var joined bool
		if rest, joined = strings.CutPrefix(operator, "&&"); !joined {
			return nil, fmt.Errorf("%q needs a shell from %.20q on: quote it, or use a script", text, operator)
		}
	}
}
