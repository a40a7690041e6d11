package turn

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn/track"
)

// replaceBox puts a file in the place of a box, so that nobody can read it. The messages are elsewhere
// until the returned function brings them back.
func replaceBox(t *testing.T, w *mailbox.Workspace, agent schema.AgentName, box mailbox.Box) (restore func()) {
	t.Helper()
	path := w.BoxPath(agent, box)
	aside := filepath.Join(t.TempDir(), "aside")
	if err := errors.Join(os.Rename(path, aside), os.WriteFile(path, nil, 0o644)); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := errors.Join(os.Remove(path), os.Rename(aside, path)); err != nil {
			t.Fatal(err)
		}
	}
}

// TestUnreadInbox checks that no message counts as handled, and no run as done, because an inbox cannot
// be read.
func TestUnreadInbox(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t, "claude", "codex", "gemini")
	m := question("q")
	m.To = []schema.AgentName{"codex", "gemini"}
	sent := send(t, w, m)[0]
	restore := replaceBox(t, w, "codex", mailbox.Inbox)

	all, err := track.Track(t.Context(), w, string(sent.ID))
	if unread, fatal := mailbox.SplitUnreadable(err); fatal != nil || !unread.Hides("codex") || len(all) != 2 ||
		all[0].Stage != track.StageUnknown || all[0].Reason == "" || all[1].Stage != track.StageWaiting {
		t.Errorf("the progress is %+v (%v), want codex unknown and gemini waiting", all, err)
	}
	thread, err := track.Thread(t.Context(), w, string(sent.ID))
	if err == nil || len(thread) != 1 || thread[0].Stage() != track.StageUnknown {
		t.Errorf("the thread is %+v (%v), want the message at an unknown stage", thread, err)
	}
	owed, err := track.OwedBy(t.Context(), w, "claude")
	if err == nil || len(owed.Theirs) != 2 || owed.Theirs[0].Stage != track.StageUnknown {
		t.Errorf("claude is owed %+v (%v), want two answers, one at an unknown stage", owed.Theirs, err)
	}
	rec, err := runOnce(t, w, Config{})
	if !errors.Is(err, durable.ErrNotFolder) || len(rec.of(EventStarted)) != 0 {
		t.Errorf("the run ended with %v, want that the inbox is no folder", err)
	}
	restore()
	if rec, err := runOnce(t, w, Config{}); err != nil || len(rec.of(EventAcknowledged)) != 1 {
		t.Errorf("the run ended with %v, want one message acknowledged", err)
	}
}

// TestUnreadOutbox checks that an answer in an outbox that cannot be read is not taken for none.
func TestUnreadOutbox(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	sent := send(t, w, question("q"))[0]
	if err := os.Remove(entries(t, w, "codex", mailbox.Inbox)[0].Path); err != nil { // as older tools do
		t.Fatal(err)
	}
	replaceBox(t, w, "codex", mailbox.Outbox)
	if all, err := track.Track(t.Context(), w, string(sent.ID)); err == nil || len(all) != 1 || all[0].Stage != track.StageUnknown {
		t.Errorf("the progress is %+v (%v), want an unknown stage", all, err)
	}
}

// TestDamagedCopyWaits checks that a message is not handled because nothing of its copy can be read.
func TestDamagedCopyWaits(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	sent := send(t, w, question("q"))[0]
	path := entries(t, w, "codex", mailbox.Inbox)[0].Path
	if err := os.Truncate(path, 0); err != nil {
		t.Fatal(err)
	}
	if p := progress(t, w, sent.ID); p.Stage != track.StageWaiting || p.Path != path || !strings.HasPrefix(p.Reason, "it is not valid: ") {
		t.Errorf("the progress is %+v, want the empty file waiting", p)
	}
}
