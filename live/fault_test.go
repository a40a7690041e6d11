package live

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oacp-go/oacp/agent"
	"github.com/oacp-go/oacp/internal/testing/check"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn"
	"github.com/oacp-go/oacp/turn/track"
)

// begin begins a session that works, and to which m001 was shown.
func (h *hooks) begin() {
	h.Helper()
	h.arrive(h.ask("m001"))
	h.wantNamed(h.on("s", SessionStart), "m001")
	h.on("s", UserPromptSubmit)
}

// TestDamagedState checks what is shown after something happened to the state of a session: every message, if
// only again.
func TestDamagedState(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		damage func(t *testing.T, h *hooks, path string)
		want   []string
		fails  bool // until it is mended
	}{
		"nothing":   {func(*testing.T, *hooks, string) {}, []string{"m002"}, false},
		"no state":  {func(t *testing.T, _ *hooks, path string) { check.Remove(t, path) }, []string{"m001", "m002"}, false},
		"no folder": {func(t *testing.T, _ *hooks, path string) { check.Remove(t, filepath.Dir(filepath.Dir(path))) }, []string{"m001", "m002"}, false},
		"empty":     {func(t *testing.T, _ *hooks, path string) { check.WriteFile(t, path, "") }, []string{"m001", "m002"}, false},
		"torn": {func(t *testing.T, _ *hooks, path string) {
			check.WriteFile(t, path, `{"program":"claude","session":"s","ag`)
		}, []string{"m001", "m002"}, false},
		"other types":   {func(t *testing.T, _ *hooks, path string) { check.WriteFile(t, path, `{"session":"s","shown":7}`) }, []string{"m001", "m002"}, false},
		"other session": {func(t *testing.T, _ *hooks, path string) { rewrite(t, path, `"session":"s"`, `"session":"x"`) }, []string{"m001", "m002"}, false},
		"other program": {func(t *testing.T, _ *hooks, path string) { rewrite(t, path, `"claude"`, `"codex"`) }, []string{"m001", "m002"}, false},
		"other agent":   {func(t *testing.T, _ *hooks, path string) { rewrite(t, path, `"agent":"claude"`, `"agent":"codex"`) }, []string{"m001", "m002"}, false},
		"a folder": {func(t *testing.T, _ *hooks, path string) {
			check.Remove(t, path)
			check.WriteFile(t, filepath.Join(path, "file"), "")
		}, []string{"m001", "m002"}, true},
		"a link out": {func(t *testing.T, _ *hooks, path string) {
			check.Remove(t, path)
			check.WriteFile(t, filepath.Join(t.TempDir(), "state"), "{}")
			if err := os.Symlink(filepath.Join(t.TempDir(), "state"), path); err != nil {
				t.Fatal(err)
			}
		}, []string{"m001", "m002"}, true},
		"a file in place of the folder": {func(t *testing.T, _ *hooks, path string) {
			check.Remove(t, filepath.Dir(path))
			check.WriteFile(t, filepath.Dir(path), "")
		}, []string{"m001", "m002"}, true},
		"a folder in place of the lock": {func(t *testing.T, _ *hooks, path string) {
			check.Remove(t, filepath.Join(filepath.Dir(path), lockName))
			check.WriteFile(t, filepath.Join(filepath.Dir(path), lockName, "file"), "")
		}, []string{"m002"}, true},
	} {
		for _, event := range []string{UserPromptSubmit, PostToolUse, Stop} {
			t.Run(name+" "+event, func(t *testing.T) {
				h := newHooks(t, Claude)
				h.begin()
				h.arrive(h.ask("m002"))
				path := h.statePath("s.json")
				test.damage(t, h, path)
				if test.fails {
					for range 3 {
						a, err := h.handle(Event{Name: event, Session: "s"})
						if text := shown(t, event, a); err == nil || text != "" {
							t.Fatalf("%s says %q (%v), want an error", event, text, err)
						}
					}
					switch info, err := os.Lstat(filepath.Dir(path)); {
					case err == nil && info.IsDir() && slices.Equal(test.want, []string{"m002"}):
						check.Remove(t, filepath.Join(filepath.Dir(path), lockName))
					case err == nil && info.IsDir():
						check.Remove(t, path)
					default:
						check.Remove(t, filepath.Dir(path))
					}
				}
				h.wantNamed(h.on("s", event), test.want...)
				h.wantNamed(h.on("s", PostToolUse))
			})
		}
	}
}

func rewrite(t testing.TB, path, from, to string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil || !strings.Contains(string(data), from) {
		t.Fatalf("%s has no %s (%v)", path, from, err)
	}
	check.WriteFile(t, path, strings.ReplaceAll(string(data), from, to))
}

