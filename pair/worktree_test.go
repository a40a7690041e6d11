package pair

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/oacp-go/oacp/internal/testing/gittest"
)

// newRepository returns a git repository with one commit.
func newRepository(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "file"), []byte("one\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, arguments := range [][]string{
		{"init", "--quiet"}, {"config", "user.name", "Test"}, {"config", "user.email", "test@example.com"},
		{"add", "."}, {"commit", "--quiet", "-m", "one"},
	} {
		gittest.Run(t, folder, arguments...)
	}
	return folder
}

func TestWorktree(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		work func(t *testing.T, dir string)
		kept bool
	}{
		"nothing":  {func(*testing.T, string) {}, false},
		"new file": {func(t *testing.T, dir string) { write(t, dir, "new") }, true},
		"changed":  {func(t *testing.T, dir string) { write(t, dir, "file") }, true},
		"staged":   {func(t *testing.T, dir string) { write(t, dir, "new"); gittest.Run(t, dir, "add", ".") }, true},
		"commit":   {func(t *testing.T, dir string) { gittest.Run(t, dir, "commit", "--quiet", "--allow-empty", "-m", "two") }, true},
		"locked":   {func(t *testing.T, dir string) { gittest.Run(t, dir, "worktree", "lock", ".") }, true},
		"no git": {func(t *testing.T, dir string) {
			if err := os.Remove(filepath.Join(dir, ".git")); err != nil {
				t.Error(err)
			}
		}, true},
		"left branch": {func(t *testing.T, dir string) {
			gittest.Run(t, dir, "commit", "--quiet", "--allow-empty", "-m", "two")
			gittest.Run(t, dir, "checkout", "--quiet", "--detach", "HEAD^")
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			repository := newRepository(t)
			s, err := Create(t.TempDir(), repository, Settings{Prompt: "x", Review: ReviewNone, Worktree: true}, Options{})
			if err != nil {
				t.Fatal(err)
			}
			dir := s.Manifest().WorktreePath
			s.options.NewDriver = scripted(func(call) (string, error) { test.work(t, dir); return "DONE", nil }).NewDriver
			if err := errors.Join(s.Run(t.Context()), s.Close()); err != nil {
				t.Fatal(err)
			}
			_, err = os.Stat(dir)
			branches := gittest.Run(t, repository, "branch", "--list", "agentpair/*")
			if kept := err == nil; kept != test.kept || (branches != "") != test.kept || (s.Manifest().WorktreePath != "") != test.kept {
				t.Errorf("kept: %v with branches %q and manifest %q, want %v", kept, branches, s.Manifest().WorktreePath, test.kept)
			}
			if status := gittest.Run(t, repository, "status", "--porcelain"); status != "" {
				t.Errorf("the repository itself was changed: %s", status)
			}
		})
	}
}

