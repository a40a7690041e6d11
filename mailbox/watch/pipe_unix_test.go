//go:build unix

package watch

import (
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/oacp-go/oacp/internal/testing/mailboxtest"
)

// TestTickDoesNotWaitForAPipe checks a folder whose place a pipe has taken. Opening a pipe normally
// waits for its other end, and no signal interrupts that.
func TestTickDoesNotWaitForAPipe(t *testing.T) {
	w := mailboxtest.NewBare(t, "codex")
	b := newBox(Target{Workspace: w, Agent: "codex"}, &Options{})
	if err := os.RemoveAll(b.path); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(b.path, 0o600); err != nil {
		t.Skipf("this file system has no pipes: %v", err)
	}
	done := make(chan bool, 1)
	go func() {
		b.tick(time.Now())
		done <- b.recheck
	}()
	select {
	case recheck := <-done:
		if !recheck {
			t.Error("the box is not looked at again")
		}
	case <-time.After(time.Minute):
		t.Fatal("the tick waits for the other end of a pipe")
	}
}
