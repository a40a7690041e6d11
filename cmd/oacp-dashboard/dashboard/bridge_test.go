package dashboard

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/oacp-go/oacp/bridge"
)

// newRun makes a run, and returns a function that sends records through its bridge.
func newRun(t *testing.T, root string) (bridge.Run, func(records ...bridge.Record)) {
	t.Helper()
	run, err := bridge.MakeRun(root, t.TempDir(), 3, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return run, func(records ...bridge.Record) {
		t.Helper()
		log, err := run.Open(&bridge.Options{NoSync: true, Now: func() time.Time { return time.Date(2026, 3, 4, 10, 0, 0, 0, time.UTC) }})
		if err != nil {
			t.Fatal(err)
		}
		_, err = log.SendAll(t.Context(), records)
		if err := errors.Join(err, log.Close()); err != nil {
			t.Fatal(err)
		}
	}
}

func said(r reading) string {
	var parts []string
	for _, e := range r.entries {
		parts = append(parts, strings.TrimSpace(e.head+" "+e.subject+e.text))
	}
	return strings.Join(parts, "\n")
}

func TestReadLog(t *testing.T) {
	run, tell := newRun(t, t.TempDir())
	s, of := source{Zone: time.UTC}, target{run: run}
	if got := s.read(t.Context(), of); got.err != nil || len(got.entries) != 0 {
		t.Fatalf("without a log: %+v, want nothing", got)
	}
	tell(bridge.Record{Type: bridge.TypeTask, From: "user", To: "codex", Content: "do it"},
		bridge.Record{Type: bridge.TypeSignal, From: "codex", Signal: bridge.SignalDone, Iteration: 2})
	const first = "2026-03-04 10:00:00  user -> codex  task do it\n2026-03-04 10:00:00  codex -> all  signal DONE  iteration 2"
	if got := s.read(t.Context(), of); said(got) != first || got.err != nil {
		t.Fatalf("the conversation is\n%s, %v, want\n%s", said(got), got.err, first)
	}
	appendTo(t, run.BridgePath(), "no record\n{\"torn")
	got := s.read(t.Context(), of)
	if want := first + "\nline 3 is not a record: "; !strings.HasPrefix(said(got), want) || len(got.entries) != 3 {
		t.Errorf("the conversation is\n%s\nwant\n%s", said(got), want)
	}
	if err := os.RemoveAll(run.Folder); err != nil {
		t.Fatal(err)
	}
	if got := s.read(t.Context(), of); got.err == nil {
		t.Errorf("a removed run is read as %+v, want an error", got)
	}
}

func TestRunConversation(t *testing.T) {
	root := t.TempDir()
	run, tell := newRun(t, root)
	tell(bridge.Record{Type: bridge.TypeTask, From: "user", To: "codex", Content: "do it"})
	source := &source{RunsRoot: root, RepositoryIDs: []string{run.RepositoryID}, Zone: time.UTC}
	m := newModel()
	m.resize(80, 24)
	m.take(gather(t, source))
	press(m, "Tab", "Tab", "Enter")
	read := func() { m.conversation.take(source.read(t.Context(), m.opened())) }
	read()
	if screen := screenText(m); !strings.Contains(screen, "Run 3  log") || !strings.Contains(screen, "user -> codex  task\ndo it\n") {
		t.Fatalf("the conversation is\n%s", screen)
	}
	tell(bridge.Record{Type: bridge.TypeSignal, From: "codex", To: "claude", Signal: bridge.SignalDone, Content: "I did"})
	read()
	if screen := screenText(m); !strings.Contains(screen, "codex -> claude  signal DONE\nI did\n") {
		t.Errorf("after one more record the conversation is\n%s", screen)
	}
	m.take(Snapshot{})
	if screen := screenText(m); !strings.HasPrefix(screen, "Run 3\n") || !strings.Contains(screen, "I did") {
		t.Errorf("after the run was removed the conversation is\n%s\nwant what was shown before", screen)
	}
}
