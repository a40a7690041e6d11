package mailbox

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestPruneKeepsQueuedMessages prunes while a copy waits for its inbox: without its outbox copy, the
// message would become a dead letter.
func TestPruneKeepsQueuedMessages(t *testing.T) {
	w := newWorkspace(t, "claude", "codex")
	r, err := w.Send(t.Context(), draft("codex"), &SendOptions{Suffix: "issue"})
	if err != nil {
		t.Fatal(err)
	}
	staged := filepath.Join(w.dir, outgoingName, stagedEntry(r.Message.ID, "codex"))
	if err := os.Rename(r.Inboxes[0], staged); err != nil {
		t.Fatal(err)
	}
	prune := func(want int) {
		t.Helper()
		may, err := w.Prunable(t.Context(), testTime.Add(time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		if pruned, err := w.Prune(t.Context(), may, false); err != nil || pruned.Copies != want {
			t.Errorf("Prune removed %+v (%v), want %d outbox copies", pruned, err, want)
		}
	}
	prune(0)
	after(w, 0)
	if got := mustRecover(t, w); len(got.Published) != 1 {
		t.Fatalf("Recover did %+v, want the copy published", got)
	}
	entries, err := w.Inbox(t.Context(), "codex")
	if err != nil || len(entries) != 1 {
		t.Fatalf("the inbox has %+v (%v), want the message", entries, err)
	}
	if err := w.Acknowledge(entries[0]); err != nil {
		t.Fatal(err)
	}
	prune(1)
}
