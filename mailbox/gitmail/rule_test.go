package gitmail_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/oacp-go/oacp/internal/testing/check"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/gitmail"
	"github.com/oacp-go/oacp/schema"
)

// TestBackupOfAgentsIsPutBack puts an old copy of all mailboxes back. What was handled since stays handled on all machines.
func TestBackupOfAgentsIsPutBack(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, 2, both...)
	here, there := n.machines[0], n.machines[1]
	r, kept := there.send("claude", "codex"), there.send("claude", "codex")
	n.settle()
	backup := filepath.Join(n.dir, "backup")
	if err := os.CopyFS(backup, os.DirFS(filepath.Join(here.dir, "agents"))); err != nil {
		t.Fatal(err)
	}
	here.acknowledge("codex", r.Message.ID)
	n.settle()
	check.Remove(t, filepath.Join(here.dir, "agents"))
	if err := os.CopyFS(filepath.Join(here.dir, "agents"), os.DirFS(backup)); err != nil {
		t.Fatal(err)
	}
	n.settle()
	n.want("codex", mailbox.Inbox, kept)
	n.want("codex", mailbox.Archive, r)
}

// TestRecalledAfterItWasHandled takes back a message that its recipient has been shown, and handles, on another machine. It is
// not pending again.
func TestRecalledAfterItWasHandled(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, 2, both...)
	here, there := n.machines[0], n.machines[1]
	shown, handled, unseen := here.send("claude", "codex"), here.send("claude", "codex"), here.send("claude", "codex")
	n.settle()
	there.acknowledge("codex", handled.Message.ID)
	for _, r := range []*mailbox.Receipt{shown, handled, unseen} {
		if err := mailbox.Recall(t.Context(), here.w, r.Message, "codex"); err != nil {
			t.Fatal(err)
		}
	}
	here.sync()
	noticed := gitmail.Options{TakeBack: func(_ context.Context, m *schema.Message, _ schema.AgentName, do func() error) (bool, error) {
		if m.ID == shown.Message.ID || m.ID == handled.Message.ID {
			return false, nil
		}
		return true, do()
	}}
	there.syncWith(noticed, nil)
	n.settle()
	n.want("codex", mailbox.Inbox, shown)
	n.want("codex", mailbox.Archive, handled)
	n.want("codex", mailbox.DeadLetters, unseen)
}

// TestShownDuringASync takes back a message that its recipient is shown on another machine while that one syncs. Whenever
// that is, the message is either taken back or shown.
func TestShownDuringASync(t *testing.T) {
	t.Parallel()
	for _, at := range []string{"locked", "merged", "arrived", "moved", "applied"} {
		n := newNetwork(t, 2, both...)
		here, there := n.machines[0], n.machines[1]
		r := here.send("claude", "codex")
		n.settle()
		if err := mailbox.Recall(t.Context(), here.w, r.Message, "codex"); err != nil {
			t.Fatal(err)
		}
		here.sync()
		shown := false
		options := gitmail.Options{TakeBack: func(_ context.Context, _ *schema.Message, _ schema.AgentName, do func() error) (bool, error) {
			if shown {
				return false, nil
			}
			return true, do()
		}}
		there.syncWith(options, func(name string) {
			if _, err := there.w.Pending(t.Context(), string(r.Message.ID), "codex"); name == at && err == nil {
				shown = true
			}
		})
		there.syncWith(options, nil)
		n.settle()
		if shown {
			n.want("codex", mailbox.Inbox, r)
		} else {
			n.want("codex", mailbox.DeadLetters, r)
		}
	}
}

// TestTwoMachinesRestore restores a message on two machines, one of which then acknowledges it: the other restore stays.
func TestTwoMachinesRestore(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, 2, both...)
	here, there := n.machines[0], n.machines[1]
	r := here.send("claude", "codex")
	n.settle()
	here.acknowledge("codex", r.Message.ID)
	n.settle()
	here.restore("codex", r)
	there.restore("codex", r)
	here.acknowledge("codex", r.Message.ID)
	n.settle()
	n.want("codex", mailbox.Inbox, r)
	there.acknowledge("codex", r.Message.ID)
	n.settle()
	n.want("codex", mailbox.Archive, r)
}

// TestRemovedAndAddedAgent removes an agent and adds it again, while another machine is away. What was handled stays handled.
func TestRemovedAndAddedAgent(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, 3, both...)
	here, away := n.machines[0], n.machines[2]
	handled, pending := here.send("claude", "codex"), here.send("claude", "codex")
	n.settle()
	here.acknowledge("codex", handled.Message.ID)
	here.sync()
	here.removeAgent("codex")
	here.sync()
	here.addAgent("codex")
	for range 2 {
		n.machines[1].sync()
		here.sync()
	}
	away.sync()
	n.settle()
	n.want("codex", mailbox.Inbox)
	if _, err := here.w.Restore(t.Context(), pending.Message, "codex", func(mailbox.Entry) error { return nil }); err != nil {
		t.Fatal(err)
	}
	n.settle()
	n.want("codex", mailbox.Inbox, pending)
}