// TestTemporaryFiles checks that the first hook of a session removes what killed hooks left, and not what a
// follower may be writing.
func TestTemporaryFiles(t *testing.T) {
	t.Parallel()
	h := newHooks(t, Claude)
	h.begin()
	for _, suffix := range []string{project.SessionSuffix, followerSuffix} {
		check.WriteFile(t, h.statePath(".other"+suffix+".tmp-1a2b"), "{")
	}
	h.on("s", SessionStart)
	if files, want := h.stateFiles(), []string{lockName, ".other.follower.tmp-1a2b", "s.json"}; !slices.Equal(files, want) {
		t.Errorf("the files are %q, want %q", files, want)
	}
}

// TestPrintFails checks that what nobody could read is shown again.
func TestPrintFails(t *testing.T) {
	t.Parallel()
	h := newHooks(t, Claude)
	h.begin()
	h.arrive(h.ask("m002"))
	closed := errors.New("nobody reads")
	for range 2 {
		if err := h.Handle(t.Context(), Event{Name: Stop, Session: "s"}, func(Answer) error { return closed }); !errors.Is(err, closed) {
			t.Errorf("Handle = %v, want the error of print", err)
		}
	}
	h.wantNamed(h.on("s", Stop), "m002")
	h.on("s", Stop)
	h.wantNoticed("s", "m001", "m002")
}

// TestLostWorkspace moves a workspace, and removes an agent and all.
func TestLostWorkspace(t *testing.T) {
	t.Parallel()
	h := newHooks(t, Claude)
	h.begin()
	h.arrive(h.ask("m002"))
	moved := filepath.Join(t.TempDir(), "moved")
	if err := os.Rename(h.Workspace.Dir(), moved); err != nil {
		t.Fatal(err)
	}
	there := hooksIn(t, moved, Claude)
	there.wantNamed(there.on("s", PostToolUse), "m002")
	check.Remove(t, filepath.Join(moved, "agents/claude"))
	var unknown *mailbox.UnknownAgentError
	for _, event := range []string{SessionStart, UserPromptSubmit, PostToolUse, Stop, SessionEnd} {
		if a, err := there.handle(Event{Name: event, Session: "s"}); !errors.As(err, &unknown) || shown(t, event, a) != "" {
			t.Errorf("%s of an agent that was removed says %s (%v)", event, a.Stdout, err)
		}
	}
	check.Remove(t, moved)
	for _, event := range []string{SessionStart, UserPromptSubmit, PostToolUse, Stop, SessionEnd} {
		if a, err := there.handle(Event{Name: event, Session: "s"}); err == nil || shown(t, event, a) != "" {
			t.Errorf("%s of a workspace that was removed says %s (%v)", event, a.Stdout, err)
		}
	}
	if _, err := os.Stat(moved); !os.IsNotExist(err) {
		t.Errorf("the workspace is there again (%v)", err)
	}
}

// TestClockSetBack checks that a session goes on with messages and a state from the future.
func TestClockSetBack(t *testing.T) {
	t.Parallel()
	h := newHooks(t, Claude)
	h.now = now.Add(48 * time.Hour)
	h.begin()
	h.now = now
	h.wantNamed(h.on("s", PostToolUse))
	h.arrive(h.ask("m002"))
	h.wantNamed(h.on("s", PostToolUse), "m002")
	h.now = now.Add(24 * time.Hour)
	h.write("m003.yaml", "not a message")
	h.now = now
	h.wantNamed(h.on("s", PostToolUse), "m003.yaml")
	h.on("s", Stop)
	h.wantNoticed("s", "m001", "m002")
}

// TestUnsettledFile checks that a file that is no message is shown only when nobody writes it any more.
func TestUnsettledFile(t *testing.T) {
	t.Parallel()
	h := newHooks(t, Claude)
	h.begin()
	data, err := schema.Encode(h.ask("m002"))
	if err != nil {
		t.Fatal(err)
	}
	h.write("m002.yaml", string(data[:len(data)/2]))
	h.write("m003.yaml", "id: [")
	h.wantNamed(h.on("s", PostToolUse))
	h.now = h.now.Add(settled / 2)
	h.wantNamed(h.on("s", PostToolUse))
	check.WriteFile(t, h.inbox("m002.yaml"), string(data)) // which does not change the folder
	h.wantNamed(h.on("s", PostToolUse), "m002")
	h.now = h.now.Add(settled)
	h.wantNamed(h.on("s", PostToolUse), "m003.yaml")
	h.wantNamed(h.on("s", PostToolUse))
	h.on("s", Stop)
	h.wantNoticed("s", "m001", "m002")
}

