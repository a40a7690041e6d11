//go:build unix

package git

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// fake puts a git that is a shell script first on the PATH.
func fake(t *testing.T, script string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "git"), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
}

func TestCheck(t *testing.T) {
	ctx := t.Context()
	if err := Check(ctx); err != nil {
		t.Error(err)
	}
	for version, old := range map[string]bool{
		"git version 2.29.9": true, "git version 1.99": true, "git version 2.30.0": false, "git version 3.0": false,
		"git version 2.39.5 (Apple Git-154)": false,
	} {
		t.Run(version, func(t *testing.T) {
			fake(t, "echo '"+version+"'")
			if isOld := errors.Is(Check(ctx), ErrTooOld); isOld != old {
				t.Errorf("old is %v, want %v", isOld, old)
			}
		})
	}
	t.Setenv("PATH", t.TempDir())
	if err := Check(ctx); !errors.Is(err, ErrMissing) {
		t.Errorf("got %v, want ErrMissing", err)
	}
}

// TestEnvironment checks that git does not see the variables of a hook around this process.
func TestEnvironment(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("GIT_DIR", filepath.Join(dir, "elsewhere"))
	t.Setenv("GIT_CONFIG_COUNT", "x")
	t.Setenv("GIT_CONFIG_GLOBAL", filepath.Join(dir, "config"))
	r := &Repository{Dir: dir, Config: []string{"user.name=Ann Other"}}
	if _, err := r.Run(t.Context(), "init", "--quiet"); err != nil {
		t.Fatal(err)
	}
	out, err := r.Run(t.Context(), "config", "user.name")
	if err != nil || string(out) != "Ann Other\n" {
		t.Errorf("got %q, %v", out, err)
	}
	_, err = r.Run(t.Context(), "rev-parse", "--verify", "--quiet", "HEAD")
	if Exit(err) != 1 {
		t.Errorf("got exit status %d (%v), want 1", Exit(err), err)
	}
	_, err = r.Run(t.Context(), "no-such-command")
	if err == nil || !strings.Contains(err.Error(), "git no-such-command: ") {
		t.Errorf("got %v", err)
	}
}

// TestKill checks that a git that hangs ends with its children when the context does, although a
// child keeps its output open.
func TestKill(t *testing.T) {
	fake(t, "sleep 1000 & echo started >&2; wait")
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := new(Repository).Run(ctx, "fetch"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

// TestSignal checks that an error names the signal that ended git.
func TestSignal(t *testing.T) {
	for script, want := range map[string]string{
		"kill -KILL $$":                       "git fetch: ended by a signal: killed",
		"echo half >&2; kill -TERM $$":        "git fetch: half; ended by a signal: terminated",
		"exit 3":                              "git fetch: exit status 3",
		"echo 'fatal: it failed' >&2; exit 1": "git fetch: fatal: it failed",
	} {
		fake(t, script)
		_, err := new(Repository).Run(t.Context(), "fetch")
		if err == nil || err.Error() != want {
			t.Errorf("%s: got %v, want %s", script, err, want)
		}
	}
}

// TestDiskFull checks that a full disk of this machine has another code than one of the remote.
func TestDiskFull(t *testing.T) {
	for stderr, want := range map[string]bool{
		"error: file write error: No space left on device\nfatal: unpack-objects failed":        true,
		"fatal: write error: Disk quota exceeded":                                               true,
		"fatal: Out of diskspace":                                                               true,
		"remote: error: file write error: No space left on device\nerror: remote unpack failed": false,
		"fatal: bad object": false,
	} {
		err := error(&Error{Args: []string{"fetch"}, Exit: 128, Stderr: stderr})
		if got := errors.Is(err, syscall.ENOSPC); got != want {
			t.Errorf("%q: a full disk is %v, want %v", stderr, got, want)
		}
	}
}

// TestNoTerminal checks that git's children cannot open a terminal.
func TestNoTerminal(t *testing.T) {
	fake(t, "if (: </dev/tty) 2>/dev/null; then echo terminal; fi")
	out, err := new(Repository).Run(t.Context(), "fetch")
	if err != nil || len(out) > 0 {
		t.Errorf("got %q, %v", out, err)
	}
}
