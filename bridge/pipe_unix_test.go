//go:build unix

package bridge

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/oacp-go/oacp/internal/durable"
)

// TestPipesAreNoLogs checks that a pipe or a device in place of a file is refused, without waiting
// for its other end.
func TestPipesAreNoLogs(t *testing.T) {
	t.Parallel()
	inTime(t, func() {
		path := logPath(t)
		if err := syscall.Mkfifo(path, 0o600); err != nil {
			t.Errorf("this file system has no pipes: %v", err)
		}
		for _, path := range []string{path, os.DevNull} {
			if l, err := Open(path, nil); !errors.Is(err, durable.ErrNotRegular) {
				t.Errorf("Open(%s): got %v, %v, want it refused", path, l, err)
			}
		}
		if c, _, err := LoadCursor(path, "codex"); !errors.Is(err, durable.ErrNotRegular) {
			t.Errorf("LoadCursor: got %q, %v, want it refused", c, err)
		}
		if _, err := Beginning(filepath.Join(filepath.Dir(path), "1", "bridge.jsonl")); err == nil {
			t.Error("Beginning below a folder that is not there: want an error")
		}
	})
}

// TestPipePutInPlace checks a log, a lock and a manifest that become pipes after the log was
// opened.
func TestPipePutInPlace(t *testing.T) {
	t.Parallel()
	inTime(t, func() {
		for _, name := range []string{"bridge.jsonl", "bridge.jsonl.lock", "manifest.json"} {
			path := logPath(t)
			l := openLog(t, path, &Options{NoSync: true})
			pipe := filepath.Join(filepath.Dir(path), name)
			if err := syscall.Mkfifo(pipe, 0o600); err != nil {
				t.Errorf("this file system has no pipes: %v", err)
			}
			if name == "manifest.json" {
				if _, err := Beginning(path); !errors.Is(err, durable.ErrNotRegular) {
					t.Errorf("Beginning: got %v, want the manifest refused", err)
				}
				continue
			}
			// A lock that is a pipe locks as well as any file.
			if _, err := l.Send(context.Background(), task("a", "b", "c")); err == nil && name == "bridge.jsonl" {
				t.Errorf("%s is a pipe: want an error", name)
			}
		}
	})
}

// inTime fails the test instead of waiting forever.
func inTime(t *testing.T, do func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		do()
	}()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Fatal("waits for the other end of a pipe")
	}
}
