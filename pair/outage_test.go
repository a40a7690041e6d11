package pair

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/oacp-go/oacp/agent"
	"github.com/oacp-go/oacp/internal/testing/gittest"
)

func TestUnavailable(t *testing.T) {
	t.Parallel()
	missing := Options{NewDriver: func(Agent, string, string) agent.Driver {
		return agent.NewExec(agent.Options{Command: []string{"no-such-program-anywhere"}})
	}}
	s := newSession(t, Settings{Prompt: "x"}, missing)
	if err := s.Run(t.Context()); !errors.Is(err, agent.ErrUnavailable) || !strings.Contains(err.Error(), "no-such-program") || s.Manifest().State != Init {
		t.Errorf("error %v in state %s, want ErrUnavailable that names the program, in a run that has not begun", err, s.Manifest().State)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	// Once the program is installed, the run begins.
	var calls []call
	s, err := Resume(s.Place(), lines(t, &calls, "codex: DONE", "claude: PASS", "codex: PASS"))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.Run(t.Context()), s.Close()); err != nil {
		t.Error(err)
	}
	// A failure of the agent itself ends the run.
	s = newSession(t, Settings{Prompt: "x"}, Options{NewDriver: func(Agent, string, string) agent.Driver { return &unstartable{} }})
	var failed *FailedError
	if err := s.Run(t.Context()); !errors.As(err, &failed) || !strings.Contains(err.Error(), "codex: it speaks another protocol") {
		t.Errorf("error %v, want a FailedError", err)
	}
}

// TestOutage checks that a run that has begun survives an agent that cannot be started and a
// service that does not answer, in either agent's turn, also after a restart of the agent. A
// refusal is the agent's failure.
func TestOutage(t *testing.T) {
	t.Parallel()
	overloaded := &agent.APIError{Kind: agent.Failing, Status: 529, Text: "overloaded"}
	refused := &agent.APIError{Kind: agent.Refused, Status: 400, Text: "too long"}
	for _, test := range []struct {
		name string
		// failures are the errors of the agent's turns, nil for success.
		of       Agent
		failures []error
		outside  bool
	}{
		{"not started", Codex, []error{agent.ErrUnavailable}, true},
		{"overloaded", Codex, []error{overloaded}, true},
		{"failing", Codex, []error{&agent.APIError{Kind: agent.Failing, Status: 500}}, true},
		{"reviewer overloaded", Claude, []error{overloaded}, true},
		{"died, then overloaded", Codex, []error{&agent.DiedError{Program: "codex", Err: errors.New("a crash")}, overloaded}, true},
		{"refused", Codex, []error{refused}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			turns := make(map[Agent]int)
			options := scripted(func(c call) (string, error) {
				turns[c.agent]++
				if n := turns[c.agent]; c.agent == test.of && n <= len(test.failures) {
					return "", test.failures[n-1]
				}
				return map[Agent]string{Codex: "DONE", Claude: "PASS"}[c.agent], nil
			})
			s := newSession(t, Settings{Prompt: "x", Review: ReviewClaude}, options)
			err := s.Run(t.Context())
			var failed *FailedError
			if errors.Is(err, agent.ErrUnavailable) != test.outside || errors.As(err, &failed) == test.outside {
				t.Fatalf("error %v, want the run to be left as it is: %v", err, test.outside)
			}
			if err := s.Close(); err != nil || !test.outside {
				return
			}
			if s, err = Resume(s.Place(), options); err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(s.Run(t.Context()), s.Close()); err != nil {
				t.Errorf("resumed when the service is back: %v", err)
			}
		})
	}
}

// TestFolderGone checks that a missing repository or worktree, as on a disk that is not mounted, does
// not end a run.
func TestFolderGone(t *testing.T) {
	t.Parallel()
	for _, worktree := range []bool{false, true} {
		repository := newRepository(t)
		elsewhere := repository + ".elsewhere"
		turns := 0
		options := scripted(func(call) (string, error) {
			if turns++; turns == 1 {
				return "DONE", nil
			}
			return "PASS", nil
		})
		s, err := Create(t.TempDir(), repository, Settings{Prompt: "x", Review: ReviewClaude, Worktree: worktree}, options)
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancelCause(t.Context())
		s.options.Observe = func(e Entry) {
			if e.Type == EntryResult {
				stop(errors.New("enough"))
			}
		}
		if err := s.Run(ctx); err == nil {
			t.Fatal("the run did not stop")
		}
		dir := s.manifest.WorktreePath
		if err := errors.Join(s.Close(), os.Rename(repository, elsewhere), os.RemoveAll(dir)); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if s, err = Resume(s.Place(), options); err != nil {
				t.Fatal(err)
			}
			var failed *FailedError
			if err := s.Run(t.Context()); err == nil || errors.As(err, &failed) {
				t.Errorf("without the repository: error %v, want one that leaves the run as it is", err)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Rename(elsewhere, repository); err != nil {
			t.Fatal(err)
		}
		if worktree {
			gittest.Run(t, repository, "worktree", "add", "--quiet", "--force", dir, "agentpair/run-1")
		}
		if s, err = Resume(s.Place(), options); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(s.Run(t.Context()), s.Close()); err != nil {
			t.Error(err)
		}
	}
}

// TestLostSession checks that an agent that has lost its session gets its turn in a new one.
func TestLostSession(t *testing.T) {
	t.Parallel()
	var sessions []string
	s := newSession(t, Settings{Prompt: "x", Review: ReviewNone}, scripted(func(c call) (string, error) {
		sessions = append(sessions, c.session)
		if c.session == "lost" {
			return "", fmt.Errorf("gone: %w", agent.ErrUnknownSession)
		}
		return "DONE", nil
	}))
	s.manifest.CodexSessionID = "lost"
	if err := s.Run(t.Context()); err != nil {
		t.Error(err)
	}
	if want := []string{"lost", ""}; !reflect.DeepEqual(sessions, want) {
		t.Errorf("turns in the sessions %q, want %q", sessions, want)
	}
}

// TestStopReachesAgentFirst checks that an agent that dies at a shutdown, before this process is
// asked to stop, has not failed and is not restarted.
func TestStopReachesAgentFirst(t *testing.T) {
	t.Parallel()
	enough := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	turns := 0
	s := newSession(t, Settings{Prompt: "x", Review: ReviewNone}, scripted(func(call) (string, error) {
		turns++
		go cancel(enough)
		return "", &agent.DiedError{Program: "codex", Err: errors.New("signal: terminated")}
	}))
	if err := s.Run(ctx); !errors.Is(err, enough) || turns != 1 || s.Manifest().State != Working {
		t.Errorf("error %v after %d turns in state %s, want the cause after 1 in a run that can be resumed", err, turns, s.Manifest().State)
	}
}

func TestTimeout(t *testing.T) {
	t.Parallel()
	s := newSession(t, Settings{Prompt: "x"}, scripted(func(c call) (string, error) {
		<-c.ctx.Done()
		return "", context.Cause(c.ctx)
	}))
	s.options.Timeout = time.Millisecond
	if err := s.Run(t.Context()); !errors.Is(err, ErrTimeout) {
		t.Errorf("error %v, want ErrTimeout", err)
	}
	if m, err := ReadManifest(s.Place()); err != nil || m.State.Final() {
		t.Errorf("state %s, %v; want one that can be resumed", m.State, err)
	}
}
