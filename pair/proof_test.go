package pair

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestProof(t *testing.T) {
	t.Parallel()
	marker := filepath.Join(t.TempDir(), "fixed")
	proof := helperProof(t, "exists", marker)
	t.Run("fails first", func(t *testing.T) {
		var calls []call
		options := lines(t, &calls, "codex: DONE", "codex: DONE", "claude: PASS")
		s := newSession(t, Settings{Prompt: "x", Review: ReviewClaude, Proof: proof}, options)
		s.options.Observe = func(e Entry) {
			if e.Type == EntryIteration && e.Iteration == 2 {
				if err := os.WriteFile(marker, nil, 0o600); err != nil {
					t.Error(err)
				}
			}
		}
		if err := s.Run(t.Context()); err != nil || len(calls) != 3 {
			t.Fatalf("error %v after %d turns, want none after 3", err, len(calls))
		}
		if got := calls[1].request.Prompt; !strings.Contains(got, "FROM proof") || !strings.Contains(got, "there is no file "+marker) {
			t.Errorf("the worker's prompt does not say how the proof failed:\n%s", got)
		}
		if got := calls[2].request.Prompt; !strings.Contains(got, "This command has succeeded") {
			t.Errorf("the reviewer's prompt does not mention the proof:\n%s", got)
		}
	})
	t.Run("broken by the reviewer", func(t *testing.T) {
		made := filepath.Join(t.TempDir(), "made")
		var s *Session
		var prompts []string
		s = newSession(t, Settings{Prompt: "x", Review: ReviewClaude, Proof: helperProof(t, "exists", made)}, scripted(func(c call) (string, error) {
			prompts = append(prompts, c.request.Prompt)
			if c.agent == Codex {
				return "DONE", os.WriteFile(made, nil, 0o600)
			}
			if len(prompts) == 2 {
				return "PASS", os.Remove(made)
			}
			return "PASS", nil
		}))
		proofs := 0
		s.options.Observe = func(e Entry) {
			if e.Type == EntryProof {
				proofs++
			}
		}
		if err := s.Run(t.Context()); err != nil || len(prompts) != 4 || proofs != 4 {
			t.Fatalf("error %v after %d turns and %d proofs, want none after 4 and 4", err, len(prompts), proofs)
		}
		if !strings.Contains(prompts[2], "there is no file "+made) {
			t.Errorf("the worker's prompt does not say how the proof failed after the review:\n%s", prompts[2])
		}
	})
	t.Run("PASS without DONE", func(t *testing.T) {
		var calls []call
		s := newSession(t, Settings{Prompt: "x", Review: ReviewClaude, Proof: helperProof(t, "exists", marker+".not"), MaxIterations: 1},
			lines(t, &calls, "codex: a step", "claude: PASS"))
		var failed *FailedError
		if err := s.Run(t.Context()); !errors.As(err, &failed) || len(calls) != 2 {
			t.Errorf("error %v after %d turns, want a FailedError after 2", err, len(calls))
		}
	})
	for name, command := range map[string]string{
		"never ends":  helperProof(t, "hang"),
		"is missing":  "./no-such-program",
		"second of 2": helperProof(t, "exists", os.Args[0]) + " && " + helperProof(t, "exists", "nowhere"),
	} {
		t.Run(name, func(t *testing.T) {
			var calls []call
			s := newSession(t, Settings{Prompt: "x", Review: ReviewNone, Proof: command, MaxIterations: 1}, lines(t, &calls, "codex: DONE"))
			if name == "never ends" {
				s.options.ProofTimeout = 50 * time.Millisecond
			}
			var failed *FailedError
			if err := s.Run(t.Context()); !errors.As(err, &failed) {
				t.Errorf("error %v, want a FailedError", err)
			}
			got := strings.Join(records(t, s), "\n")
			if !strings.Contains(got, "result proof>codex the proof ") || strings.Contains(got, "agent") {
				t.Errorf("the bridge lacks the proof's failure, or the failure mentions an agent:\n%s", got)
			}
			if name == "is missing" && !strings.Contains(got, "it cannot be run") {
				t.Errorf("the message does not say that the program is missing:\n%s", got)
			}
		})
	}
}
