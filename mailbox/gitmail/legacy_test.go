package gitmail_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/oacp-go/oacp/internal/testing/check"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/gitmail"
)

// recorded returns the machines here and there, and the branch, as the previous version left them. Here, three messages
// were handled: two before the last sync, and one after it. The machine there does not know of that.
func recorded(t *testing.T) *network {
	t.Helper()
	n := newRemote(t)
	n.tolerant = true
	n.gitInput(n.remote, check.ReadFile(t, "testdata/landed/branch.txt"), "fast-import", "--quiet", "--force")
	for _, name := range []string{"here", "there"} {
		m := &machine{n: n, name: name, clone: n.dir, dir: filepath.Join(n.dir, name)}
		if err := os.CopyFS(m.dir, os.DirFS("testdata/landed/"+name)); err != nil {
			t.Fatal(err)
		}
		n.git(m.dir, "init", "--quiet", "--bare", ".git")
		config := strings.ReplaceAll(check.ReadFile(t, filepath.Join(m.dir, "config.txt")), "ROOT/hub.git", n.remote)
		check.WriteFile(t, filepath.Join(m.dir, ".git/config"), config)
		n.gitInput(m.dir, check.ReadFile(t, filepath.Join(m.dir, "base.txt")), "fast-import", "--quiet", "--force")
		if err := m.open(); err != nil {
			t.Fatal(err)
		}
		n.machines = append(n.machines, m)
	}
	return n
}

// subjects returns the subjects of the messages in a box, sorted.
func (m *machine) subjects(box mailbox.Box) (subjects []string) {
	m.n.t.Helper()
	entries, err := m.w.List(m.n.t.Context(), "codex", box)
	if err != nil {
		m.n.t.Fatal(err)
	}
	for _, e := range entries {
		subjects = append(subjects, e.Message.Subject)
	}
	slices.Sort(subjects)
	return subjects
}

// TestLandedVersion syncs workspaces and a branch of the previous version, in which a missing inbox copy said that a
// message was handled. Handled messages stay handled, no matter which machine syncs first.
func TestLandedVersion(t *testing.T) {
	t.Parallel()
	for _, first := range []string{"here", "there", "new"} {
		t.Run(first+" first", func(t *testing.T) {
			n := recorded(t)
			here, there := n.machines[0], n.machines[1]
			switch first {
			case "there":
				there.sync()
			case "new":
				m := n.clone("new")
				m.init()
				m.sync()
				there.sync()
				if got := there.subjects(mailbox.Inbox); fmt.Sprint(got) != "[acknowledged later pending]" {
					t.Errorf("there, %q are pending, want what the branch says", got)
				}
			}
			here.sync()
			there.sync()
			n.settle()
			for _, m := range n.machines {
				if got := m.subjects(mailbox.Inbox); fmt.Sprint(got) != "[pending]" {
					t.Errorf("%s has %q pending, want one message", m.name, got)
				}
			}
			handled := []string{"acknowledged", "acknowledged later", "archived"}
			if got := here.subjects(mailbox.Archive); !slices.Equal(got, handled) {
				t.Errorf("here, the archive has %q, want %q", got, handled)
			}
			tree := n.git(n.remote, "ls-tree", "-r", "--name-only", mailRef)
			if got := strings.Count(tree, "/archive/"); got != 3 || !strings.Contains(tree, ".oacp-format") {
				t.Errorf("the branch is\n%s\nwant three archived messages", tree)
			}
			r, err := gitmail.Open(t.Context(), here.w)
			if err != nil {
				t.Fatal(err)
			}
			if result, err := r.Sync(t.Context(), gitmail.Options{}); err != nil || len(result.Changes) > 0 {
				t.Errorf("another sync = %+v, %v", result, err)
			}
		})
	}
}
