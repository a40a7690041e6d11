//go:build unix

package durable

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/oacp-go/oacp/internal/process"
)

func TestLockKeepsOthersOut(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	first, second := NewLock(path), NewLock(path)
	for _, step := range []struct {
		what string
		lock func() (bool, error)
		want bool
	}{
		{"the first", first.TryLock, true},
		{"a second", second.TryLock, false},
		{"the second after the first let go", func() (bool, error) {
			if err := first.Unlock(); err != nil {
				return false, err
			}
			return second.TryLock()
		}, true},
	} {
		if got, err := step.lock(); got != step.want || err != nil {
			t.Errorf("%s: locked %t (%v), want %t", step.what, got, err, step.want)
		}
	}
	if err := second.Unlock(); err != nil {
		t.Error(err)
	}
}

// TestLockIsNoLink checks that a lock follows no link: it neither creates nor locks the target.
func TestLockIsNoLink(t *testing.T) {
	folder := t.TempDir()
	path, outside := filepath.Join(folder, "lock"), filepath.Join(folder, "outside")
	if err := os.Symlink(outside, path); err != nil {
		t.Fatal(err)
	}
	if locked, err := NewLock(path).TryLock(); locked || err == nil {
		t.Errorf("locking a link gave %t, %v; want an error", locked, err)
	}
	if _, err := os.Lstat(outside); !os.IsNotExist(err) {
		t.Errorf("locking created the target of the link (%v)", err)
	}
}

// TestLockDoesNotWaitForAPipe checks that TryLock does not block on a pipe. Opening one normally
// waits for its other end, and no signal interrupts that.
func TestLockDoesNotWaitForAPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Skipf("this file system has no pipes: %v", err)
	}
	done := make(chan error, 1)
	go func() {
		lock := NewLock(path)
		_, err := lock.TryLock() // refusing it would be as good
		if err == nil {
			err = lock.Unlock()
		}
		done <- err
	}()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Fatal("locking waits for the other end of a pipe")
	}
}

// TestLockNamesItsHolder checks that a wait for a lock that nobody releases ends, and says who holds it.
func TestLockNamesItsHolder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	held := NewLock(path)
	if err := held.Lock(); err != nil {
		t.Fatal(err)
	}
	defer held.Unlock()
	err := TakeLock(t.Context(), NewLock(path), time.Millisecond)
	if err == nil || !strings.Contains(err.Error(), path) {
		t.Fatalf("got %v, want an error with the path", err)
	}
	if pid := process.LockHolder(path).PID; pid != 0 && (pid != os.Getpid() || !strings.Contains(err.Error(), fmt.Sprint("process ", pid))) {
		t.Errorf("got %v, want it to name process %d", err, os.Getpid())
	}
}
