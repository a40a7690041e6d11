package pair

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/mattn/go-shellwords"

	"github.com/oacp-go/oacp/bridge"
)

// Agent is one of the two agents of a pair.
type Agent string

// The agents, by the names they have in the bridge.
const (
	Claude Agent = "claude"
	Codex  Agent = "codex"
)

// Other returns the other agent of the pair.
func (a Agent) Other() Agent {
	if a == Claude {
		return Codex
	}
	return Claude
}

func (a Agent) known() bool { return a == Claude || a == Codex }

// Review says who reviews the work.
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

// Settings are what a run is about. They are kept in its manifest.
type Settings struct {
	// Prompt is the task.
	Prompt string
	// Agent is the worker; empty means DefaultAgent.
	Agent Agent
	// Review says who reviews; empty means DefaultReview.
	Review Review
	// MaxIterations is after how many iterations the run fails, 1 to 1000;
	// zero means DefaultMaxIterations.
	MaxIterations int
	// Proof is the command that must succeed, as ParseCommands reads it; empty
	// means none.
	Proof string
	// Done is the word that is DONE in answers; empty means DONE.
	Done string
	// Worktree asks for a git worktree of the run's own.
	Worktree bool
}

const (
	maxIterations = 1000
	maxPrompt     = 1 << 20 // bytes
	maxDone       = 200     // characters
)

// complete fills in the defaults and checks the result. The error names the
// setting.
func (s Settings) complete() (Settings, error) {
	if s.Agent == "" {
		s.Agent = DefaultAgent
	}
	if s.Review == "" {
		s.Review = DefaultReview
	}
	if s.MaxIterations == 0 {
		s.MaxIterations = DefaultMaxIterations
	}
	if s.Done == "" {
		s.Done = string(bridge.SignalDone)
	}
	return s, s.check()
}

func (s Settings) check() error {
	_, proofErr := ParseCommands(s.Proof)
	switch {
	case strings.TrimSpace(s.Prompt) == "":
		return errors.New("prompt: there is no task")
	case len(s.Prompt) > maxPrompt || !utf8.ValidString(s.Prompt):
		return fmt.Errorf("prompt: a task is UTF-8 of at most %d bytes", maxPrompt)
	case !s.Agent.known():
		return fmt.Errorf("agent: %q is neither claude nor codex", s.Agent)
	case s.reviewers() == nil && s.Review != ReviewNone:
		return fmt.Errorf("review: %q is not claude, codex, claudex or none", s.Review)
	case s.MaxIterations < 1 || s.MaxIterations > maxIterations:
		return fmt.Errorf("max_iterations: %d is not between 1 and %d", s.MaxIterations, maxIterations)
	case proofErr != nil:
		return fmt.Errorf("proof: %w", proofErr)
	}
	return checkDone(s.Done)
}

func checkDone(word string) error {
	switch {
	case word == string(bridge.SignalPass) || word == string(bridge.SignalFail):
		return fmt.Errorf("done_signal: %s is a word of the review", word)
	case !utf8.ValidString(word) || utf8.RuneCountInString(word) > maxDone || lastLine(word) != word:
		return fmt.Errorf("done_signal: %q is not one line of at most %d characters without white space around it", word, maxDone)
	}
	return nil
}

// reviewers lists who reviews, in order.
func (s Settings) reviewers() []Agent {
	switch s.Review {
	case ReviewClaude, ReviewCodex:
		return []Agent{Agent(s.Review)}
	case ReviewClaudex:
		return []Agent{s.Agent.Other(), s.Agent}
	}
	return nil
}

// agents lists who takes part.
func (s Settings) agents() []Agent {
	for _, reviewer := range s.reviewers() {
		if reviewer != s.Agent {
			return []Agent{s.Agent, reviewer}
		}
	}
	return []Agent{s.Agent}
}

// ParseCommands reads a command, or several that are joined by && and must all
// succeed, in that order. Words are separated and quoted as in a shell, but no
// shell is involved: variables, patterns and substitutions are plain text, and
// what only a shell can do, such as a pipe or a redirection, is an error. So is
// a line break outside of quotes, which is a new command to a shell. An empty
// text is no command.
func ParseCommands(text string) ([][]string, error) {
	text = strings.TrimSpace(text)
	if text == "" {
		return nil, nil
	}
	if breaksLine(text) {
		return nil, fmt.Errorf("%q stands on several lines: join commands by &&, or put them into a script", text)
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
		// The parser stops at whatever a shell would act upon.
		runes := []rune(rest)
		operator := string(runes[parser.Position:])
		if rest, _ = strings.CutPrefix(operator, "&&"); rest == operator {
			return nil, fmt.Errorf("%q needs a shell for what follows from %.20q, and there is none: quote it, or put it into a script", text, operator)
		}
	}
}

// breaksLine reports whether a text has a line break outside of quotes.
func breaksLine(text string) bool {
	var quote rune
	escaped := false
	for _, c := range text {
		switch {
		case quote == 0 && (c == '\n' || c == '\r'):
			return true
		case escaped:
			escaped = false
		case c == '\\' && quote != '\'':
			escaped = true
		case c == quote:
			quote = 0
		case quote == 0 && (c == '\'' || c == '"'):
			quote = c
		}
	}
	return false
}

// Check returns what Create would say of the settings. The error names the
// setting.
func (s Settings) Check() error {
	_, err := s.forNewRun()
	return err
}

// forNewRun is complete for a run that begins here and now.
func (s Settings) forNewRun() (Settings, error) {
	s, err := s.complete()
	if err != nil {
		return s, err
	}
	if err := findProof(s.Proof); err != nil {
		return s, fmt.Errorf("proof: %w", err)
	}
	return s, nil
}
