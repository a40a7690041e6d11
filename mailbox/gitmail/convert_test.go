package gitmail_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/oacp-go/oacp/internal/testing/check"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/gitmail"
)

// landed makes the network that testdata/landed.bundle recorded with the version that counted epochs. Two machines shared the
// branch oacp. On it, codex has a pending message, one that it handled, one that was taken back, and one that it handled and that
// was restored (epoch 1); the agent gone was removed. The machine there was away when it was, and has since restored another
// message, RestoredThere. folder-M is what the folder of machine M held, and base-M its base.
func landed(t *testing.T) *network {
	t.Helper()
	n := newRemote(t)
	bundle, err := filepath.Abs("testdata/landed.bundle")
	if err != nil {
		t.Fatal(err)
	}
	n.git(n.remote, "fetch", "-q", bundle, "refs/heads/oacp:refs/heads/oacp")
	for _, name := range []string{"here", "there"} {
		m := n.clone(name)
		folder := filepath.Join(n.dir, "folder-"+name)
		n.git(n.dir, "clone", "-q", "--branch", "folder-"+name, bundle, folder)
		check.Remove(t, filepath.Join(folder, ".git"))
		if err := os.CopyFS(m.dir, os.DirFS(folder)); err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{"codex/outbox", "claude/dead_letter", "codex/dead_letter"} { // git kept no empty folders
			if err := os.MkdirAll(filepath.Join(m.dir, "agents", path), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		m.init()
		n.git(m.dir, "fetch", "-q", bundle, "refs/heads/base-"+name+":"+baseRef)
	}
	return n
}

// subjects returns the subjects of the messages in a box.
func (m *machine) subjects(box mailbox.Box) string {
	m.n.t.Helper()
	entries, err := m.w.List(m.n.t.Context(), "codex", box)
	if err != nil {
		m.n.t.Fatal(err)
	}
	var all []string
	for _, e := range mailbox.InOrder(entries) {
		all = append(all, e.Message.Subject)
	}
	return strings.Join(all, " ")
}

// TestConvert syncs the two machines of an earlier version. They agree on all that happened, also on what only one of them knew, and
// the earlier branch says where its mail is. What an earlier version pushes there later is reported, and does not arrive.
func TestConvert(t *testing.T) {
	t.Parallel()
	for _, order := range [][]int{{0, 1}, {1, 0}} {
		n := landed(t)
		n.tolerant = true
		for _, i := range order {
			n.machines[i].sync()
		}
		n.settle()
		for _, m := range n.machines {
			for box, want := range map[mailbox.Box]string{
				mailbox.Inbox: "Pending Dead Restored RestoredThere", mailbox.Archive: "Handled", mailbox.DeadLetters: "Recalled",
			} {
				if got := m.subjects(box); got != want {
					t.Errorf("%v: %s: the %s of codex holds %q, want %q", order, m.name, box, got, want)
				}
			}
			if m.w.Knows("gone") {
				t.Errorf("%v: %s has the agent that was removed", order, m.name)
			}
		}
		if got := n.git(n.remote, "show", "refs/heads/oacp:.oacp-format"); got != "moved to "+mailRef {
			t.Errorf("%v: the earlier branch says %q", order, got)
		}
	}
}

// TestEarlierVersionPushes has a machine with an earlier version push to its branch after the mail has moved.
func TestEarlierVersionPushes(t *testing.T) {
	t.Parallel()
	n := landed(t)
	n.tolerant = true
	n.settle()
	clone := filepath.Join(n.dir, "earlier")
	n.git(n.dir, "clone", "-q", "--branch", "oacp", n.remote, clone)
	check.WriteFile(t, filepath.Join(clone, "agents/codex/inbox/20261128T1500Z_claude_notification_aaaaaaaaaaaaaaaa.yaml"), "x\n")
	n.git(clone, "add", "-A")
	n.git(clone, "-c", "user.name=Bob", "-c", "user.email=bob@example.org", "commit", "-q", "-m", "late")
	n.git(clone, "push", "-q", "origin", "oacp")
	check.Remove(t, filepath.Join(n.machines[0].dir, "state/git/old-branch")) // an hour later
	result := n.machines[0].sync()
	if len(result.Problems) != 1 || !strings.Contains(result.Problems[0].Err.Error(), "Bob <bob@example.org>") {
		t.Errorf("the problems are %v, want the machine of Bob", result.Problems)
	}
	if got := n.machines[0].subjects(mailbox.Inbox); strings.Count(got, " ") != 3 {
		t.Errorf("codex has %q", got)
	}
}

// TestJoinAnEarlierVersion joins a remote that only has the branch of an earlier version.
func TestJoinAnEarlierVersion(t *testing.T) {
	t.Parallel()
	n := landed(t)
	m := n.clone("new")
	m.plain()
	made, err := gitmail.Init(t.Context(), m.w, gitmail.InitOptions{Remote: "origin", Enclosing: m.clone, All: true})
	if err != nil || !made.Found || len(made.Agents) != 2 {
		t.Fatalf("init = %+v, %v", made, err)
	}
	m.sync()
	if got := m.subjects(mailbox.Inbox); got != "Pending Dead Restored" {
		t.Errorf("codex has %q", got)
	}
}
