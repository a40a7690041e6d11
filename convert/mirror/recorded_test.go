package mirror

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/mailbox"
)

// recorded returns copies of a workspace and of two logs that an earlier version mirrored: the
// first as usual, the second with everything.
func recorded(t *testing.T) (first, second *place) {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(filepath.Join("..", "testdata", "recorded"))); err != nil {
		t.Fatal(err)
	}
	work := filepath.Join(dir, "work")
	places := make(map[string]*place)
	for run, name := range []string{"bridge", "second"} {
		p := openPlace(t, work, filepath.Join(dir, name+".jsonl"))
		var err error
		if p.log, err = bridge.Open(p.log.Path(), &bridge.Options{RunID: run + 1, NoSync: true}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = p.log.Close() })
		places[name] = p
		// State files are named after the path of the log, which is another one here.
		for _, suffix := range []string{"-in.json", "-out.json", "-out.journal"} {
			state := filepath.Join(work, "state", "mirror", name+suffix)
			named := filepath.Join(work, strings.TrimSuffix(stateFile(p.log, ""), "-")+suffix)
			if err := os.Rename(state, named); err != nil {
				t.Fatal(err)
			}
		}
	}
	return places["bridge"], places["second"]
}

// wantNothingNew checks that mirrors of both logs, in all ways, change nothing visible.
func wantNothingNew(t *testing.T, what string, first, second *place) {
	t.Helper()
	want := first.snapshot() + second.snapshot()
	for range 2 {
		for _, p := range []*place{first, second, first} {
			if report := p.run(Both); report.Recorded+report.Delivered+len(report.DeadLetters) != 0 {
				t.Errorf("%s: got %+v from %s, want nothing new", what, report, p.log.Path())
			}
		}
		if report := second.runAll(); report.Recorded+report.Delivered+len(report.DeadLetters) != 0 {
			t.Errorf("%s: got %+v with everything, want nothing new", what, report)
		}
	}
	if d := diff(first.snapshot()+second.snapshot(), want); d != "" {
		t.Errorf("%s:\n%s", what, d)
	}
}

// TestRecordedWorkspace checks that messages that an earlier version derived are recognized, with
// and without what it kept in state/mirror.
func TestRecordedWorkspace(t *testing.T) {
	first, second := recorded(t)
	wantNothingNew(t, "with its state", first, second)
	first.forget()
	wantNothingNew(t, "without its state", first, second)
	if len(first.box("codex", mailbox.Inbox)) != 7 {
		t.Errorf("got %s", first.subjects("codex", mailbox.Inbox))
	}
	if done, err := Acknowledge(t.Context(), first.workspace, "codex", first.records()); err != nil || done != 6 {
		t.Errorf("acknowledged %d, %v, want all but the message of the second run", done, err)
	}
}

// TestRecordedLedger checks that the mirror knows a message without an outbox copy from an earlier
// version's journal.
func TestRecordedLedger(t *testing.T) {
	first, second := recorded(t)
	outbox := first.workspace.BoxPath("codex", mailbox.Outbox)
	if err := os.Remove(filepath.Join(outbox, "20261122T0203Z_codex_notification.yaml")); err != nil {
		t.Fatal(err)
	}
	seen, err := filepath.Glob(filepath.Join(first.workspace.Dir(), stateName, "*.json"))
	if err != nil || len(seen) != 4 {
		t.Fatalf("got %q, %v, want 4 files", seen, err)
	}
	for _, path := range seen {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	wantNothingNew(t, "with a copy removed", first, second)
}

// TestRecordedLogElsewhere checks that a copy that an earlier version made of a record becomes the
// message that it carries.
func TestRecordedLogElsewhere(t *testing.T) {
	_, second := recorded(t)
	other := openPlace(t, newPlace(t, "claude", "codex", "gemini").workspace.Dir(), second.log.Path())
	if report := other.run(Both); report.Delivered != 11 {
		t.Errorf("got %+v, want 11 delivered", report)
	}
	var ids []string
	for _, e := range other.box("codex", mailbox.Inbox) {
		ids = append(ids, string(e.Message.ID))
	}
	for _, want := range []string{"msg-20260313T1000Z-claude-4fda5e237c74e98b", "msg-20260313T1005Z-claude-x027661e27ed024624e026275"} {
		if !slices.Contains(ids, want) {
			t.Errorf("message %s is not in %q", want, ids)
		}
	}
	if report := other.run(Both); report.Recorded+report.Delivered != 0 {
		t.Errorf("got %+v, want nothing new", report)
	}
}
