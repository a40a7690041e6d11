package mailbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/internal/testing/check"
	"github.com/oacp-go/oacp/schema"
)

// wantRecalled checks that codex has the message in its inbox or, if the recall succeeded, as a dead letter, and not both.
func wantRecalled(t *testing.T, w *Workspace, when string, recall error) {
	t.Helper()
	waiting, dead := len(inboxIDs(t, w, "codex")), 0
	for _, name := range files(t, w, "agents/codex/dead_letter") {
		if schema.IsMessageFile(name) {
			dead++
			if _, err := schema.ParseFileName(name); err != nil {
				t.Errorf("%s: %v", when, err) // other machines would not know it
			}
		}
	}
	want := [2]int{0, 1}
	if recall != nil {
		want = [2]int{1, 0}
	}
	if (recall != nil && !IsGone(recall)) || [2]int{waiting, dead} != want {
		t.Errorf("%s: Recall gave %v, and codex has the message %d times in the inbox and %d times as a dead letter", when, recall, waiting, dead)
	}
}

// TestRecallAtEveryStep recalls a message at each step of its delivery, and of its recovery after a crash.
func TestRecallAtEveryStep(t *testing.T) {
	for _, d := range deliveries[:2] {
		for failAt := range d.operations(t, newWorkspace(t, "claude", "codex", "gemini")) {
			for _, dies := range []bool{false, true} {
				w := newWorkspace(t, "claude", "codex", "gemini")
				other := openWorkspace(t, w.dir)
				var recall error
				f := &faulty{Disk: durable.Disk{Sync: true}, failAt: failAt}
				f.happen = func() {
					sent, err := other.List(t.Context(), "claude", Outbox)
					if recall = fmt.Errorf("not sent: %w", os.ErrNotExist); err == nil && len(sent) == 1 {
						recall = Recall(t.Context(), other, sent[0].Message, "codex")
					}
				}
				if dies {
					f.err = errCrash
				}
				w.files = f
				if _, err := d.deliver(t, w); err != nil && !errors.Is(err, errCrash) {
					t.Errorf("%s, recalled before %q: %v", d.name, f.name, err)
				}
				w.files = durable.Disk{}
				after(w, 2*staleAfter)
				mustRecover(t, w)
				if len(files(t, w, "agents/claude/outbox")) == 1 {
					wantRecalled(t, w, fmt.Sprintf("%s, recalled before %q, dies=%t", d.name, f.name, dies), recall)
				}
			}
		}
	}
}

// TestRecallBesideADelivery recalls messages while others deliver them.
func TestRecallBesideADelivery(t *testing.T) {
	for range 50 {
		w := newWorkspace(t, "claude", "codex", "gemini")
		other := openWorkspace(t, w.dir)
		m := faultDraft(true)
		var recall error
		var group sync.WaitGroup
		group.Go(func() {
			for recall = os.ErrNotExist; len(files(t, other, "agents/claude/outbox")) == 0; {
				runtime.Gosched()
			}
			recall = Recall(t.Context(), other, &m, "codex")
		})
		send(t, w, m)
		group.Wait()
		wantRecalled(t, w, "beside its delivery", recall)
	}
}

// TestHandledMessageStaysHandled recovers after a crash that undid the removal of a staged copy, whose recipient has dealt
// with the message meanwhile.
func TestHandledMessageStaysHandled(t *testing.T) {
	for _, dealing := range dealings {
		if dealing.name == "remove" {
			continue // only the sync of state/outgoing keeps such a message from coming back
		}
		w := newWorkspace(t, "claude", "codex")
		e := received(t, w)
		staged := filepath.Join(w.dir, outgoingName, stagedEntry(e.Message.ID, "codex"))
		if err := copyFile(e.Path, staged); err != nil {
			t.Fatal(err)
		}
		if err := dealing.deal(w, e); err != nil {
			t.Fatal(err)
		}
		after(w, 2*staleAfter)
		if got := mustRecover(t, w); !isEmpty(got) {
			t.Errorf("%s: Recover did %+v, want nothing", dealing.name, got)
		}
		wantFiles(t, w, outgoingName)
		wantFiles(t, w, "agents/codex/inbox")
	}
}

// TestClockThatWasSetBack recovers after a crash that left the machine with an old date.
func TestClockThatWasSetBack(t *testing.T) {
	for _, undone := range []bool{false, true} {
		w := newWorkspace(t, "claude", "codex", "gemini")
		killBefore(t, w, false, "sync outbox")
		if outbox := files(t, w, "agents/claude/outbox"); undone && len(outbox) == 1 {
			id := groupedID(t, w)
			check.WriteFile(t, filepath.Join(w.dir, outgoingName, string(id)+"@claude@outbox@"+elsewhere),
				check.ReadFile(t, filepath.Join(w.BoxPath("claude", Outbox), outbox[0])))
		}
		disown(t, w)
		after(w, -30*365*24*staleAfter)
		if got := mustRecover(t, w); len(got.Published) != 2 || len(files(t, w, outgoingName)) != 0 {
			t.Errorf("undone=%t: Recover did %+v, want both copies published", undone, got)
		}
	}
}

// groupedID returns the id of the only message with staged copies.
func groupedID(t *testing.T, w *Workspace) schema.ID {
	t.Helper()
	ids, err := w.Staged()
	if err != nil || len(ids) != 1 {
		t.Fatalf("the staged messages are %v (%v), want one", ids, err)
	}
	return ids[0]
}
