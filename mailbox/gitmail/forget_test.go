package gitmail_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/oacp-go/oacp/internal/testing/check"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/gitmail"
	"github.com/oacp-go/oacp/schema"
)

// sendAged sends a message from claude to codex that is some days old.
func (m *machine) sendAged(days int) *mailbox.Receipt {
	m.n.t.Helper()
	message := draft("claude", "codex")
	message.CreatedAt = schema.NewTimestamp(time.Now().AddDate(0, 0, -days))
	r, err := m.w.Send(m.n.t.Context(), message, nil)
	if err != nil {
		m.n.t.Fatal(err)
	}
	return r
}

// lists returns the lists of pruned messages in the branch.
func (n *network) lists() (paths []string) {
	n.t.Helper()
	for path := range strings.Lines(n.git(n.remote, "ls-tree", "-r", "--name-only", mailRef)) {
		if strings.HasSuffix(path, "/.pruned\n") {
			paths = append(paths, strings.TrimSpace(path))
		}
	}
	return paths
}

// forget prunes everything that ended, and forgets what is known of messages that are older than some days.
func (m *machine) forget(days int) gitmail.Result {
	m.n.t.Helper()
	may, err := m.w.Prunable(m.n.t.Context(), time.Now().Add(time.Hour))
	if err != nil {
		m.n.t.Fatal(err)
	}
	result := m.syncWith(gitmail.Options{Prune: may, Forget: time.Now().AddDate(0, 0, -days)}, nil)
	if _, err := m.w.Prune(m.n.t.Context(), may, false); err != nil {
		m.n.t.Fatal(err)
	}
	return result
}

// TestForget forgets what is known of messages that were pruned. Machines that have not pruned keep their files, which changes
// nothing, and a message that was restored and not ended stays pending. So does mail that was not sent yet, whatever its age.
func TestForget(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, 3, both...)
	here, there, third := n.machines[0], n.machines[1], n.machines[2]
	done, dead, returned, young := here.sendAged(30), here.sendAged(30), here.sendAged(30), here.sendAged(10)
	n.settle()
	here.acknowledge("codex", done.Message.ID)
	here.acknowledge("codex", returned.Message.ID)
	here.acknowledge("codex", young.Message.ID)
	here.bury("codex", dead.Message.ID)
	n.settle()
	if result := here.forget(365); result.Pruned != 4 || result.Forgotten != 0 || len(n.lists()) != 5 {
		t.Fatalf("%d messages are pruned and %d forgotten, and the lists are %q", result.Pruned, result.Forgotten, n.lists())
	}
	n.settle()
	there.restore("codex", returned)
	n.settle()
	n.want("codex", mailbox.Inbox, returned)
	remembering := n.tip()
	unsent := there.sendAged(40)
	there.acknowledge("codex", unsent.Message.ID)
	if result := here.forget(20); result.Forgotten < 2 || len(n.lists()) != 2 {
		t.Errorf("%d messages are forgotten, and the lists are %q", result.Forgotten, n.lists())
	}
	n.settle()
	n.want("codex", mailbox.Inbox, returned)
	there.want("codex", mailbox.Archive, done, young, unsent)
	there.want("codex", mailbox.DeadLetters, dead)
	here.want("codex", mailbox.Archive, unsent)
	tip, tree := n.tip(), n.git(n.remote, "ls-tree", "-r", "--name-only", mailRef)
	for _, gone := range []*mailbox.Receipt{done, dead} {
		if strings.Contains(tree, filepath.Base(gone.Outbox)) {
			t.Errorf("the branch has %s again", gone.Message.ID)
		}
	}
	joined := n.join("joined")
	joined.sync()
	joined.want("codex", mailbox.Inbox, returned)
	if n.settle(); n.tip() != tip {
		t.Error("the machines go on making commits")
	}
	third.acknowledge("codex", returned.Message.ID)
	n.settle()
	n.want("codex", mailbox.Inbox)

	// A remote from a backup does not make the machines remember.
	n.git(n.remote, "update-ref", mailRef, remembering)
	third.sync()
	n.settle()
	if len(n.lists()) != 2 {
		t.Errorf("the lists are back: %q", n.lists())
	}
	n.want("codex", mailbox.Inbox)
}

// TestForgetNothingInTheFuture ignores a horizon that no clock has reached.
func TestForgetNothingInTheFuture(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, 2, both...)
	n.settle()
	h := n.newHostile()
	h.load()
	h.add("100644", ".oacp-horizon", "99991231\n")
	h.pushTo(mailRef)
	r := n.machines[0].sendAged(10)
	n.machines[0].acknowledge("codex", r.Message.ID)
	n.settle()
	n.want("codex", mailbox.Archive, r)
}

// TestRefusedPushKeepsWhatWasRead has a remote that refuses a push. What the sync has read of the boxes agrees with its commit all
// the same, so the next sync need not read it again.
func TestRefusedPushKeepsWhatWasRead(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, 1, both...)
	here := n.machines[0]
	here.send("claude", "codex")
	writeScript(t, n.remote+"/hooks/pre-receive", "exit 1")
	if _, err := here.trySync(); err == nil {
		t.Fatal("the remote takes a push")
	}
	cache, base := check.ReadFile(t, here.dir+"/state/git/cache.json"), n.git(here.dir, "rev-parse", baseRef)
	if !strings.Contains(cache, `"boxes_base":"`+base) {
		t.Errorf("the boxes of the base %s are not remembered:\n%s", base, cache)
	}
}
