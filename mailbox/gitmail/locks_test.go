package gitmail

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oacp-go/oacp/internal/git"
)

// lockAt makes a lock as a process leaves it that was killed some time ago.
func lockAt(t *testing.T, g *git.Repository, name string, at time.Time) {
	t.Helper()
	path := filepath.Join(g.GitDir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(path, at, at); err != nil {
		t.Fatal(err)
	}
}

func TestStaleLocksAreRemoved(t *testing.T) {
	t.Parallel()
	r := newRepository(t)
	g := r.git
	tip := addCommit(t, g, "a", "a", noon(1))
	now := time.Now()
	old := []string{
		"HEAD.lock", "config.lock", "objects/info/commit-graph.lock", "packed-refs.lock", "refs/heads/oacp.lock",
		"refs/oacp/base.lock", "refs/oacp/claims/codex/msg-20261121T1000Z-claude-0123456789abcdef.lock", "reftable/tables.list.lock", "shallow.lock",
	}
	kept := []string{"index.lock", "worktrees/other/HEAD.lock", "refs/oacp/young.lock", "refs/heads/lock", "objects/17/x.lock"}
	for _, name := range slices.Concat(old, kept) {
		at := now.Add(-11 * time.Second)
		if name == "refs/oacp/young.lock" {
			at = now.Add(-9 * time.Second)
		}
		lockAt(t, g, name, at)
	}
	if err := os.Symlink("refs", filepath.Join(g.GitDir, "more.lock")); err != nil {
		t.Fatal(err)
	}
	if _, err := g.Run(t.Context(), "update-ref", "refs/oacp/base", tip); err == nil {
		t.Fatal("git ignores its locks: the test shows nothing")
	}
	names, _, err := git.Locks(r.w.Root(), ".git", now)
	for i := range names {
		names[i] = strings.TrimPrefix(names[i], ".git/")
	}
	slices.Sort(names)
	if err != nil || !slices.Equal(names, old) {
		t.Errorf("found %q, %v; want %q", names, err, old)
	}
	if _, _, err := git.RemoveStaleLocks(r.w.Root(), ".git", now); err != nil {
		t.Error(err)
	}
	for _, name := range append(kept, "more.lock") {
		if _, err := os.Lstat(filepath.Join(g.GitDir, name)); err != nil {
			t.Errorf("%s is gone: %v", name, err)
		}
	}
	runGit(t, g, "update-ref", "refs/oacp/base", tip)
	runGit(t, g, "config", "oacp.ref", "refs/heads/oacp")
}
