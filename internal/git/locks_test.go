package git

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oacp-go/oacp/internal/testing/check"
)

// TestRemoveStaleLocks removes the locks that a killed process left some time ago, and no other files.
func TestRemoveStaleLocks(t *testing.T) {
	t.Parallel()
	r := bare(t)
	tip := commitTo(t, r, "refs/heads/x", "", "one")
	root, err := os.OpenRoot(filepath.Dir(r.GitDir))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = root.Close() }()
	now := time.Now()
	old := []string{
		"HEAD.lock", "config.lock", "objects/pack/multi-pack-index.lock", "packed-refs.lock", "refs/heads/oacp.lock",
		"refs/oacp/base.lock", "refs/oacp/claims/codex/msg-20261121T1000Z-claude-0123456789abcdef.lock", "reftable/tables.list.lock", "shallow.lock",
	}
	maintained := []string{"gc.log.lock", "gc.pid.lock", "objects/info/commit-graph.lock", "objects/maintenance.lock"}
	kept := []string{"index.lock", "worktrees/other/HEAD.lock", "refs/oacp/young.lock", "refs/heads/lock", "objects/17/x.lock"}
	for _, name := range slices.Concat(old, maintained, kept) {
		at := now.Add(-LockAge - time.Second)
		switch name {
		case "refs/oacp/young.lock":
			at = now.Add(-LockAge + time.Second)
		case "objects/pack/multi-pack-index.lock":
			at = now.Add(maintenanceAge + time.Second)
		}
		path := filepath.Join(r.GitDir, name)
		check.WriteFile(t, path, "")
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("refs", filepath.Join(r.GitDir, "more.lock")); err != nil {
		t.Fatal(err)
	}
	move := func() error { return r.UpdateRefs(t.Context(), map[string]string{"refs/oacp/base": tip}) }
	if move() == nil {
		t.Fatal("git ignores its locks: the test shows nothing")
	}
	names, young, err := RemoveStaleLocks(root, "r.git", now)
	if len(young) != 1 { // no sync waits for maintenance
		t.Errorf("the young locks are %q", young)
	}
	for i := range names {
		names[i] = strings.TrimPrefix(names[i], "r.git/")
	}
	slices.Sort(names)
	if err != nil || !slices.Equal(names, old) {
		t.Errorf("found %q, %v; want %q", names, err, old)
	}
	for _, name := range append(slices.Concat(kept, maintained), "more.lock") {
		if _, err := os.Lstat(filepath.Join(r.GitDir, name)); err != nil {
			t.Errorf("%s is gone: %v", name, err)
		}
	}
	if err := move(); err != nil {
		t.Error(err)
	}
}
