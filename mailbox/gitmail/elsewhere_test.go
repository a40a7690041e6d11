package gitmail_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/oacp-go/oacp/internal/testing/check"
	"github.com/oacp-go/oacp/mailbox"
)

// age makes the boxes of an agent older than any sync, as they are on a quiet day.
func (m *machine) age() {
	m.n.t.Helper()
	boxes, err := filepath.Glob(filepath.Join(m.dir, "agents/*/*"))
	if err != nil {
		m.n.t.Fatal(err)
	}
	hour := time.Now().Add(-time.Hour)
	for _, box := range boxes {
		if err := os.Chtimes(box, hour, hour); err != nil {
			m.n.t.Fatal(err)
		}
	}
}

// TestAcknowledgedWhileStaged acknowledges a message elsewhere while an inbox here refuses its copy.
func TestAcknowledgedWhileStaged(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, 2, both...)
	here, there := n.machines[0], n.machines[1]
	n.settle()
	r := there.send("claude", "codex")
	n.settle()
	inbox := here.w.BoxPath("codex", mailbox.Inbox)
	staged := filepath.Join(here.dir, "state/outgoing", string(r.Message.ID)+"@codex@inbox")
	if err := os.Rename(filepath.Join(inbox, filepath.Base(r.Inboxes[0])), staged); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(inbox, inbox+"-away"); err != nil {
		t.Fatal(err)
	}
	check.WriteFile(t, inbox, "in the way\n")
	n.tolerant = true
	there.acknowledge("codex", r.Message.ID)
	there.sync()
	if _, err := here.trySync(); err == nil || !strings.Contains(err.Error(), "codex/inbox") {
		t.Errorf("a sync with a file for an inbox = %v, want the name of the inbox", err)
	}
	check.Remove(t, inbox)
	if err := os.Rename(inbox+"-away", inbox); err != nil {
		t.Fatal(err)
	}
	n.tolerant = false
	n.settle()
	n.want("codex", mailbox.Inbox)
}

// TestFixedInPlace fixes a file in place that no sync could read: the time of its box stays the same.
func TestFixedInPlace(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, 2, both...)
	here, there := n.machines[0], n.machines[1]
	n.settle()
	r := here.send("claude", "codex")
	whole := check.ReadFile(t, r.Outbox)
	check.WriteFile(t, r.Outbox, "broken\n")
	here.age()
	n.tolerant = true
	for range 2 {
		if result := here.sync(); len(result.Problems) == 0 {
			t.Error("the sync reports no problem")
		}
	}
	check.WriteFile(t, r.Outbox, whole)
	n.tolerant = false
	n.settle()
	there.want("codex", mailbox.Inbox, r)
}

// TestRestoredAndHandledElsewhere restores a dead letter and handles the message before the other
// machine syncs. No dead letter is left.
func TestRestoredAndHandledElsewhere(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, 2, both...)
	here, there := n.machines[0], n.machines[1]
	n.settle()
	r := here.send("claude", "codex")
	here.bury("codex", r.Message.ID)
	n.settle()
	there.restore("codex", r)
	there.acknowledge("codex", r.Message.ID)
	there.sync()
	n.settle()
	n.want("codex", mailbox.DeadLetters)
	n.want("codex", mailbox.Archive, r)
	n.want("codex", mailbox.Inbox)
	n.checkEqual()
}
