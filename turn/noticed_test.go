package turn

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oacp-go/oacp/agent"
	"github.com/oacp-go/oacp/internal/testing/check"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn/track"
)

// keysOf returns the keys of messages.
func keysOf(t testing.TB, messages []*schema.Message) []track.Key {
	t.Helper()
	keys := make([]track.Key, len(messages))
	for i, m := range messages {
		keys[i] = track.KeyOf(m)
	}
	return keys
}

// noteNoticed notes that sessions noticed messages.
func noteNoticed(t testing.TB, w *mailbox.Workspace, messages []*schema.Message, sessions ...string) {
	t.Helper()
	for _, session := range sessions {
		if err := track.NoteNoticed(w, "codex", keysOf(t, messages), track.Noticed{Holder: track.Holder{Session: session, Program: "codex"}}); err != nil {
			t.Error(err)
		}
	}
}

// wantNoticed checks the stage of a message, and which sessions noticed it.
func wantNoticed(t testing.TB, w *mailbox.Workspace, id schema.ID, stage track.Stage, sessions ...string) {
	t.Helper()
	p := progress(t, w, id)
	var got []string
	for _, n := range p.Noticed {
		got = append(got, n.Session)
	}
	if p.Stage != stage {
		t.Errorf("the stage is %s, want %s", p.Stage, stage)
	}
	wantTexts(t, "sessions", got, sessions...)
}

// failOnce gives messages a turn that fails, and stops before the next one.
func failOnce(t testing.TB, w *mailbox.Workspace) {
	t.Helper()
	fails := plays(func(context.Context, agent.Request) (agent.Result, error) { return agent.Result{}, errors.New("no") })
	r, rec := newRunner(t, w, Config{NewDriver: fails, firstRetry: time.Hour})
	ctx, cancel := context.WithCancel(t.Context())
	rec.on = func(e Event) {
		if e.Kind == EventFailed {
			cancel()
		}
	}
	if err := r.Run(ctx); err != nil {
		t.Fatal(err)
	}
}

// TestNoticed follows a message that sessions notice through what may happen to it, also after the
// journal was compacted.
func TestNoticed(t *testing.T) {
	t.Parallel()
	type step = func(*testing.T, *mailbox.Workspace, *schema.Message)
	noticedBy := func(sessions ...string) step {
		return func(t *testing.T, w *mailbox.Workspace, m *schema.Message) {
			noteNoticed(t, w, []*schema.Message{m}, sessions...)
		}
	}
	run := func(c Config) step {
		return func(t *testing.T, w *mailbox.Workspace, _ *schema.Message) {
			if _, err := runOnce(t, w, c); err != nil {
				t.Fatal(err)
			}
		}
	}
	fails := func(t *testing.T, w *mailbox.Workspace, _ *schema.Message) { failOnce(t, w) }
	acknowledged := func(t *testing.T, w *mailbox.Workspace, _ *schema.Message) {
		if err := w.Acknowledge(entries(t, w, "codex", mailbox.Inbox)[0]); err != nil {
			t.Fatal(err)
		}
	}
	restored := func(t *testing.T, w *mailbox.Workspace, m *schema.Message) { restoreOne(t, w, m.ID, "done") }
	others := Config{AllowFrom: []schema.AgentName{"codex"}}
	for _, test := range []struct {
		name     string
		steps    []step
		stage    track.Stage
		sessions []string
	}{
		{"not noticed", nil, track.StageWaiting, nil},
		{"noticed", []step{noticedBy("one")}, track.StageNoticed, []string{"one"}},
		{"noticed again", []step{noticedBy("one", "two", "one", "two")}, track.StageNoticed, []string{"one", "two"}},
		{"acknowledged", []step{noticedBy("one"), acknowledged}, track.StageDone, []string{"one"}},
		{"noticed when acknowledged", []step{acknowledged, noticedBy("one")}, track.StageDone, []string{"one"}},
		{"held", []step{noticedBy("one"), run(others), noticedBy("two")}, track.StageHeld, []string{"one", "two"}},
		{"answered", []step{noticedBy("one"), run(Config{Reply: true})}, track.StageAnswered, []string{"one"}},
		{"done", []step{noticedBy("one"), run(Config{}), noticedBy("two")}, track.StageDone, []string{"one", "two"}},
		{"a turn failed since", []step{noticedBy("one"), fails}, track.StageWaiting, []string{"one"}},
		{"a turn failed before", []step{fails, noticedBy("one")}, track.StageNoticed, []string{"one"}},
		{"restored", []step{noticedBy("one"), acknowledged, restored}, track.StageWaiting, nil},
		{"restored and noticed", []step{noticedBy("one"), acknowledged, restored, noticedBy("one")}, track.StageNoticed, []string{"one"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorkspace(t)
			m := send(t, w, question("port"))[0]
			for _, step := range test.steps {
				step(t, w, m)
			}
			wantNoticed(t, w, m.ID, test.stage, test.sessions...)
			compactJournal(t, w)
			wantNoticed(t, w, m.ID, test.stage, test.sessions...)
		})
	}
}

