package pair

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/oacp-go/oacp/agent"
	"github.com/oacp-go/oacp/bridge"
)

// A script is an agent whose answers are written down beforehand. Both agents
// of a pair share what they are asked.
type script struct {
	name    Agent
	session string
	answer  func(call call) (string, error)
	stopped *int
}

type call struct {
	ctx     context.Context
	agent   Agent
	session string
	request agent.Request
	observe func(agent.Event)
}

func (s *script) Start(context.Context) error     { return nil }
func (s *script) Interrupt(context.Context) error { return nil }
func (s *script) SessionID() string               { return "session of " + string(s.name) }
func (s *script) Stop(context.Context) error {
	if s.stopped != nil {
		*s.stopped++
	}
	return nil
}

func (s *script) Turn(ctx context.Context, request agent.Request, observe func(agent.Event)) (agent.Result, error) {
	text, err := s.answer(call{ctx, s.name, s.session, request, observe})
	return agent.Result{Text: text, SessionID: s.SessionID(), Duration: time.Second}, err
}

// scripted returns options for agents that answer by a function.
func scripted(answer func(call) (string, error)) Options {
	return Options{NewDriver: func(name Agent, _, session string) agent.Driver {
		return &script{name: name, session: session, answer: answer}
	}}
}

// unstartable is an agent that is there and does not work.
type unstartable struct{ script }

func (*unstartable) Start(context.Context) error { return errors.New("it speaks another protocol") }

// lines returns the answers one after the other, which name their agent, as
// in "codex: I did it\nDONE".
func lines(t *testing.T, calls *[]call, answers ...string) Options {
	t.Helper()
	return scripted(func(c call) (string, error) {
		*calls = append(*calls, c)
		if len(*calls) > len(answers) {
			t.Errorf("turn %d, of %s, is one too many", len(*calls), c.agent)
			return "FAIL", nil
		}
		name, text, _ := strings.Cut(answers[len(*calls)-1], ": ")
		if name != string(c.agent) {
			t.Errorf("turn %d is of %s, want %s", len(*calls), c.agent, name)
		}
		if dead, ok := strings.CutPrefix(text, "dies: "); ok {
			return "", errors.New(dead)
		}
		return text, nil
	})
}

