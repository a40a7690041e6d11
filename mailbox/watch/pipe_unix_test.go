//go:build unix

package watch

import (
	"errors"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/oacp-go/oacp/internal/testing/mailboxtest"
	"github.com/oacp-go/oacp/mailbox"
)

// TestLookDoesNotWaitForAPipe checks a folder whose place a pipe has taken. Opening a pipe normally
// waits for its other end, and no signal interrupts that.
func TestLookDoesNotWaitForAPipe(t *testing.T) {
	t.Parallel()
	w := mailboxtest.NewBare(t, "codex")
	watcher := newTestWatcher(t, w, Options{}, "codex")
	path := w.BoxPath("codex", mailbox.Inbox)
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Skipf("this file system has no pipes: %v", err)
	}
	done := make(chan error, 1)
	go func() {
		watcher.attach()
		_, err := watcher.boxes[0].look(t.Context(), time.Now(), true)
		done <- errors.Join(watcher.Close(), err)
	}()
	select {
	case err := <-done:
		if err == nil {
			t.Error("a pipe counts as a folder")
		}
	case <-time.After(time.Minute):
		t.Fatal("the look waits for the other end of a pipe")
	}
}
