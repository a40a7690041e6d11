package pair

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oacp-go/oacp/agent"
	"github.com/oacp-go/oacp/bridge"
)

// A script is an agent with prepared answers. Both agents of a pair record their requests in the
// same place.
type script struct {
	name    Agent
	session string
	answer  func(call call) (string, error)
}

type call struct {
	ctx     context.Context
	agent   Agent
	session string
	request agent.Request
	observe func(agent.Event)
}

func (s *script) Start(context.Context) error { return nil }
func (s *script) SessionID() string           { return "session of " + string(s.name) }
func (s *script) Stop(context.Context) error  { return nil }

func (s *script) Turn(ctx context.Context, request agent.Request, observe func(agent.Event)) (agent.Result, error) {
	text, err := s.answer(call{ctx, s.name, s.session, request, observe})
	return agent.Result{Text: text, SessionID: s.SessionID(), Duration: time.Second, Usage: agent.Usage{InputTokens: 1}}, err
}

// scripted returns options for agents whose answers come from a function.
func scripted(answer func(call) (string, error)) Options {
	return Options{NewDriver: func(name Agent, _, session string) agent.Driver {
		return &script{name: name, session: session, answer: answer}
	}}
}

// unstartable is an agent that is installed but does not start.
type unstartable struct{ script }

func (*unstartable) Start(context.Context) error { return errors.New("it speaks another protocol") }