func newSession(t *testing.T, settings Settings, options Options) *Session {
	t.Helper()
	s, err := Create(t.TempDir(), t.TempDir(), settings, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func records(t *testing.T, s *Session) (found []string) {
	t.Helper()
	for e, err := range s.Log().Records(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, fmt.Sprintf("%d %s %s>%s %s%s", e.Iteration, e.Type, e.From, e.To, strings.ReplaceAll(e.Content, "\n", "|"), e.Signal))
	}
	return found
}

func TestIterations(t *testing.T) {
	for _, test := range []struct {
		name     string
		settings Settings
		answers  []string
		state    State
		reason   string
		// iteration is the last one.
		iteration int
	}{
		{"passed at once", Settings{Review: ReviewClaude}, []string{"codex: ok\nDONE", "claude: good\nPASS"}, Complete, "", 1},
		{"failed once", Settings{Review: ReviewClaude}, []string{"codex: ok\nDONE", "claude: no\nFAIL", "codex: now\nDONE", "claude: yes\nPASS"}, Complete, "", 2},
		{"review without a word", Settings{Review: ReviewClaude}, []string{"codex: DONE", "claude: the tests did not PASS yet", "codex: DONE", "claude: PASS"}, Complete, "", 2},
		{"passed without DONE", Settings{Review: ReviewClaude}, []string{"codex: a first step", "claude: PASS"}, Complete, "", 1},
		{"both pass", Settings{}, []string{"codex: DONE", "claude: PASS", "codex: PASS"}, Complete, "", 1},
		{"the second fails", Settings{}, []string{"codex: DONE", "claude: PASS", "codex: FAIL", "codex: DONE", "claude: PASS", "codex: PASS"}, Complete, "", 2},
		{"the first fails", Settings{Agent: Claude}, []string{"claude: DONE", "codex: FAIL", "claude: DONE", "codex: PASS", "claude: PASS"}, Complete, "", 2},
		{"its own reviewer", Settings{Agent: Claude, Review: ReviewClaude}, []string{"claude: DONE", "claude: PASS"}, Complete, "", 1},
		{"alone", Settings{Review: ReviewNone}, []string{"codex: not yet", "codex: DONE"}, Complete, "", 2},
		{"alone, PASS is not its word", Settings{Review: ReviewNone}, []string{"codex: PASS", "codex: DONE"}, Complete, "", 2},
		{"own word", Settings{Review: ReviewNone, Done: "OVER"}, []string{"codex: DONE", "codex: OVER"}, Complete, "", 2},
		{"given up", Settings{}, []string{"codex: impossible\nFAIL"}, Failed, "codex gave up in iteration 1", 1},
		{"too many", Settings{Review: ReviewClaude, MaxIterations: 2}, []string{"codex: DONE", "claude: FAIL", "codex: DONE", "claude: FAIL"}, Failed, "not done after 2 iterations", 2},
		{"too many alone", Settings{Review: ReviewNone, MaxIterations: 2}, []string{"codex: hm", "codex: hm"}, Failed, "not done after 2 iterations", 2},
		{"dies once", Settings{Review: ReviewNone}, []string{"codex: dies: a crash", "codex: DONE"}, Complete, "", 1},
		{"dies twice", Settings{Review: ReviewNone}, []string{"codex: dies: a crash", "codex: dies: again"}, Failed, "codex: again", 1},
		{"reviewer dies once", Settings{Review: ReviewClaude}, []string{"codex: DONE", "claude: dies: a crash", "claude: PASS"}, Complete, "", 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.settings.Prompt = "the task"
			var calls []call
			s := newSession(t, test.settings, lines(t, &calls, test.answers...))
			err := s.Run(t.Context())
			var failed *FailedError
			if test.state == Complete && err != nil || test.state == Failed && (!errors.As(err, &failed) || !strings.Contains(failed.Reason, test.reason)) {
				t.Errorf("error %v, want that of a run that is %s: %q", err, test.state, test.reason)
			}
			if len(calls) != len(test.answers) {
				t.Errorf("%d turns, want %d", len(calls), len(test.answers))
			}
			m, err := ReadManifest(s.Place())
			if err != nil || m.State != test.state || m.CurrentIteration != test.iteration || m.CompletedAt == nil {
				t.Errorf("manifest %+v, %v; want state %s in iteration %d", m, err, test.state, test.iteration)
			}
		})
	}
}

// TestMessages: each agent is told each thing once, and the log has all of it.
func TestMessages(t *testing.T) {
	var calls []call
	s := newSession(t, Settings{Prompt: "make it work", Review: ReviewClaude},
		lines(t, &calls, "codex: I did it\nDONE", "claude: too slow\nFAIL", "codex: I did it\nDONE", "claude: too slow\nFAIL", "codex: faster\nDONE", "claude: fine\nPASS"))
	write := func(r bridge.Record) {
		if _, err := s.Log().Send(t.Context(), r); err != nil {
			t.Error(err)
		}
	}
	write(bridge.Record{Type: bridge.TypeChat, From: "ann", To: "codex", Content: "from before the run"})
	exchanges := 0
	s.options.Exchange = func(context.Context) error {
		switch exchanges++; exchanges {
		case 3: // before the first review
			write(bridge.Record{Type: bridge.TypeChat, From: "ann", To: "codex", Content: "mind the tests"})
			write(bridge.Record{Type: bridge.TypeChat, From: "ann", Content: "to all of you"})
		}
		return nil
	}
	if err := s.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"0 chat ann>codex from before the run",
		"0 task user>codex make it work",
		"1 result codex>claude I did it|DONE",
		"1 signal codex>claude DONE in iteration 1DONE",
		"0 chat ann>codex mind the tests",
		"0 chat ann> to all of you",
		"1 review claude>codex too slow|FAIL",
		"1 signal claude>codex FAIL in iteration 1FAIL",
		"2 result codex>claude I did it|DONE||(said for the 2nd time)",
		"2 signal codex>claude DONE in iteration 2DONE",
		"2 review claude>codex too slow|FAIL||(said for the 2nd time)",
		"2 signal claude>codex FAIL in iteration 2FAIL",
		"3 result codex>claude faster|DONE",
		"3 signal codex>claude DONE in iteration 3DONE",
		"3 review claude>codex fine|PASS",
		"3 signal claude>codex PASS in iteration 3PASS",
	}
	if got := records(t, s); !reflect.DeepEqual(got, want) {
		t.Errorf("records:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	for text, turns := range map[string][]int{
		"make it work": {0, 1, 2, 3, 4, 5}, "from before": nil, "mind the tests": {2}, "to all of you": {1, 2},
		"SIGNAL DONE": {1, 3, 5}, "SIGNAL FAIL": {2, 4}, "too slow": {2, 4}, "faster": {5}, "said for the 2nd time": {3, 4},
	} {
		var got []int
		for i, c := range calls {
			if n := strings.Count(c.request.Prompt, text); n > 1 {
				t.Errorf("turn %d has %q %d times", i, text, n)
			} else if n == 1 {
				got = append(got, i)
			}
		}
		if !reflect.DeepEqual(got, turns) {
			t.Errorf("%q is in the prompts of the turns %v, want %v", text, got, turns)
		}
	}
	if env := strings.Join(calls[1].request.Env, " "); !strings.Contains(env, "OACP_AGENT=claude OACP_ROLE=reviewer OACP_RUN_ID=1 OACP_ITERATION=1 OACP_BRIDGE="+s.Place().BridgePath()) {
		t.Errorf("environment %s", env)
	}
}

