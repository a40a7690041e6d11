package gitmail_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/oacp-go/oacp/internal/testing/check"
	"github.com/oacp-go/oacp/internal/testing/gittest"
	"github.com/oacp-go/oacp/mailbox"
)

// TestUserCleansUp checks that what a user does to the untracked and ignored files of the clone leaves
// the mailbox alive.
func TestUserCleansUp(t *testing.T) {
	notInShort(t)
	t.Parallel()
	original := newRemote(t)
	here := original.clone("here")
	disturb(t, here)
	here.init(both...)
	original.join("there", both...)
	first := here.send("claude", "codex")
	original.settle()
	second := here.send("claude", "codex")
	for _, command := range [][]string{
		{"clean", "-fdx"}, {"stash", "push", "--all"}, {"stash", "push", "--include-untracked"}, {"add", "-A"},
		{"commit", "-am", "All"}, {"reset", "--hard", "HEAD~1"}, {"gc", "--quiet", "--prune=now"}, {"rm", "-rf", "--quiet", "."},
		{"fetch", "--prune", "--all"}, {"pull", "--rebase", "--autostash"},
	} {
		t.Run(strings.Join(command, " "), func(t *testing.T) {
			n := original.copy(t)
			here, there := n.machines[0], n.machines[1]
			n.git(here.clone, command...)
			if tracked := n.git(here.clone, "ls-files", ".oacp"); tracked != "" {
				t.Errorf("the user's repository tracks %q", tracked)
			}
			n.settle()
			there.want("codex", mailbox.Inbox, first, second)
			n.checkEqual()
		})
	}
}

// TestLinkedWorktree makes the mailboxes in a linked worktree, with the configuration of the main one.
func TestLinkedWorktree(t *testing.T) {
	t.Parallel()
	n := newRemote(t)
	here := n.clone("here")
	there := n.join("there", "claude", "codex")
	there.sync()
	linked := filepath.Join(n.dir, "linked")
	n.git(here.clone, "worktree", "add", "--quiet", "-b", "side", linked)
	disturb(t, here)
	before := takeSnapshot(t, here.clone)
	here.clone, here.dir = linked, filepath.Join(linked, ".oacp")
	here.wantMailFrom(there)
	before.compare(t, "mail in a linked worktree", ".git/info/exclude")
	if status := n.git(linked, "status", "--porcelain"); status != "" {
		t.Errorf("git status in the worktree says %q", status)
	}
}

// wantMailFrom makes the mailboxes of a machine, and checks that mail of another one comes.
func (m *machine) wantMailFrom(other *machine) {
	m.n.t.Helper()
	m.init("claude", "codex")
	r := other.send("codex", "claude")
	m.n.settle()
	m.want("claude", mailbox.Inbox, r)
	m.n.checkEqual()
}

// TestSubmodule makes the mailboxes in a submodule of another repository.
func TestSubmodule(t *testing.T) {
	t.Parallel()
	n := newRemote(t)
	there := n.join("there", "claude", "codex")
	there.sync()
	outer := filepath.Join(n.dir, "outer")
	n.git(n.dir, "init", "--quiet", outer)
	n.git(outer, "submodule", "--quiet", "add", n.remote, "inner")
	n.git(outer, "commit", "--quiet", "-m", "With a submodule")
	here := &machine{n: n, name: "here", clone: filepath.Join(outer, "inner")}
	here.dir = filepath.Join(here.clone, ".oacp")
	n.machines = append(n.machines, here)
	before := takeSnapshot(t, outer)
	here.wantMailFrom(there)
	before.compare(t, "mail in a submodule", ".git/modules/inner/info/exclude")
	if status := n.git(outer, "status", "--porcelain"); status != "" {
		t.Errorf("git status around the submodule says %q", status)
	}
}

// TestStrayRepository has a repository and a folder named .git above the workspace that have nothing
// to do with it.
func TestStrayRepository(t *testing.T) {
	t.Parallel()
	for _, stray := range []string{"repository", "folder", "file"} {
		t.Run(stray, func(t *testing.T) {
			n := newRemote(t)
			switch stray {
			case "repository":
				n.git(n.dir, "init", "--quiet", n.dir)
			case "folder":
				if err := os.Mkdir(filepath.Join(n.dir, ".git"), 0o755); err != nil {
					t.Fatal(err)
				}
			case "file":
				check.WriteFile(t, filepath.Join(n.dir, ".git"), "gitdir: nowhere\n")
			}
			here, there := n.join("here", "claude", "codex"), n.join("there", "claude", "codex")
			r := here.send("claude", "codex")
			n.settle()
			there.want("codex", mailbox.Inbox, r)
			n.checkEqual()
		})
	}
}

// TestSomeoneElsesRepository has a workspace that belongs to another user, as in a container with the
// files of the host. Git refuses such repositories unless safe.directory lists them.
func TestSomeoneElsesRepository(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("changing the owner of files needs root")
	}
	n := newNetwork(t, 1, "claude", "codex")
	here := n.machines[0]
	here.send("claude", "codex")
	for _, path := range []string{here.clone, here.dir, filepath.Join(here.dir, ".git"), filepath.Join(here.clone, ".git")} {
		if err := os.Chown(path, 4242, 4242); err != nil {
			t.Fatal(err)
		}
	}
	_, err := here.trySync()
	if err != nil && !strings.Contains(err.Error(), "safe.directory") {
		t.Errorf("sync = %v, want success, or what git says about safe.directory", err)
	}
	t.Logf("sync = %v", err)
	config := filepath.Join(n.dir, "safe")
	check.WriteFile(t, config, gittest.Settings+"[safe]\n\tdirectory = *\n")
	t.Setenv("GIT_CONFIG_GLOBAL", config)
	n.settle()
	n.checkEqual()
}