// lines returns the answers of each agent one after the other. Each answer names its agent, as in
// "codex: I did it\nDONE".
func lines(t *testing.T, calls *[]call, answers ...string) Options {
	t.Helper()
	var mu sync.Mutex
	left := slices.Clone(answers)
	return scripted(func(c call) (string, error) {
		mu.Lock()
		defer mu.Unlock()
		*calls = append(*calls, c)
		own := string(c.agent) + ": "
		next := slices.IndexFunc(left, func(answer string) bool { return strings.HasPrefix(answer, own) })
		if next < 0 {
			t.Errorf("unexpected turn %d, of %s", len(*calls), c.agent)
			return "FAIL", nil
		}
		text := strings.TrimPrefix(left[next], own)
		left = slices.Delete(left, next, next+1)
		if dead, ok := strings.CutPrefix(text, "dies: "); ok {
			return "", &agent.DiedError{Program: string(c.agent), Err: errors.New(dead)}
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
	for e, err := range s.log.Records(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, fmt.Sprintf("%d %s %s>%s %s%s", e.Iteration, e.Type, e.From, e.To, strings.ReplaceAll(e.Content, "\n", "|"), e.Signal))
	}
	return found
}

func TestIterations(t *testing.T) {
	t.Parallel()
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
		{"review without a signal", Settings{Review: ReviewClaude}, []string{"codex: DONE", "claude: the tests did not PASS yet", "codex: DONE", "claude: PASS"}, Complete, "", 2},
		{"passed without DONE", Settings{Review: ReviewClaude}, []string{"codex: a first step", "claude: PASS"}, Complete, "", 1},
		{"both pass", Settings{}, []string{"codex: DONE", "claude: PASS", "codex: PASS"}, Complete, "", 1},
		{"the second fails", Settings{}, []string{"codex: DONE", "claude: PASS", "codex: FAIL", "codex: DONE", "claude: PASS", "codex: PASS"}, Complete, "", 2},
		{"the first fails", Settings{Agent: Claude}, []string{"claude: DONE", "codex: FAIL", "claude: PASS", "claude: DONE", "codex: PASS", "claude: PASS"}, Complete, "", 2},
		{"its own reviewer", Settings{Agent: Claude, Review: ReviewClaude}, []string{"claude: DONE", "claude: PASS"}, Complete, "", 1},
		{"alone", Settings{Review: ReviewNone}, []string{"codex: not yet", "codex: DONE"}, Complete, "", 2},
		{"alone, PASS is not its word", Settings{Review: ReviewNone}, []string{"codex: PASS", "codex: DONE"}, Complete, "", 2},
		{"own word", Settings{Review: ReviewNone, Done: "OVER"}, []string{"codex: DONE", "codex: OVER"}, Complete, "", 2},
		{"given up", Settings{}, []string{"codex: impossible\nFAIL"}, Failed, "codex gave up in iteration 1", 1},
		{"too many", Settings{Review: ReviewClaude, MaxIterations: 2}, []string{"codex: DONE", "claude: FAIL", "codex: DONE", "claude: FAIL"}, Failed, "not done after 2 iterations", 2},
		{"too many alone", Settings{Review: ReviewNone, MaxIterations: 2}, []string{"codex: hm", "codex: hm"}, Failed, "not done after 2 iterations", 2},
		{"dies once", Settings{Review: ReviewNone}, []string{"codex: dies: a crash", "codex: DONE"}, Complete, "", 1},
		{"dies twice", Settings{Review: ReviewNone}, []string{"codex: dies: a crash", "codex: dies: again"}, Failed, "codex: codex ended in the middle of the turn: again", 1},
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

// TestMessages checks that each agent gets each message once and that the log has all of them.
func TestMessages(t *testing.T) {
	t.Parallel()
	var calls []call
	s := newSession(t, Settings{Prompt: "make it work", Review: ReviewClaude},
		lines(t, &calls, "codex: I did it\nDONE", "claude: too slow\nFAIL", "codex: I did it\nDONE", "claude: too slow\nFAIL", "codex: faster\nDONE", "claude: fine\nPASS"))
	write := func(r bridge.Record) {
		if _, err := s.log.Send(t.Context(), r); err != nil {
			t.Error(err)
		}
	}
	write(bridge.Record{Type: bridge.TypeChat, From: "ann", To: "codex", Content: "before the task"})
	reviews := 0
	s.options.Observe = func(e Entry) {
		if e.Type != EntryState || e.State != Reviewing {
			return
		}
		if reviews++; reviews == 1 {
			write(bridge.Record{Type: bridge.TypeChat, From: "ann", To: "codex", Content: "mind the tests"})
			write(bridge.Record{Type: bridge.TypeChat, From: "ann", Content: "to all of you"})
		}
	}
	if err := s.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"0 chat ann>codex before the task",
		"0 task user>codex make it work",
		"1 result codex>claude I did it|DONE",
		"1 signal codex>claude DONE in iteration 1DONE",
		"0 chat ann>codex mind the tests",
		"0 chat ann> to all of you",
		"1 review claude>codex too slow|FAIL",
		"1 signal claude>codex FAIL in iteration 1FAIL",
		"2 result codex>claude I did it|DONE||(said 2 times)",
		"2 signal codex>claude DONE in iteration 2DONE",
		"2 review claude>codex too slow|FAIL||(said 2 times)",
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
		"make it work": {0, 1, 2, 3, 4, 5}, "before the task": {0}, "mind the tests": {2}, "to all of you": {1, 2},
		"SIGNAL DONE": {1, 3, 5}, "SIGNAL FAIL": {2, 4}, "too slow": {2, 4}, "faster": {5}, "said 2 times": {3, 4},
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

// TestStopAndResume checks that a stopped session leaves a run that continues with the same turn,
// in the agent's session.
func TestStopAndResume(t *testing.T) {
	t.Parallel()
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
	if err := s.SetMaxIterations(50); err == nil || !strings.Contains(err.Error(), "run 1 is already completed") {
		t.Errorf("error %v, want one that says that the run is over", err)
	}
	if err := errors.Join(s.Run(t.Context()), s.Close()); err != nil {
		t.Error(err)
	}
}

// TestSessionIsKept checks that an agent's session is on disk before its first turn ends.
func TestSessionIsKept(t *testing.T) {
	t.Parallel()
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

// TestTurnBeginsOnDisk checks that the manifest says that a turn has begun, and where its records
// begin, before the agent gets the prompt: a process may be killed from then on.
func TestTurnBeginsOnDisk(t *testing.T) {
	t.Parallel()
	var s *Session
	s = newSession(t, Settings{Prompt: "x", Review: ReviewClaude}, scripted(func(c call) (string, error) {
		m, err := ReadManifest(s.Place())
		if err != nil {
			t.Fatal(err)
		}
		end, err := s.log.End(t.Context())
		if err != nil || m.Round == nil || len(m.Round.Turns) != 1 || !reflect.DeepEqual(m.Round.Turns[0], &Turn{Agent: c.agent, Begun: true, Since: end}) {
			t.Errorf("round %+v, %v; want a turn of %s that has begun at %s", m.Round, err, c.agent, end)
		}
		return map[Agent]string{Codex: "DONE", Claude: "PASS"}[c.agent], nil
	}))
	if err := s.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestOneProcessDrives(t *testing.T) {
	t.Parallel()
	var calls []call
	s := newSession(t, Settings{Prompt: "x"}, lines(t, &calls))
	var busy *BusyError
	if _, err := Resume(s.Place(), Options{}); !errors.As(err, &busy) || busy.Holder == nil || busy.Holder.PID != os.Getpid() {
		t.Errorf("error %v, want a BusyError that names this process", err)
	}
}
