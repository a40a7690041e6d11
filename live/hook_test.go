package live

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oacp-go/oacp/schema"
)

// samples returns the events that a program sent, by name.
func samples(t testing.TB, program Program) map[string][]byte {
	t.Helper()
	paths, err := filepath.Glob("testdata/events/" + string(program) + "-*.json")
	if err != nil || len(paths) == 0 {
		t.Fatalf("there are %d events (%v)", len(paths), err)
	}
	events := make(map[string][]byte)
	for _, path := range paths {
		if events[strings.TrimSuffix(filepath.Base(path), ".json")], err = os.ReadFile(path); err != nil {
			t.Fatal(err)
		}
	}
	return events
}

// TestAnswers shows the answer to each event that the programs were seen to send. One message waits when
// the session begins, and another one comes before the event.
func TestAnswers(t *testing.T) {
	for _, program := range Programs() {
		t.Run(string(program), func(t *testing.T) {
			events := samples(t, program)
			var got strings.Builder
			names := make([]string, 0, len(events))
			for name := range events {
				names = append(names, name)
			}
			slices.Sort(names)
			for _, name := range names {
				synctest.Test(t, func(t *testing.T) {
					h := newHooks(t, program)
					e, err := ReadEvent(bytes.NewReader(events[name]))
					if err != nil {
						t.Fatal(err)
					}
					h.arrive(h.ask("wa1t"))
					if e.Name != SessionStart {
						h.wantNamed(h.on(e.Session, SessionStart), "wa1t")
						h.arrive(h.ask("n3w1"))
					}
					a, err := h.handle(e)
					if err != nil {
						t.Error(err)
					}
					shown(t, e.Name, a)
					text := fmt.Sprintf("== %s: exit status %d, follow %t\n%s%s", name, a.Exit, a.Follow, a.Stdout, a.Stderr)
					text = strings.ReplaceAll(text, h.Workspace.Dir(), "WORKSPACE")
					got.WriteString(strings.ReplaceAll(text, filepath.Base(h.Workspace.Dir()), "PROJECT"))
				})
			}
			path := filepath.Join("testdata", "answers-"+string(program)+".txt")
			if *update {
				if err := os.WriteFile(path, []byte(got.String()), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil || got.String() != string(want) {
				t.Errorf("got (%v):\n%s\nwant:\n%s", err, got.String(), want)
			}
		})
	}
}

// TestProof checks what each event proves about a message that was shown at another one, and that a prompt of claude
// shows the mail of the previous prompt again if no other event came in between.
func TestProof(t *testing.T) {
	for _, test := range []struct {
		events string // the first shows it, and those with an exclamation mark
		want   proof
	}{
		{"SessionStart", answered},
		{"SessionStart UserPromptSubmit", answered},
		{"SessionStart UserPromptSubmit PostToolUse", none},
		{"SessionStart UserPromptSubmit Stop", none},
		{"UserPromptSubmit", answered},
		{"UserPromptSubmit PostToolUse", none},
		{"SessionStart UserPromptSubmit UserPromptSubmit", stopped}, // the first was interrupted or blocked, or still runs
		{"UserPromptSubmit UserPromptSubmit!", stopped},
		{"UserPromptSubmit UserPromptSubmit! UserPromptSubmit! UserPromptSubmit!", stopped},
		{"UserPromptSubmit UserPromptSubmit! PostToolUse", stopped},
		{"UserPromptSubmit UserPromptSubmit! PostToolUse UserPromptSubmit", stopped},
		{"UserPromptSubmit UserPromptSubmit! Stop", none},
		{"UserPromptSubmit PostToolUse UserPromptSubmit", none},
		{"UserPromptSubmit SessionStart UserPromptSubmit!", answered},
		{"PostToolUse", stopped},
		{"PostToolUse PostToolUse", stopped}, // two tools that were called together
		{"PostToolUse Stop", none},
		{"PostToolUse UserPromptSubmit", stopped},
		{"PostToolUse SessionStart UserPromptSubmit", answered},
		{"Stop", answered},
		{"Stop UserPromptSubmit", stopped},
		{"Stop FileChanged", answered},
		{"Stop PostToolUse", none},
		{"Stop Stop", none},
		{"FileChanged", delivered},
		{"FileChanged Stop", delivered}, // the program holds it back until the turn ends
		{"FileChanged Stop UserPromptSubmit", answered},
		{"FileChanged Stop UserPromptSubmit UserPromptSubmit", stopped},
		{"FileChanged Stop UserPromptSubmit Stop", none},
		{"FileChanged PostToolUse", stopped},
		{"FileChanged PostToolUse PostToolUse", stopped},
		{"FileChanged PostToolUse Stop", none},
		{"FileChanged UserPromptSubmit PostToolUse", none},
	} {
		for _, program := range Programs() {
			synctest.Test(t, func(t *testing.T) {
				h := newHooks(t, program)
				events := strings.Fields(test.events)
				if events[0] != SessionStart {
					h.on("s", SessionStart)
				}
				if events[0] == PostToolUse {
					h.on("s", UserPromptSubmit)
				}
				m := h.tell("m3ss") // which the agent does not owe an answer
				m.Priority = schema.P1
				h.arrive(m)
				for i, event := range events {
					event, again := strings.CutSuffix(event, "!")
					again = again && program == Claude // codex keeps what came with a prompt
					if text := h.on("s", event); (i == 0 || again) != strings.Contains(text, "- m3ss ") {
						t.Errorf("%s, %s: event %d says %q", program, test.events, i, text)
					}
				}
				s := h.state("s")
				got := none
				if len(s.Shown) > 0 {
					got = s.Shown[0].Proof
				}
				if noticed := h.noticed("s"); got != test.want || (got == none) != slices.Equal(noticed, []string{"m3ss"}) || len(noticed) > 1 {
					t.Errorf("%s, %s: needs %q, noticed %q, want %q", program, test.events, got, noticed, test.want)
				}
			})
		}
	}
}

// TestHandover checks that the hook of a tool that ends while another hook wakes the session waits, so that
// the program gets the text of the wake before it asks the model.
func TestHandover(t *testing.T) {
	for _, test := range []struct {
		shownAt string
		later   time.Duration
		event   string
		want    time.Duration
	}{
		{FileChanged, 0, PostToolUse, handover},
		{FileChanged, handover - 1, PostToolUse, handover},
		{FileChanged, handover, PostToolUse, 0},
		{FileChanged, 0, Stop, 0},             // the turn of the wake follows
		{FileChanged, 0, UserPromptSubmit, 0}, // as a rule, the prompt is that of the wake
		{UserPromptSubmit, 0, PostToolUse, 0},
		{PostToolUse, 0, PostToolUse, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			h := newHooks(t, Claude)
			h.on("s", SessionStart)
			h.on("s", UserPromptSubmit)
			h.arrive(h.ask("m001"))
			h.wantNamed(h.on("s", test.shownAt), "m001")
			h.now = h.now.Add(test.later)
			for _, want := range []time.Duration{test.want, 0} {
				began := time.Now()
				h.on("s", test.event)
				if waited := time.Since(began); waited != want {
					t.Errorf("%s %s after %s waits %s, want %s", test.event, test.later, test.shownAt, waited, want)
				}
			}
		})
	}
}

// TestWakes checks which messages hold a session and wake it. Those that do not are shown at the next prompt.
func TestWakes(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*schema.Message)
		want   bool
	}{
		{"question", func(*schema.Message) {}, true},
		{"notification", func(m *schema.Message) { m.Type = schema.Notification }, false},
		{"urgent notification", func(m *schema.Message) { m.Type, m.Priority = schema.Notification, schema.P1 }, true},
		{"notification that answers", func(m *schema.Message) { m.Type, m.ParentID = schema.Notification, "msg-20260313T1201Z-claude-ab12" }, true},
		{"bounce", func(m *schema.Message) {
			m.Type, m.Channel, m.Priority = schema.Notification, schema.ChannelBounce, schema.P0
		}, false},
		{"expired", func(m *schema.Message) { m.ExpiresAt = schema.NewTimestamp(now.Add(-time.Second)) }, false},
	} {
		for _, event := range []string{Stop, FileChanged} {
			synctest.Test(t, func(t *testing.T) {
				h := newHooks(t, Claude)
				h.on("s", SessionStart)
				h.on("s", UserPromptSubmit)
				m := h.ask("m3ss")
				test.change(m)
				h.arrive(m)
				if got := h.on("s", event) != ""; got != test.want {
					t.Errorf("%s: %s shows it: %t, want %t", test.name, event, got, test.want)
				}
				if got := h.on("s", UserPromptSubmit) != ""; got == test.want {
					t.Errorf("%s: the prompt after %s shows it: %t, want %t", test.name, event, got, !test.want)
				}
			})
		}
	}
}

