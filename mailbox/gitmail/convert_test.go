package gitmail_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/oacp-go/oacp/internal/testing/check"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/gitmail"
	"github.com/oacp-go/oacp/schema"
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

// earlier is a machine with a version that checks no format: it merges what the branch has with what it sends. The landed one
// does the same, also after the mail has moved.
type earlier struct {
	n     *network
	clone string
}

// push sends a message from claude to codex, and returns the commit.
func (e earlier) push(subject string) string {
	e.n.t.Helper()
	m := draft("claude", "codex")
	m.Subject, m.Priority, m.CreatedAt = subject, schema.P2, schema.NewTimestamp(time.Now())
	m.ID = schema.ID("msg-" + m.CreatedAt.Time().Format("20060102T1504Z") + "-claude-" + strings.ToLower(subject) + "aaaaaaaa")
	name, err := m.LongFileName()
	if err != nil {
		e.n.t.Fatal(err)
	}
	data, err := schema.Encode(&m)
	if err != nil {
		e.n.t.Fatal(err)
	}
	e.n.git(e.clone, "pull", "-q", "--rebase", "origin", "oacp")
	for _, box := range []string{"claude/outbox", "codex/inbox"} {
		check.WriteFile(e.n.t, filepath.Join(e.clone, "agents", box, name), string(data))
	}
	e.n.git(e.clone, "add", "-A")
	e.n.git(e.clone, "-c", "user.name=Bob", "-c", "user.email=bob@example.org", "commit", "-q", "-m", "mail")
	e.n.git(e.clone, "push", "-q", "origin", "HEAD:oacp")
	return e.n.git(e.clone, "rev-parse", "HEAD")
}

// TestVersionsTogether has an old, a landed and a new machine on one remote at once. What the new ones merged before the mail
// moved is everywhere. What is pushed later is an error of each sync, and arrives with the machine that sent it once that is
// updated. Nothing is doubled, and what was handled stays handled.
func TestVersionsTogether(t *testing.T) {
	t.Parallel()
	n := landed(t)
	n.tolerant = true
	here, there := n.machines[0], n.machines[1]
	old := earlier{n, filepath.Join(n.dir, "earlier")}
	n.git(n.dir, "clone", "-q", "--branch", "oacp", n.remote, old.clone)
	old.push("Early")
	here.sync()
	if got := here.subjects(mailbox.Inbox); got != "Pending Dead Restored Early" {
		t.Errorf("the new machine has %q", got)
	}
	// The landed machine goes on: its folder and its base have what it sent.
	old.push("Landed")
	base := old.push("Late")
	for _, box := range []string{"claude/outbox", "codex/inbox"} {
		files, err := filepath.Glob(filepath.Join(old.clone, "agents", box, "*aaaaaaaa.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			check.WriteFile(t, filepath.Join(there.dir, "agents", box, filepath.Base(file)), check.ReadFile(t, file))
		}
	}
	n.git(there.dir, "fetch", "-q", n.remote, "+"+base+":"+baseRef)
	check.Remove(t, filepath.Join(here.dir, "state/git/old-branch")) // an hour later
	for range 2 {
		_, err := here.trySync()
		if blocked, ok := errors.AsType[*gitmail.BlockedError](err); !ok || !strings.HasSuffix(blocked.Error(), "update the machine of Bob <bob@example.org>") {
			t.Errorf("sync = %v, want the machine of Bob", err)
		}
	}
	if got := here.subjects(mailbox.Inbox); got != "Pending Dead Restored Early" {
		t.Errorf("after the mail moved, the new machine has %q", got)
	}
	n.git(old.clone, "push", "-q", "origin", "HEAD:refs/oacp/machines/feed")
	for range 2 {
		if _, err := here.trySync(); err == nil || !strings.HasSuffix(err.Error(), "update its machine") {
			t.Errorf("with mail of an earlier version on the ref of a machine, sync = %v", err)
		}
	}
	n.git(old.clone, "push", "-q", "origin", ":refs/oacp/machines/feed")
	there.sync() // the landed machine is updated
	n.settle()
	for _, m := range n.machines {
		for box, want := range map[mailbox.Box]string{
			mailbox.Inbox: "Pending Dead Restored RestoredThere Early Landed Late", mailbox.Archive: "Handled", mailbox.DeadLetters: "Recalled",
		} {
			if got := m.subjects(box); got != want {
				t.Errorf("%s: the %s of codex holds %q, want %q", m.name, box, got, want)
			}
		}
	}
}

// TestFirstVersions syncs while the branch of the first versions, which had no format, has mail.
func TestFirstVersions(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, 1, both...)
	first := filepath.Join(n.dir, "first")
	n.git(n.dir, "init", "-q", first)
	check.WriteFile(t, filepath.Join(first, "agents/claude/inbox/.gitkeep"), "")
	check.WriteFile(t, filepath.Join(first, "workspace.json"), "{}")
	n.git(first, "add", "-A")
	n.git(first, "commit", "-q", "-m", "mail")
	n.git(first, "push", "-q", n.remote, "HEAD:refs/heads/oacp")
	check.Remove(t, filepath.Join(n.machines[0].dir, "state/git/old-branch"))
	if _, err := n.machines[0].trySync(); !errors.Is(err, gitmail.ErrForeignBranch) {
		t.Errorf("sync = %v, want ErrForeignBranch", err)
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