func TestProof(t *testing.T) {
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
			t.Errorf("the worker was not told how the proof failed:\n%s", got)
		}
		if got := calls[2].request.Prompt; !strings.Contains(got, "This command has succeeded") {
			t.Errorf("the reviewer was not told of the proof:\n%s", got)
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
			t.Errorf("the worker was not told how the proof failed after the review:\n%s", prompts[2])
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
				t.Errorf("the proof's failure is not in the bridge, or it speaks of an agent:\n%s", got)
			}
			if name == "is missing" && !strings.Contains(got, "it cannot be run") {
				t.Errorf("it is not said that the program is missing:\n%s", got)
			}
		})
	}
}

// TestStopAndResume: a session that is told to stop leaves a run that goes on
// with the same turn, in the agent's session.
func TestStopAndResume(t *testing.T) {
	enough := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	turns := 0
	s := newSession(t, Settings{Prompt: "x", Review: ReviewClaude}, scripted(func(c call) (string, error) {
		if turns++; turns == 3 {
			cancel(enough)
			return "", context.Cause(c.ctx)
		}
		return map[Agent]string{Codex: "DONE", Claude: "FAIL"}[c.agent], nil
	}))
	if err := s.Run(ctx); !errors.Is(err, enough) {
		t.Fatalf("error %v, want the cause", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	var calls []call
	s, err := Resume(s.Place(), lines(t, &calls, "codex: DONE", "claude: PASS"))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if c := calls[0]; c.session != "session of codex" || !strings.Contains(c.request.Prompt, "cut off") || strings.Count(c.request.Prompt, "REVIEW FROM claude") != 1 {
		t.Errorf("resumed in session %q with the prompt\n%s", c.session, c.request.Prompt)
	}
	if m := s.Manifest(); m.CurrentIteration != 2 || m.State != Complete {
		t.Errorf("manifest %+v, want iteration 2, completed", m)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	// A run that is over stays over.
	s, err = Resume(s.Place(), lines(t, &calls))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.SetMaxIterations(50); err == nil || !strings.Contains(err.Error(), "run 1 is completed") {
		t.Errorf("error %v, want one that says that the run is over", err)
	}
	if err := errors.Join(s.Run(t.Context()), s.Close()); err != nil {
		t.Error(err)
	}
}

// TestSessionIsKept: an agent's session is on disk before its first turn ends.
func TestSessionIsKept(t *testing.T) {
	var s *Session
	s = newSession(t, Settings{Prompt: "x", Review: ReviewNone}, scripted(func(c call) (string, error) {
		c.observe(agent.Event{Text: "hello"})
		if m, err := ReadManifest(s.Place()); err != nil || m.CodexSessionID != "session of codex" {
			t.Errorf("session %q, %v in the middle of the turn", m.CodexSessionID, err)
		}
		return "DONE", nil
	}))
	if err := s.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestAcknowledge: what an agent was given is acknowledged after its turn,
// and again if that failed; what it was not given is not.
func TestAcknowledge(t *testing.T) {
	var calls []call
	var acknowledged []string
	full := errors.New("disk full")
	failing := true
	options := lines(t, &calls, "codex: one\nDONE", "claude: no\nFAIL", "codex: two\nDONE", "claude: yes\nPASS")
	options.Acknowledge = func(_ context.Context, name Agent, records []bridge.Record) error {
		if failing && len(calls) > 1 {
			return full
		}
		for _, r := range records {
			acknowledged = append(acknowledged, fmt.Sprintf("%s %s after %d", name, r.Type, len(calls)))
		}
		return nil
	}
	s := newSession(t, Settings{Prompt: "x", Review: ReviewClaude}, options)
	if err := s.Run(t.Context()); !errors.Is(err, full) {
		t.Fatalf("error %v, want %v", err, full)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	failing = false
	s, err := Resume(s.Place(), options)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.Run(t.Context()), s.Close()); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"codex task after 1",
		"claude result after 2", "claude signal after 2", "codex review after 3", "codex signal after 3",
		"claude result after 4", "claude signal after 4",
	}
	if !reflect.DeepEqual(acknowledged, want) {
		t.Errorf("acknowledged:\n%s\nwant:\n%s", strings.Join(acknowledged, "\n"), strings.Join(want, "\n"))
	}
}

func TestTimeout(t *testing.T) {
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

func TestUnavailable(t *testing.T) {
	missing := Options{NewDriver: func(Agent, string, string) agent.Driver {
		return agent.NewExec([]string{"no-such-program-anywhere"}, nil)
	}}
	s := newSession(t, Settings{Prompt: "x"}, missing)
	if err := s.Run(t.Context()); !errors.Is(err, agent.ErrUnavailable) || !strings.Contains(err.Error(), "no-such-program") || s.Manifest().State != Init {
		t.Errorf("error %v in state %s, want ErrUnavailable that names the program, in a run that has not begun", err, s.Manifest().State)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	// When it has been installed the run begins.
	var calls []call
	s, err := Resume(s.Place(), lines(t, &calls, "codex: DONE", "claude: PASS", "codex: PASS"))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.Run(t.Context()), s.Close()); err != nil {
		t.Error(err)
	}
	// What is the agent's own failure ends it.
	s = newSession(t, Settings{Prompt: "x"}, Options{NewDriver: func(Agent, string, string) agent.Driver { return &unstartable{} }})
	var failed *FailedError
	if err := s.Run(t.Context()); !errors.As(err, &failed) || !strings.Contains(err.Error(), "codex: it speaks another protocol") {
		t.Errorf("error %v, want a FailedError", err)
	}
}

// TestOutage: a run that has begun outlives an agent that cannot be started
// and a service that does not answer, whoever's turn it is, also when that is
// what comes of starting an agent again. A refusal is the agent's failure.
func TestOutage(t *testing.T) {
	overloaded := &agent.APIError{Kind: agent.Overloaded, Status: 529, Text: "overloaded"}
	refused := &agent.APIError{Kind: agent.Refused, Status: 400, Text: "too long"}
	for _, test := range []struct {
		name string
		// failures are those of the turns of an agent, nil for none.
		of       Agent
		failures []error
		outside  bool
	}{
		{"not started", Codex, []error{agent.ErrUnavailable}, true},
		{"overloaded", Codex, []error{overloaded}, true},
		{"failing", Codex, []error{&agent.APIError{Kind: agent.Failing, Status: 500}}, true},
		{"reviewer overloaded", Claude, []error{overloaded}, true},
		{"died, then overloaded", Codex, []error{errors.New("a crash"), overloaded}, true},
		{"refused", Codex, []error{refused, refused}, false},
		{"refused, then overloaded", Codex, []error{refused, overloaded}, true},
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
				t.Errorf("gone on with when the service is back: %v", err)
			}
		})
	}
}

// TestRestarts: an agent is started again once, by its driver or here, and
// without its session where that is gone.
func TestRestarts(t *testing.T) {
	for _, test := range []struct {
		name     string
		failures []error
		sessions []string
		failed   bool
	}{
		{"died", []error{&agent.DiedError{Program: "codex", Err: errors.New("x")}}, []string{"", "session of codex"}, false},
		{"died twice in the driver", []error{&agent.DiedError{Program: "codex", Again: true, Err: errors.New("x")}}, []string{""}, true},
		{"unknown session", []error{fmt.Errorf("gone: %w", agent.ErrUnknownSession)}, []string{"", ""}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			var sessions []string
			s := newSession(t, Settings{Prompt: "x", Review: ReviewNone}, scripted(func(c call) (string, error) {
				sessions = append(sessions, c.session)
				if len(sessions) <= len(test.failures) {
					return "", test.failures[len(sessions)-1]
				}
				return "DONE", nil
			}))
			var failed *FailedError
			if err := s.Run(t.Context()); errors.As(err, &failed) != test.failed || !test.failed && err != nil {
				t.Errorf("error %v, want a FailedError: %v", err, test.failed)
			}
			if !reflect.DeepEqual(sessions, test.sessions) {
				t.Errorf("sessions %q, want %q", sessions, test.sessions)
			}
		})
	}
}