// TestHeldOnce checks that a session that was held is not held again, and that mail which arrives meanwhile is shown later.
func TestHeldOnce(t *testing.T) {
	t.Parallel()
	for _, program := range Programs() {
		h := newHooks(t, program)
		h.on("s", SessionStart)
		h.on("s", UserPromptSubmit)
		h.arrive(h.ask("m001"), h.tell("m002"))
		h.wantNamed(h.on("s", Stop), "m001", "m002")
		h.arrive(h.ask("m003"))
		a, err := h.handle(Event{Name: Stop, Session: "s", StopActive: true})
		if err != nil || shown(t, Stop, a) != "" {
			t.Errorf("the Stop of a session that was held says %s (%v), want nothing", a.Stdout, err)
		}
		h.wantNoticed("s", "m001", "m002")
		h.wantNamed(h.on("s", UserPromptSubmit), "m003")
	}
}

// TestIgnoredEvents checks that some events are no events of the session: they say nothing and make nothing.
func TestIgnoredEvents(t *testing.T) {
	t.Parallel()
	h := newHooks(t, Claude)
	h.arrive(h.ask("m3ss"))
	for _, e := range []Event{
		{Name: "PreToolUse"}, {Name: "SubagentStop"}, {Name: "sessionstart"}, {Name: PostToolUse, Subagent: "helper"},
		{Name: Stop, Subagent: "helper"}, {Name: SessionEnd}, {Name: FileChanged, Change: "unlink", Path: h.inbox("m3ss.yaml")},
		{Name: FileChanged, Change: "add", Path: h.inbox(".tmp-1.yaml")}, {Name: FileChanged, Change: "add", Path: h.inbox("notes.txt")}, {Name: FileChanged},
	} {
		e.Session = "s"
		err := h.Handle(t.Context(), e, func(a Answer) error {
			t.Errorf("%+v says %+v", e, a)
			return nil
		})
		if err != nil {
			t.Errorf("%+v: %v", e, err)
		}
		if _, err := os.Stat(h.statePath("")); !os.IsNotExist(err) {
			t.Fatalf("%+v makes a folder (%v)", e, err)
		}
	}
}