// TestWorkingByAnotherClock checks that a recipient works on a message if it says so after a turn, whatever the clock says.
func TestWorkingByAnotherClock(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	m := send(t, w, question("port"))[0]
	fails := plays(func(context.Context, agent.Request) (agent.Result, error) { return agent.Result{}, errors.New("no") })
	r, rec := newRunner(t, w, Config{NewDriver: fails, firstRetry: time.Hour})
	r.now = func() time.Time { return time.Now().Add(time.Hour) }
	rec.on = func(e Event) {
		if e.Kind == EventFailed {
			r.Finish()
		}
	}
	if err := r.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := track.NoteWorking(w, "codex", keysOf(t, []*schema.Message{m})[0], "by hand", track.Holder{}); err != nil {
		t.Fatal(err)
	}
	wantNoticed(t, w, m.ID, track.StageWorking)
	compactJournal(t, w)
	wantNoticed(t, w, m.ID, track.StageWorking)
}

func TestNoticedAndExpired(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	expired := question("expired")
	expired.CreatedAt, expired.ExpiresAt = "2020-01-01T00:00:00Z", "2020-01-02T00:00:00Z"
	sent := send(t, w, expired)
	noteNoticed(t, w, sent, "one")
	wantNoticed(t, w, sent[0].ID, track.StageExpired, "one")
}

// TestNoticedAt checks what is recorded of a session, and that the first time counts.
func TestNoticedAt(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	sent := send(t, w, question("one"), question("two"))
	first := track.Noticed{Holder: track.Holder{Session: "0193", Program: "claude"}, At: time.Date(2026, 3, 1, 10, 42, 0, 0, time.FixedZone("", 3600))}
	later := first
	later.At = later.At.Add(time.Hour)
	for _, by := range []track.Noticed{first, later} {
		if err := track.NoteNoticed(w, "codex", keysOf(t, sent), by); err != nil {
			t.Fatal(err)
		}
	}
	first.At = first.At.UTC()
	for _, m := range sent {
		if got := progress(t, w, m.ID).Noticed; !reflect.DeepEqual(got, []track.Noticed{first}) {
			t.Errorf("noticed %+v, want %+v", got, first)
		}
	}
	for name, err := range map[string]error{
		"no program":    track.NoteNoticed(w, "codex", keysOf(t, sent), track.Noticed{Holder: track.Holder{Session: "0193"}}),
		"unknown agent": track.NoteNoticed(w, "gemini", keysOf(t, sent), first),
		"no agent":      track.NoteNoticed(w, "../x", keysOf(t, sent), first),
	} {
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if err := track.NoteNoticed(w, "claude", nil, first); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(w.Dir(), track.TurnsFolder, "claude.jsonl")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the journal of an agent that noticed nothing: %v, want none", err)
	}
}

// TestNotedBesideARunner notes messages while a Runner works them: each has one turn, and no line of the
// journal is damaged.
func TestNotedBesideARunner(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	var drafts []schema.Message
	for n := range 20 {
		drafts = append(drafts, question(fmt.Sprint(n)))
	}
	sent := send(t, w, drafts...)
	var noting sync.WaitGroup
	for session := range 4 {
		noting.Go(func() {
			for _, m := range sent {
				noteNoticed(t, w, []*schema.Message{m}, fmt.Sprint("session-", session))
			}
		})
	}
	rec, err := runOnce(t, w, Config{Parallel: 4})
	if err != nil {
		t.Errorf("Run = %v", err)
	}
	noting.Wait()
	if got := len(rec.of(EventStarted)); got != len(sent) {
		t.Errorf("%d turns, want %d: %s", got, len(sent), rec.kinds())
	}
	for _, m := range sent {
		if p := progress(t, w, m.ID); p.Stage != track.StageDone || p.Attempts != 1 || len(p.Noticed) != 4 {
			t.Errorf("progress %+v, want done after one turn, and noticed by four sessions", p)
		}
	}
	for line := range strings.Lines(check.ReadFile(t, filepath.Join(w.Dir(), track.TurnsFolder, "codex.jsonl"))) {
		if !json.Valid([]byte(line)) {
			t.Errorf("a damaged line: %q", line)
		}
	}
}

// TestNotedAfterACrash cuts a journal in its last line at every byte: the next fact is on a line of its
// own.
func TestNotedAfterACrash(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	sent := send(t, w, question("one"), question("two"))
	noteNoticed(t, w, sent[:1], "session")
	path := filepath.Join(w.Dir(), track.TurnsFolder, "codex.jsonl")
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for size := range len(whole) + 1 {
		if err := os.WriteFile(path, whole[:size], 0o644); err != nil {
			t.Fatal(err)
		}
		noteNoticed(t, w, sent[1:], "session")
		first := track.StageWaiting
		if size >= len(whole)-1 { // at most the end of the line was missing
			first = track.StageNoticed
		}
		if p := progress(t, w, sent[0].ID); p.Stage != first {
			t.Errorf("cut at %d: the torn fact makes the stage %s, want %s", size, p.Stage, first)
		}
		if p := progress(t, w, sent[1].ID); p.Stage != track.StageNoticed {
			t.Errorf("cut at %d: the next message is %s, want it noticed", size, p.Stage)
		}
	}
}