// TestRestored checks that a message that left the inbox is shown again when it comes back, but not if
// it leaves for a moment only.
func TestRestored(t *testing.T) {
	t.Parallel()
	for _, event := range []string{PostToolUse, Stop} {
		h := newHooks(t, Claude)
		h.begin()
		id := string(h.ask("m001").ID)
		for range 2 {
			e, err := h.Workspace.Pending(t.Context(), id, h.Agent)
			if err == nil {
				err = h.Workspace.Acknowledge(e)
			}
			h.wantNamed(h.on("s", event)) // a PostToolUse does not prove what a PostToolUse showed
			if _, restoreErr := track.Restore(t.Context(), h.Workspace, id, h.Agent); err != nil || restoreErr != nil {
				t.Fatal(err, restoreErr)
			}
			h.wantNamed(h.on("s", event), "m001")
		}
		h.on("s", Stop)
		h.wantNoticed("s", "m001")
	}
}

// TestManyMessages begins a session beside 10,000 messages. The answer keeps its budget.
func TestManyMessages(t *testing.T) {
	t.Parallel()
	const messages = 10_000
	h := newHooks(t, Claude)
	h.fill(messages)
	h.now = h.now.Add(time.Hour)
	text := h.on("s", SessionStart)
	got := named(text)
	if tokens := Tokens(text); tokens > defaultBudget || len(got) < 10 || !strings.Contains(text, fmt.Sprintf("%d more: oacp inbox", messages-len(got))) {
		t.Fatalf("%d tokens name %d messages:\n%s", tokens, len(got), text)
	}
	h.on("s", UserPromptSubmit)
	h.on("s", PostToolUse)
	before := h.state("s")
	h.wantNamed(h.on("s", PostToolUse))
	if s := h.state("s"); !slices.Equal(s.Backlog, before.Backlog) {
		t.Errorf("an event without news leaves %d messages of %d", len(s.Backlog), len(before.Backlog))
	}
	h.arrive(h.ask("n3w1"))
	h.wantNamed(h.on("s", PostToolUse), "n3w1")
	h.wantNamed(h.on("s", Stop))
	again := named(h.on("s", UserPromptSubmit))
	if len(again) < 10 || slices.ContainsFunc(again, func(name string) bool { return slices.Contains(got, name) }) {
		t.Errorf("%q were shown, then %q", got, again)
	}
}

// fill puts messages into the inbox.
func (h *hooks) fill(messages int) {
	h.Helper()
	for n := range messages {
		m := h.ask(fmt.Sprintf("m%05d", n))
		m.ID = schema.ID(fmt.Sprintf("msg-20260313T1201Z-gemini-%04d%012d", n%10_000, n))
		data, err := schema.Encode(m)
		if err != nil {
			h.Fatal(err)
		}
		check.WriteFile(h, h.inbox(fmt.Sprintf("m%05d.yaml", n)), string(data))
	}
	h.age(0)
}

// TestBesideARunner checks that sessions get no mail while a Runner works the inbox, and what is left
// afterwards.
func TestBesideARunner(t *testing.T) {
	t.Parallel()
	h := newHooks(t, Claude)
	for _, session := range []string{"s", "late"} {
		h.programs[session] = startProgram(t)
	}
	h.begin()
	h.arrive(h.ask("m002"))
	ctx, stop := context.WithCancel(t.Context())
	running := make(chan struct{})
	r, err := turn.New(h.Workspace, turn.Config{
		Agent: "claude", AllowFrom: []schema.AgentName{"claude"}, // so the messages stay
		NewDriver: func(schema.ConversationID, string) agent.Driver { return agent.NewEcho() },
		Ready:     func() { close(running) },
	})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	<-running
	for _, event := range []string{UserPromptSubmit, PostToolUse, Stop} {
		h.wantNamed(h.on("s", event))
	}
	text := h.on("late", SessionStart)
	if h.wantNamed(text); !strings.HasPrefix(text, "oacp run works the inbox of claude") {
		t.Errorf("a session beside a Runner reads %q", text)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	h.wantNamed(h.on("s", PostToolUse), "m002")
	h.arrive(h.ask("m003"))
	h.wantNamed(h.on("late", PostToolUse), "m003")
	h.wantNamed(h.on("late", UserPromptSubmit))
	kill(h.programs["s"])
	text = h.on("late", UserPromptSubmit)
	if h.wantNamed(text, "m002"); !strings.Contains(text, "\n1 that you have seen: oacp inbox\n") {
		t.Errorf("the prompt does not tell of m001, which another session has noticed:\n%s", text)
	}
}

// TestRegistersFirst checks that a Runner sees a session that begins before the session looks for one, and before
// it reads the mail.
func TestRegistersFirst(t *testing.T) {
	t.Parallel()
	h := newHooks(t, Claude)
	h.arrive(h.ask("m001"))
	var seen []bool
	h.Now = func() time.Time {
		var living *SessionsError
		seen = append(seen, errors.As(CheckNone(h.Workspace, h.Agent), &living))
		return h.now
	}
	h.wantNamed(h.on("s", SessionStart), "m001")
	if first := slices.Index(seen, true); first < 0 || slices.Contains(seen[first:], false) || len(seen)-first < 2 {
		t.Errorf("at the steps of the first hook, a Runner sees the session: %t", seen)
	}
}
