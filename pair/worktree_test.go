package pair

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// newRepository returns a git repository with one commit.
func newRepository(t *testing.T) string {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "file"), []byte("one\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, arguments := range [][]string{
		{"init", "--quiet"}, {"config", "user.name", "Test"}, {"config", "user.email", "test@example.com"},
		{"add", "."}, {"commit", "--quiet", "-m", "one"},
	} {
		mustGit(t, folder, arguments...)
	}
	return folder
}

func mustGit(t *testing.T, folder string, arguments ...string) string {
	t.Helper()
	out, err := git(t.Context(), folder, arguments...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestWorktree(t *testing.T) {
	for name, test := range map[string]struct {
		work func(t *testing.T, dir string)
		kept bool
	}{
		"nothing":  {func(*testing.T, string) {}, false},
		"new file": {func(t *testing.T, dir string) { write(t, dir, "new") }, true},
		"changed":  {func(t *testing.T, dir string) { write(t, dir, "file") }, true},
		"staged":   {func(t *testing.T, dir string) { write(t, dir, "new"); mustGit(t, dir, "add", ".") }, true},
		"commit":   {func(t *testing.T, dir string) { mustGit(t, dir, "commit", "--quiet", "--allow-empty", "-m", "two") }, true},
		"left branch": {func(t *testing.T, dir string) {
			mustGit(t, dir, "commit", "--quiet", "--allow-empty", "-m", "two")
			mustGit(t, dir, "checkout", "--quiet", "--detach", "HEAD^")
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
			branches := mustGit(t, repository, "branch", "--list", "agentpair/*")
			if kept := err == nil; kept != test.kept || (branches != "") != test.kept || (s.Manifest().WorktreePath != "") != test.kept {
				t.Errorf("kept: %v with branches %q and manifest %q, want %v", kept, branches, s.Manifest().WorktreePath, test.kept)
			}
			if status := mustGit(t, repository, "status", "--porcelain"); status != "" {
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

// TestWorktreeMadeAgain: what is left of a worktree that was not finished is
// made anew, one that is gone later comes back with its commits, and the
// commits of somebody else are never touched.
func TestWorktreeMadeAgain(t *testing.T) {
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
		if err := makeWorktree(t.Context(), &m, true); err != nil {
			t.Fatal(err)
		}
	}
	mustGit(t, m.WorktreePath, "commit", "--quiet", "--allow-empty", "-m", "two")
	tip := mustGit(t, m.WorktreePath, "rev-parse", "HEAD")
	if err := os.RemoveAll(m.WorktreePath); err != nil {
		t.Fatal(err)
	}
	if err := makeWorktree(t.Context(), &m, true); err == nil || !strings.Contains(err.Error(), "agentpair/run-1") {
		t.Errorf("error %v, want one that names the branch", err)
	}
	if err := makeWorktree(t.Context(), &m, false); err != nil {
		t.Fatal(err)
	}
	if got := mustGit(t, m.WorktreePath, "rev-parse", "HEAD"); got != tip {
		t.Errorf("the worktree is at %s, want %s", got, tip)
	}
}

func TestWorktreeNeedsRepository(t *testing.T) {
	root := t.TempDir()
	if _, err := Create(root, t.TempDir(), Settings{Prompt: "x", Worktree: true}, Options{}); err == nil || !strings.Contains(err.Error(), "a worktree needs") {
		t.Errorf("error %v, want one that says what is needed", err)
	}
	if entries, err := os.ReadDir(root); err != nil || len(entries) != 0 {
		t.Errorf("%v, %v: want no run", entries, err)
	}
}
