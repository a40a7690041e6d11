package watch

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/testing/check"
	"github.com/oacp-go/oacp/internal/testing/mailboxtest"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/project"
)

func cursorPath(w *mailbox.Workspace, name string) string {
	return filepath.Join(w.Dir(), cursorsName, name)
}

func TestCursorFormat(t *testing.T) {
	t.Parallel()
	w := mailboxtest.NewBare(t, "claude", "codex")
	path := put(t, w, "codex", "m1.yaml", "A <b> & c")
	modified := time.Date(2026, 3, 13, 14, 30, 0, 123456789, time.UTC)
	bad := filepath.Join(filepath.Dir(path), "bad.yaml")
	check.WriteFile(t, bad, "id: [\n")
	for _, path := range []string{path, bad} {
		if err := os.Chtimes(path, modified, modified); err != nil {
			t.Fatal(err)
		}
	}
	wantScan(t, w, Options{Cursor: true, StateID: "ci-1"}, "codex", "error bad.yaml", "new_message m1.yaml")
	var got, want any
	if err := json.Unmarshal([]byte(check.ReadFile(t, cursorPath(w, "codex.ci-1.json"))), &got); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	want = map[string]any{
		"agent": "codex", "project": project.Name(w), "state_id": "ci-1", "version": 1.0,
		"messages": map[string]any{"m1.yaml": map[string]any{
			"file": "m1.yaml", "from": "gemini", "priority": "P2", "subject": "A <b> & c", "type": "question",
			"id": "msg-20260313T1430Z-gemini-idm1", "modified": "2026-03-13T14:30:00.123456789Z", "size": float64(info.Size()),
		}},
		"unreadable": map[string]any{"bad.yaml": map[string]any{"modified": "2026-03-13T14:30:00.123456789Z", "size": 6.0}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("the cursor is\n%v\nwant\n%v", got, want)
	}
	mailboxtest.WantFiles(t, w, cursorsName, "codex.ci-1.json", "codex.ci-1.json.lock")
	if got := check.ReadFile(t, filepath.Join(w.Dir(), "state/.gitignore")); got != "*\n" {
		t.Errorf("state/.gitignore holds %q, want all of state ignored", got)
	}
	if text := check.ReadFile(t, cursorPath(w, "codex.ci-1.json")); !strings.Contains(text, "  \"subject\": \"A <b> & c\"") {
		t.Errorf("the cursor is not indented plain JSON:\n%s", text)
	}
}

// TestCursorOfTheReference continues from a cursor of the reference implementation, which holds
// only names and summaries.
func TestCursorOfTheReference(t *testing.T) {
	t.Parallel()
	w := mailboxtest.NewBare(t, "claude", "codex")
	for _, name := range []string{"kept.yaml", "edited.yaml", "replaced.yaml", "fresh.yaml"} {
		put(t, w, "codex", name, strings.TrimSuffix(name, ".yaml"))
	}
	entry := func(subject string) map[string]string {
		return map[string]string{"file": subject + ".yaml", "from": "gemini", "priority": "P2", "subject": subject, "type": "question"}
	}
	other := entry("another subject")
	cursor, err := json.MarshalIndent(map[string]any{
		"agent": "codex", "project": "demo", "version": 1,
		"messages": map[string]any{"kept.yaml": entry("kept"), "edited.yaml": entry("edited"), "replaced.yaml": other, "gone.yaml": entry("gone")},
	}, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	check.WriteFile(t, cursorPath(w, "codex.json"), string(cursor))
	options := Options{Cursor: true, Archived: true}
	events := map[string]string{}
	for _, e := range scan(t, w, options, "codex") {
		events[string(e.Kind)+" "+e.Name] = e.Message.Subject
	}
	want := map[string]string{
		"new_message fresh.yaml": "fresh", "message_archived gone.yaml": "gone",
		"message_archived replaced.yaml": "another subject", "new_message replaced.yaml": "replaced",
	}
	if !reflect.DeepEqual(events, want) {
		t.Errorf("the first scan reports %v, want %v", events, want)
	}
	wantScan(t, w, options, "codex")
	// From now on the id identifies a message.
	check.WriteFile(t, filepath.Join(w.BoxPath("codex", mailbox.Inbox), "edited.yaml"), messageText("codex", "edited.yaml", "a better subject"))
	wantScan(t, w, options, "codex")
}

func TestCursorRefused(t *testing.T) {
	t.Parallel()
	w := mailboxtest.NewBare(t, "claude", "codex", "codex.ci")
	target := []Target{{Workspace: w, Agent: "codex"}}
	for name, test := range map[string]struct {
		stateID, text string
		words         []string
	}{
		"garbage":                 {"", `{"agent": "codex"`, []string{"codex.json", "damaged", "reported again"}},
		"another shape":           {"", `{"agent": "codex", "version": 1, "messages": {"m1.yaml": 7}}`, []string{"codex.json", "damaged"}},
		"a later version":         {"", `{"agent": "codex", "version": 2}`, []string{"codex.json", "version 2"}},
		"another agent's":         {"ci", `{"agent": "codex.ci", "version": 1}`, []string{"codex.ci.json", "belongs"}},
		"a state id with a slash": {"a/b", "", []string{`"a/b"`, "64"}},
		"a long state id":         {strings.Repeat("x", 65), "", []string{"64"}},
	} {
		t.Run(name, func(t *testing.T) {
			path := cursorPath(w, strings.TrimSuffix("codex."+test.stateID, ".")+".json")
			if test.text != "" {
				check.WriteFile(t, path, test.text)
			}
			_, err := New(target, &Options{Cursor: true, StateID: test.stateID})
			check.Error(t, err, test.words...)
			if test.text != "" && check.ReadFile(t, path) != test.text {
				t.Errorf("the refused cursor was changed to %q", check.ReadFile(t, path))
			}
		})
	}
}

func TestCursorInUse(t *testing.T) {
	t.Parallel() // it waits for a second
	w := mailboxtest.NewBare(t, "claude", "codex")
	first := newTestWatcher(t, w, Options{Cursor: true}, "codex")
	_, err := New([]Target{{Workspace: w, Agent: "codex"}}, &Options{Cursor: true})
	if failure.Of(err).Code != "cursor_in_use" || !strings.Contains(err.Error(), "watch of codex uses "+cursorPath(w, "codex.json")) {
		t.Fatalf("a second watcher gets %v, want that the cursor is in use", err)
	}
	check.Error(t, err, "state id")
	wantScan(t, w, Options{Cursor: true, StateID: "other"}, "codex")
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	wantScan(t, w, Options{Cursor: true}, "codex")
}

// TestCursorCannotBeSaved checks that a watch that cannot record its events ends.
func TestCursorCannotBeSaved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := mailboxtest.NewBare(t, "claude", "codex")
		watcher := newTestWatcher(t, w, Options{Cursor: true}, "codex")
		watcher.open = newScriptedNotifier().open
		watch := startWatching(t, watcher)
		synctest.Wait() // until the first cursor is saved
		path := cursorPath(w, "codex.json")
		// A file cannot replace the folder in the cursor's place.
		if err := errors.Join(os.Remove(path), os.MkdirAll(filepath.Join(path, "full"), 0o755)); err != nil {
			t.Fatal(err)
		}
		watch.want(EventArrived, sentName(mailboxtest.Send(t, w, mailboxtest.Draft("codex"))))
		time.Sleep(saveEvery + tickEvery)
		if err := watch.end(); !errors.Is(err, errCursor) {
			t.Errorf("the watch ends with %v, want errCursor", err)
		}
		watch.end = func() error { return nil }
	})
}

// TestCursorKeepsLaterReports checks that a watcher with a cursor from before saves what it reports:
// the next one does not report it again, and notices that it went.
func TestCursorKeepsLaterReports(t *testing.T) {
	t.Parallel()
	w := mailboxtest.NewBare(t, "claude", "codex")
	options := Options{Cursor: true}
	wantScan(t, w, options, "codex")
	r := mailboxtest.Send(t, w, mailboxtest.Draft("codex"))
	wantScan(t, w, options, "codex", "new_message "+sentName(r))
	wantScan(t, w, options, "codex")
	check.Remove(t, r.Inboxes...)
	scan(t, w, options, "codex")
	if text := check.ReadFile(t, cursorPath(w, "codex.json")); strings.Contains(text, sentName(r)) {
		t.Errorf("the cursor still knows the message that went:\n%s", text)
	}
}