func write(t *testing.T, folder, name string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(folder, name), []byte("two\n"), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestWorktreeMadeAgain checks that an unfinished worktree is made again, and that the commits of others are never touched.
func TestWorktreeMadeAgain(t *testing.T) {
	t.Parallel()
	repository := newRepository(t)
	s, err := Create(t.TempDir(), repository, Settings{Prompt: "x", Worktree: true}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	m := s.Manifest()
	write(t, s.Place().Folder, "worktree") // a file in the way
	for range 2 {
		if err := makeWorktree(t.Context(), &m); err != nil {
			t.Fatal(err)
		}
	}
	gittest.Run(t, m.WorktreePath, "commit", "--quiet", "--allow-empty", "-m", "two")
	tip := gittest.Run(t, m.WorktreePath, "rev-parse", "HEAD")
	if err := os.RemoveAll(m.WorktreePath); err != nil {
		t.Fatal(err)
	}
	if err := makeWorktree(t.Context(), &m); err == nil || !strings.Contains(err.Error(), "agentpair/run-1") {
		t.Errorf("error %v, want one that names the branch", err)
	}
	if got := gittest.Run(t, repository, "rev-parse", "agentpair/run-1"); got != tip {
		t.Errorf("the branch is at %s, want %s", got, tip)
	}
}

// TestWorktreeSubmodules checks that a worktree with initialized submodules is kept, since they may
// have their own commits.
func TestWorktreeSubmodules(t *testing.T) {
	t.Parallel()
	library := newRepository(t)
	for name, test := range map[string]struct {
		work func(t *testing.T, module string)
		kept bool
	}{
		"not initialised": {nil, false},
		"initialised":     {func(*testing.T, string) {}, true},
		"changed":         {func(t *testing.T, module string) { write(t, module, "file") }, true},
		"new file":        {func(t *testing.T, module string) { write(t, module, "new") }, true},
		"commit": {func(t *testing.T, module string) {
			gittest.Run(t, module, "-c", "user.name=x", "-c", "user.email=x", "commit", "--quiet", "--allow-empty", "-m", "two")
		}, true},
		"left branch": {func(t *testing.T, module string) {
			gittest.Run(t, module, "checkout", "--quiet", "-b", "other")
			gittest.Run(t, module, "-c", "user.name=x", "-c", "user.email=x", "commit", "--quiet", "--allow-empty", "-m", "two")
			gittest.Run(t, module, "checkout", "--quiet", "HEAD^")
		}, true},
		"stash": {func(t *testing.T, module string) {
			write(t, module, "file")
			gittest.Run(t, module, "-c", "user.name=x", "-c", "user.email=x", "stash", "--quiet")
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			repository := newRepository(t)
			gittest.Run(t, repository, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", library, "a library")
			gittest.Run(t, repository, "commit", "--quiet", "-m", "with a submodule")
			s, err := Create(t.TempDir(), repository, Settings{Prompt: "x", Review: ReviewNone, Worktree: true}, Options{})
			if err != nil {
				t.Fatal(err)
			}
			dir := s.Manifest().WorktreePath
			s.options.NewDriver = scripted(func(call) (string, error) {
				if test.work != nil {
					gittest.Run(t, dir, "-c", "protocol.file.allow=always", "submodule", "--quiet", "update", "--init")
					test.work(t, filepath.Join(dir, "a library"))
				}
				return "DONE", nil
			}).NewDriver
			if err := errors.Join(s.Run(t.Context()), s.Close()); err != nil {
				t.Fatal(err)
			}
			branches := gittest.Run(t, repository, "branch", "--list", "agentpair/*")
			if _, err := os.Stat(dir); (err == nil) != test.kept || (branches != "") != test.kept {
				t.Errorf("the worktree: %v, with branches %q; want it kept: %v", err, branches, test.kept)
			}
		})
	}
}

// notices returns the notices of a run, beginning with the transcript's.
func notices(s *Session) *[]string {
	var told []string
	s.options.Observe = func(e Entry) {
		if e.Type == EntryNotice {
			told = append(told, e.Content)
		}
	}
	return &told
}

// TestWorktreeNotices checks that a run reports what its worktree lacks, and stops if it is gone.
func TestWorktreeNotices(t *testing.T) {
	t.Parallel()
	repository := newRepository(t)
	write(t, repository, "not committed")
	var calls []call
	s, err := Create(t.TempDir(), repository, Settings{Prompt: "x", Review: ReviewClaude, Proof: "true", Worktree: true}, lines(t, &calls, "codex: DONE", "claude: FAIL", "codex: DONE", "claude: PASS"))
	if err != nil {
		t.Fatal(err)
	}
	told := notices(s)
	dir := s.Manifest().WorktreePath
	enough := errors.New("enough")
	ctx, stop := context.WithCancelCause(t.Context())
	observe := s.options.Observe
	s.options.Observe = func(e Entry) {
		observe(e)
		if e.Type == EntryResult && len(calls) == 1 {
			stop(enough) // before the proof
		}
	}
	if err := s.Run(ctx); !errors.Is(err, enough) {
		t.Fatal(err)
	}
	if err := errors.Join(s.Close(), os.RemoveAll(dir)); err != nil {
		t.Fatal(err)
	}
	if s, err = Resume(s.Place(), s.options); err != nil {
		t.Fatal(err)
	}
	again := "git -C " + repository + " worktree add --force " + dir + " agentpair/run-1"
	if err := s.Run(t.Context()); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), again) {
		t.Errorf("without the worktree: error %v, want one with: %s", err, again)
	}
	gittest.Run(t, repository, "worktree", "add", "--quiet", "--force", dir, "agentpair/run-1")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err = Resume(s.Place(), s.options); err != nil {
		t.Fatal(err)
	}
	s.options.Observe = func(e Entry) {
		observe(e)
		if e.Type == EntryIteration && e.Iteration == 2 {
			write(t, dir, "new")
		}
	}
	if err := errors.Join(s.Run(t.Context()), s.Close()); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"the worktree is without the uncommitted changes in " + repository,
	}
	if !slices.Equal(*told, want) {
		t.Errorf("notices:\n%s\nwant:\n%s", strings.Join(*told, "\n"), strings.Join(want, "\n"))
	}
}

// TestWorktreeHalfRemoved checks that, if a process died after removing the worktree but before
// removing its branch, the branch is removed later unless it holds commits.
func TestWorktreeHalfRemoved(t *testing.T) {
	t.Parallel()
	for name, commits := range map[string]bool{"nothing in it": false, "commits": true} {
		t.Run(name, func(t *testing.T) {
			repository := newRepository(t)
			s, err := Create(t.TempDir(), repository, Settings{Prompt: "x", Worktree: true}, Options{})
			if err != nil {
				t.Fatal(err)
			}
			m := s.Manifest()
			if err := makeWorktree(t.Context(), &m); err != nil {
				t.Fatal(err)
			}
			if commits {
				gittest.Run(t, m.WorktreePath, "commit", "--quiet", "--allow-empty", "-m", "two")
			}
			gittest.Run(t, repository, "worktree", "remove", m.WorktreePath)
			for range 2 {
				kept, err := tidyWorktree(t.Context(), &m)
				if err != nil || (kept != nil) != commits {
					t.Errorf("kept %+v, %v; want something kept: %v", kept, err, commits)
				}
			}
			if branches := gittest.Run(t, repository, "branch", "--list", "agentpair/*"); (branches != "") != commits {
				t.Errorf("branches %q, want some: %v", branches, commits)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestWorktreeNeedsRepository(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	if _, err := Create(root, t.TempDir(), Settings{Prompt: "x", Worktree: true}, Options{}); err == nil || !strings.Contains(err.Error(), "a worktree needs") {
		t.Errorf("error %v, want one that says what is needed", err)
	}
	if entries, err := os.ReadDir(root); err != nil || len(entries) != 0 {
		t.Errorf("%v, %v: want no run", entries, err)
	}
}
