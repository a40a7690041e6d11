package gitmail

import (
	"crypto/sha1"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/oacp-go/oacp/internal/git"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/project"
)

// newRepository makes a workspace whose folder .git is a bare repository of its own.
func newRepository(t *testing.T) *Repository {
	t.Helper()
	g := newHistory(t, "sha1")
	dir := t.TempDir()
	if _, err := project.Init(dir, project.InitOptions{Now: time.Now()}); err != nil {
		t.Fatal(err)
	}
	moved := filepath.Join(dir, ".git")
	if err := os.Rename(g.GitDir, moved); err != nil {
		t.Fatal(err)
	}
	g.GitDir = moved
	w, err := mailbox.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	return &Repository{w: w, git: g, now: time.Now}
}

// litter makes as many loose objects as it takes, all in the folder that git counts.
func litter(t *testing.T, r *Repository) {
	t.Helper()
	const enough = 28 // in one of 256 folders, git gc --auto takes them for more than 6,700 in all
	for n, made := 0, 0; made < enough; n++ {
		content := fmt.Sprint(n)
		if sum := sha1.Sum(fmt.Appendf(nil, "blob %d\x00%s", len(content), content)); sum[0] == 0x17 {
			feedGit(t, r.git, content, "hash-object", "-w", "--stdin")
			made++
		}
	}
}

func loose(t *testing.T, g *git.Repository) string {
	t.Helper()
	count, _, _ := strings.Cut(runGit(t, g, "count-objects"), " ")
	return count
}

func TestGarbageIsCollected(t *testing.T) {
	t.Parallel()
	r := newRepository(t)
	g := r.git
	runGit(t, g, "update-ref", "refs/oacp/base", addCommit(t, g, "a", "a", noon(1)))
	crash := filepath.Join(g.GitDir, "fast_import_crash_17")
	if err := os.WriteFile(crash, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	collect := func() {
		t.Helper()
		if err := r.collectGarbage(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	collect()
	if got := loose(t, g); got != "3" {
		t.Errorf("%s loose objects, want the 3 that are few", got)
	}
	if _, err := os.Lstat(crash); !os.IsNotExist(err) {
		t.Errorf("%s is still there: %v", crash, err)
	}
	litter(t, r)
	old := time.Now().Add(-2 * time.Hour)
	objects, err := filepath.Glob(filepath.Join(g.GitDir, "objects/??/*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range objects {
		if err := os.Chtimes(object, old, old); err != nil {
			t.Fatal(err)
		}
	}
	collect()
	if got := loose(t, g); got != "0" {
		t.Errorf("%s objects are loose, want none: nothing leads to the old ones", got)
	}
	runGit(t, g, "cat-file", "-e", "refs/oacp/base:a")
	runGit(t, g, "fsck", "--strict")
}