// TestNameOfARemovedAgent adds an agent whose name differs only in case from that of a removed one. Machines that join later take
// it.
func TestNameOfARemovedAgent(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, 1, "codex", "Gemini")
	here := n.machines[0]
	here.removeAgent("Gemini")
	here.sync()
	here.addAgent("gemini")
	here.sync()
	joined := n.join("joined")
	joined.sync()
	r := joined.send("codex", "gemini")
	n.settle()
	n.want("gemini", mailbox.Inbox, r)
}

// TestNamesThatDifferInCase adds an agent on each of two machines whose names differ only in case. Each machine keeps its own,
// exchanges all other mail, and fails until one of them is renamed.
func TestNamesThatDifferInCase(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, 2, both...)
	here, there := n.machines[0], n.machines[1]
	here.addAgent("Gemini")
	there.addAgent("gemini")
	r, toGemini := here.send("claude", "codex"), there.send("claude", "gemini")
	here.sync()
	for _, m := range []*machine{there, here} {
		_, err := m.trySync()
		if left, ok := errors.AsType[*gitmail.LeftOut](err); !ok || left.Agent == left.Here || m.w.Knows(left.Agent) {
			t.Errorf("%s: sync = %v, want the agent that it leaves out", m.name, err)
		}
		if _, err := m.trySync(); err == nil {
			t.Errorf("%s: another sync without news succeeds", m.name)
		}
		m.want("codex", mailbox.Inbox, r)
	}
	left, err := gitmail.ReadLeftOut(here.w)
	if err != nil || len(left) != 1 || left[0].Agent != "gemini" || !slices.Equal(left[0].Pending, []string{filepath.Base(toGemini.Outbox)}) {
		t.Errorf("here, %+v, %v are left out, want gemini with a message", left, err)
	}
	there.want("gemini", mailbox.Inbox, toGemini)
	here.removeAgent("Gemini")
	n.settle()
	n.want("gemini", mailbox.Inbox, toGemini)
	if left, err := gitmail.ReadLeftOut(here.w); len(left) > 0 || err != nil {
		t.Errorf("afterwards, %+v, %v are left out", left, err)
	}
}

// TestFileIsPutBack has another program move the file of a message that was acknowledged back to the inbox.
func TestFileIsPutBack(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, 2, both...)
	here, there := n.machines[0], n.machines[1]
	r := here.send("claude", "codex")
	n.settle()
	there.acknowledge("codex", r.Message.ID)
	// Another program puts the file back where it was.
	archived := filepath.Join(there.w.BoxPath("codex", mailbox.Archive), filepath.Base(r.Outbox))
	if err := os.Rename(archived, filepath.Join(there.w.BoxPath("codex", mailbox.Inbox), filepath.Base(r.Outbox))); err != nil {
		t.Fatal(err)
	}
	n.settle()
	n.want("codex", mailbox.Archive, r)
}

// TestUnsent checks which messages count as not sent: those that no push has carried.
func TestUnsent(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, 2, both...)
	here, there := n.machines[0], n.machines[1]
	r := here.send("claude", "codex")
	if unsent, err := mailbox.Unsent(here.w); len(unsent) != 1 || err != nil {
		t.Errorf("%q, %v are not sent, want one message", unsent, err)
	}
	away := n.remote + ".away"
	if err := os.Rename(n.remote, away); err != nil {
		t.Fatal(err)
	}
	if _, err := here.trySync(); err == nil {
		t.Error("the sync reaches a remote that is away")
	}
	if unsent, _ := mailbox.Unsent(here.w); len(unsent) != 1 {
		t.Errorf("%q are not sent after a sync that failed", unsent)
	}
	if err := os.Rename(away, n.remote); err != nil {
		t.Fatal(err)
	}
	here.sync()
	there.sync()
	for _, m := range n.machines {
		if unsent, err := mailbox.Unsent(m.w); len(unsent) != 0 || err != nil {
			t.Errorf("%s: %q, %v are not sent", m.name, unsent, err)
		}
	}
	there.want("codex", mailbox.Inbox, r)
}

// TestSentWhileAnAgentIsAway sends to an agent that another machine has removed, and adds again after the mail has arrived
// there. The mail goes to the new one, on the machine of its sender, too.
func TestSentWhileAnAgentIsAway(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, 3, both...)
	here, there := n.machines[0], n.machines[1]
	here.removeAgent("codex")
	here.sync()
	here.addAgent("codex")
	r := there.send("claude", "codex")
	there.sync()
	there.syncWith(gitmail.Options{Prune: func(string) bool { return false }}, nil) // looks at all boxes without the agent
	here.sync()
	n.settle()
	n.want("codex", mailbox.Inbox, r)
}
