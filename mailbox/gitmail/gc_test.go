package gitmail

import (
	"context"
	"crypto/sha1"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oacp-go/oacp/internal/git"
	"github.com/oacp-go/oacp/internal/testing/check"
	"github.com/oacp-go/oacp/internal/testing/gittest"
)

// litter makes as many loose objects as it takes, all in the folder that git counts.
func litter(t *testing.T, dir string) {
	t.Helper()
	const enough = 28 // in one of 256 folders, git gc --auto takes them for more than 6,700 in all
	for n, made := 0, 0; made < enough; n++ {
		content := fmt.Sprint(n)
		if sum := sha1.Sum(fmt.Appendf(nil, "blob %d\x00%s", len(content), content)); sum[0] == 0x17 {
			if _, err := gittest.Try(dir, content, "hash-object", "-w", "--stdin"); err != nil {
				t.Fatal(err)
			}
			made++
		}
	}
}

// wantLoose fails the test unless the repository has this number of loose objects.
func wantLoose(t *testing.T, dir, want string) {
	t.Helper()
	if got, _, _ := strings.Cut(gittest.Run(t, dir, "count-objects"), " "); got != want {
		t.Errorf("%s objects are loose, want %s", got, want)
	}
}

func TestGarbageIsCollected(t *testing.T) {
	t.Parallel()
	w := workspaceIn(t, t.TempDir())
	initialize(t, w, InitOptions{})
	r, err := Open(t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	const who = "Ann <ann@example.com>"
	commit := git.Commit{Author: who, Committer: who, Files: []git.File{{Path: "a", Data: []byte("a\n")}}}
	if _, err := r.git.Import(t.Context(), baseRef, "", []git.Commit{commit}, false); err != nil {
		t.Fatal(err)
	}
	crash := filepath.Join(r.git.GitDir, "fast_import_crash_17")
	check.WriteFile(t, crash, "")
	collect := func() {
		t.Helper()
		if err := r.Maintain(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	collect()
	wantLoose(t, w.Dir(), "3") // they are few
	if _, err := os.Lstat(crash); !os.IsNotExist(err) {
		t.Errorf("%s is still there: %v", crash, err)
	}
	litter(t, w.Dir())
	old := time.Now().Add(-2 * time.Hour)
	objects, err := filepath.Glob(filepath.Join(r.git.GitDir, "objects/??/*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range objects {
		if err := os.Chtimes(object, old, old); err != nil {
			t.Fatal(err)
		}
	}
	collect()
	wantLoose(t, w.Dir(), "0") // nothing refers to the old ones
	gittest.Run(t, w.Dir(), "cat-file", "-e", baseRef+":a")
	gittest.Run(t, w.Dir(), "fsck", "--strict")
}

// TestMaintenanceHoldsUpNothing syncs while git collects garbage, and after that was killed.
func TestMaintenanceHoldsUpNothing(t *testing.T) {
	t.Parallel()
	w := workspaceIn(t, t.TempDir())
	if err := os.MkdirAll(filepath.Join(w.Dir(), "agents/claude/inbox"), 0o755); err != nil {
		t.Fatal(err)
	}
	initialize(t, w, InitOptions{})
	r, err := Open(t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	hooks, reached := t.TempDir(), filepath.Join(t.TempDir(), "reached")
	check.WriteFile(t, filepath.Join(hooks, "pre-auto-gc"), fmt.Sprintf("#!/bin/sh\n: >'%s'\nexec sleep 1000\n", reached))
	if err := os.Chmod(filepath.Join(hooks, "pre-auto-gc"), 0o755); err != nil {
		t.Fatal(err)
	}
	gittest.Run(t, w.Dir(), "config", "core.hooksPath", hooks)
	r.git.Config = slices.DeleteFunc(r.git.Config, func(setting string) bool { return strings.HasPrefix(setting, "core.hooksPath=") })
	litter(t, w.Dir())
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		r.Every(ctx, time.Millisecond, Options{}, func(Result, error) {})
	}()
	for t.Context().Err() == nil {
		if _, err := os.Lstat(reached); err == nil {
			break
		}
		runtime.Gosched()
	}
	other, err := Open(t.Context(), w)
	if err == nil {
		_, err = other.Sync(t.Context(), Options{})
	}
	if err != nil {
		t.Errorf("a sync during the maintenance: %v", err)
	}
	cancel()
	<-ended
}
