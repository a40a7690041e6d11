package mailbox

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/schema"
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

// TestPruneKnowsTheNamesOfOacp prunes files under all the names that oacp gives, and no others.
func TestPruneKnowsTheNamesOfOacp(t *testing.T) {
	w := newWorkspace(t, "claude", "codex")
	pending := message("pend", 0)
	pending.Type = schema.Question
	place(t, w, "codex", Inbox, "20260313T1430Z_claude_question_pend.yaml", pending)
	old := message("aaaa", 0)
	goes := []string{
		"20260313T1430Z_claude_task_request.yaml", "20260313T1430Z_claude_task_request-2.yaml", "20260313T1430Z_claude_task_request_aaaa-3.yaml",
		string(old.ID) + ".yaml", string(old.ID) + "-2.yaml", string(old.ID) + "_codex.yaml",
	}
	stays := []string{
		"notes-2.yaml", "msg-2.yaml", "20260313T1430Z_claude_question_pend-2.yaml", string(pending.ID) + ".yaml", string(pending.ID) + "-2.yaml",
		"20260313T1530Z_claude_task_request-2.yaml",
	}
	for _, name := range append(slices.Clone(goes), stays...) {
		place(t, w, "codex", DeadLetters, name, old)
	}
	files := &unsynced{Disk: durable.Disk{Sync: true}, folders: make(map[string]bool)}
	w.files = files
	may, err := w.Prunable(t.Context(), testTime.Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	if pruned, err := w.Prune(t.Context(), may, false); err != nil || pruned.Messages != len(goes) {
		t.Errorf("Prune removed %+v (%v), want %d messages", pruned, err, len(goes))
	}
	slices.Sort(stays)
	wantFiles(t, w, "agents/codex/dead_letter", stays...)
	if len(files.folders) != 0 {
		t.Errorf("Prune changed %v and did not sync it", files.folders)
	}
}