// TestFolderGone: a repository that is not there, as a disk that is not
// mounted, ends no run, and neither does git when it makes no worktree.
func TestFolderGone(t *testing.T) {
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
		if s, err = Resume(s.Place(), options); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(s.Run(t.Context()), s.Close()); err != nil {
			t.Error(err)
		}
	}
}

func TestOneProcessDrives(t *testing.T) {
	var calls []call
	s := newSession(t, Settings{Prompt: "x"}, lines(t, &calls))
	var busy *BusyError
	if _, err := Resume(s.Place(), Options{}); !errors.As(err, &busy) || busy.Holder == nil || busy.Holder.PID != os.Getpid() {
		t.Errorf("error %v, want a BusyError that names this process", err)
	}
}

func TestManifests(t *testing.T) {
	var calls []call
	s := newSession(t, Settings{Prompt: "x"}, lines(t, &calls))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	path := s.Place().ManifestPath()
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	change := func(old, new string) string {
		t.Helper()
		if !strings.Contains(string(whole), old) {
			t.Fatalf("the manifest lacks %s", old)
		}
		return strings.Replace(string(whole), old, new, 1)
	}
	for name, test := range map[string]struct {
		text string
		want error
	}{
		"empty":         {"", ErrDamaged},
		"null":          {"null", ErrForeignRun},
		"newer":         {change(`"version": 1`, `"version": 2`), ErrNewerVersion},
		"newer, odd":    {`{"version": 99, "state": 5}`, ErrNewerVersion},
		"no version":    {change(`"version": 1,`, ``), ErrForeignRun},
		"unknown state": {change(`"submitted"`, `"sleeping"`), ErrDamaged},
		"no turn":       {change(`"submitted"`, `"working"`), ErrDamaged},
		"other run":     {change(`"id": 1`, `"id": 2`), ErrDamaged},
		"two":           {string(whole) + string(whole), ErrDamaged},
	} {
		if err := os.WriteFile(path, []byte(test.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Resume(s.Place(), Options{}); !errors.Is(err, test.want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: error %v, want %v with the path", name, err, test.want)
		}
	}
	for name, change := range map[string]func(*Manifest){
		"a turn without places in the log": func(m *Manifest) { m.Cursors, m.Acknowledged = nil, nil },
		"one place in the log":             func(m *Manifest) { delete(m.Cursors, Codex) },
		"nothing acknowledged":             func(m *Manifest) { m.Acknowledged = nil },
		"no task":                          func(m *Manifest) { m.TaskRecord = "" },
		"iteration 0":                      func(m *Manifest) { m.CurrentIteration = 0 },
		"a proof without an answer":        func(m *Manifest) { m.Turn.Proof = &ProofResult{} },
		"no such signal":                   func(m *Manifest) { m.Turn.Answer = &Answer{Signal: "MAYBE"} },
		"over and done":                    func(m *Manifest) { m.State = Complete },
		"over and never begun":             func(m *Manifest) { m.State, m.CurrentIteration, m.TaskRecord, m.Turn = Complete, 0, "", nil },
	} {
		m := s.Manifest()
		m.State, m.CurrentIteration, m.TaskRecord, m.Turn = Working, 1, "an id", &Turn{Agent: Codex}
		m.Cursors, m.Acknowledged = map[Agent]bridge.Cursor{Claude: "", Codex: ""}, map[Agent]bridge.Cursor{Claude: "", Codex: ""}
		if err := m.check(); err != nil {
			t.Fatal(err)
		}
		change(&m)
		if err := m.write(s.Place()); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadManifest(s.Place()); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: error %v, want ErrDamaged", name, err)
		}
	}
	for length := range len(whole) - 2 {
		if err := os.WriteFile(path, whole[:length], 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadManifest(s.Place()); !errors.Is(err, ErrDamaged) {
			t.Errorf("cut after %d bytes: error %v, want ErrDamaged", length, err)
		}
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if _, err := Resume(s.Place(), Options{}); !errors.Is(err, ErrNeverBegun) || !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), path) {
		t.Errorf("error %v, want ErrNeverBegun with the path", err)
	}
}

// TestNeverBegun: a run whose manifest could not be written leaves nothing,
// and one that was killed before it keeps its number.
func TestNeverBegun(t *testing.T) {
	root, repository := t.TempDir(), t.TempDir()
	repositoryID, err := bridge.RepositoryID(repository)
	if err != nil {
		t.Fatal(err)
	}
	killed, err := bridge.NewRun(root, repositoryID)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := Resume(killed, Options{}); !errors.Is(err, ErrNeverBegun) {
			t.Errorf("error %v, want ErrNeverBegun", err)
		}
	}
	s, err := Create(root, repository, Settings{Prompt: "x"}, Options{})
	if err != nil || s.Place().ID != 2 {
		t.Fatalf("run %d, %v; want 2", s.Place().ID, err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// TestTranscript: each entry is a line, raw events are as they came, and a
// line that a crash cut off costs no other.
func TestTranscript(t *testing.T) {
	raw := []string{`{"type":"x", "html":"<&>",  "big":12345678901234567890}`, "{\n\"a\": 1\n}", `no JSON`, `"` + strings.Repeat("y", 30<<20) + `"`}
	s := newSession(t, Settings{Prompt: "x", Review: ReviewNone}, scripted(func(c call) (string, error) {
		for _, r := range raw {
			c.observe(agent.Event{Raw: json.RawMessage(r)})
		}
		c.observe(agent.Event{Text: "oops\n", Error: true})
		return "DONE", nil
	}))
	file, err := os.OpenFile(s.Place().TranscriptPath(), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.WriteString(`{"type":"event","raw":{"cut`); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(file.Close(), s.Close()); err != nil {
		t.Fatal(err)
	}
	if s, err = Resume(s.Place(), s.options); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.Run(t.Context()), s.Close()); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(s.Place().TranscriptPath())
	if err != nil {
		t.Fatal(err)
	}
	var types []string
	bad := 0
	for line := range strings.Lines(string(data)) {
		var e Entry
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			bad++
			continue
		}
		types = append(types, string(e.Type))
	}
	if got, want := strings.Join(types, " "), "start start state iteration execute event event event event event result signal state end"; bad != 1 || got != want {
		t.Errorf("%d bad lines and %s, want 1 and %s", bad, got, want)
	}
	for i, want := range []string{raw[0], `{"a":1}`, `"no JSON"`, raw[3]} {
		if !strings.Contains(string(data), `"raw":`+want+"}\n") {
			t.Errorf("raw event %d is not in the transcript as it came", i)
		}
	}
}

func TestFindSession(t *testing.T) {
	root, repository := t.TempDir(), t.TempDir()
	for range 2 {
		s, err := Create(root, repository, Settings{Prompt: "x", Review: ReviewNone}, scripted(func(call) (string, error) { return "DONE", nil }))
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(s.Run(t.Context()), s.Close()); err != nil {
			t.Fatal(err)
		}
	}
	repositoryID, err := bridge.RepositoryID(repository)
	if err != nil {
		t.Fatal(err)
	}
	if run, err := FindSession(root, repositoryID, "session of codex"); err != nil || run.ID != 2 {
		t.Errorf("run %d, %v; want 2", run.ID, err)
	}
	if err := os.WriteFile(filepath.Join(root, repositoryID, "1", "manifest.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, session := range []string{"another", ""} {
		if _, err := FindSession(root, repositoryID, session); !errors.Is(err, bridge.ErrNoRun) || !errors.Is(err, ErrDamaged) {
			t.Errorf("session %q: error %v, want ErrNoRun, and ErrDamaged of run 1", session, err)
		}
	}
}
