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

// litter makes as many loose objects as it takes, all in the folder that is counted.
func litter(t *testing.T, r *Repository) {
	t.Helper()
	for n := 0; !r.worthCollecting(); n++ {
		content := fmt.Sprint(n)
		if sum := sha1.Sum(fmt.Appendf(nil, "blob %d\x00%s", len(content), content)); sum[0] == 0x17 {
			feedGit(t, r.git, content, "hash-object", "-w", "--stdin")
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
	now := time.Now()
	collect := func(at time.Time) {
		t.Helper()
		r.now = func() time.Time { return at }
		if err := r.collectGarbage(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	collect(now)
	if got := loose(t, g); got != "3" {
		t.Errorf("%s loose objects, want the 3 that are few", got)
	}
	if _, err := os.Lstat(crash); !os.IsNotExist(err) {
		t.Errorf("%s is still there: %v", crash, err)
	}

	litter(t, r)
	collect(now)
	if got, want := loose(t, g), fmt.Sprint(looseLimit+1); got != want {
		t.Errorf("%s objects are loose, want the %s that nothing leads to yet", got, want)
	}
	runGit(t, g, "cat-file", "-e", "refs/oacp/base:a")

	// Nothing happens again within the hour. Then what is old goes.
	old := now.Add(-2 * time.Hour)
	objects, err := filepath.Glob(filepath.Join(g.GitDir, "objects/??/*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range objects {
		if err := os.Chtimes(object, old, old); err != nil {
			t.Fatal(err)
		}
	}
	before := loose(t, g)
	collect(now.Add(time.Minute))
	if got := loose(t, g); got != before {
		t.Errorf("%s of %s objects are loose a minute later, want no second collection", got, before)
	}
	collect(now.Add(2 * time.Hour))
	if got := loose(t, g); got != "0" {
		t.Errorf("%s objects are loose after the hour, want none", got)
	}
	runGit(t, g, "cat-file", "-e", "refs/oacp/base:a")
	runGit(t, g, "fsck", "--strict")
}

func TestManyPacksAreGarbage(t *testing.T) {
	t.Parallel()
	r := newRepository(t)
	g := r.git
	for n := range packLimit + 1 {
		if r.worthCollecting() {
			t.Fatalf("%d packs are called many", n)
		}
		name := filepath.Join(g.GitDir, packFolder, fmt.Sprintf("pack-%d.pack", n))
		if err := os.WriteFile(name, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if !r.worthCollecting() {
		t.Errorf("%d packs are not called many", packLimit+1)
	}
}

// TestCollectionThatFails checks that a damaged repository is not collected at every sync.
func TestCollectionThatFails(t *testing.T) {
	t.Parallel()
	r := newRepository(t)
	g := r.git
	litter(t, r)
	if err := os.WriteFile(filepath.Join(g.GitDir, "refs/heads/bad"), []byte(strings.Repeat("1", 40)+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := r.collectGarbage(t.Context()); err == nil {
		t.Error("a collection of a damaged repository succeeds")
	}
	if err := r.collectGarbage(t.Context()); err != nil {
		t.Errorf("it is tried again at once: %v", err)
	}
}
