package mailbox

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/oacp-go/oacp/internal/testing/check"
)

// TestLockIsNoLink checks that a lock file that is a link is not followed, so that nothing is made
// outside the workspace.
func TestLockIsNoLink(t *testing.T) {
	w := newWorkspace(t, "claude", "codex", "gemini")
	outside := filepath.Join(t.TempDir(), "made")
	if err := os.Symlink(outside, filepath.Join(w.dir, "state/deliver.lock")); err != nil {
		t.Skipf("this file system has no links: %v", err)
	}
	_, err := w.Send(t.Context(), faultDraft(true), nil)
	check.Error(t, err, "state/deliver.lock")
	if _, err := os.Lstat(outside); !os.IsNotExist(err) {
		t.Errorf("the lock was made outside the workspace (%v)", err)
	}
	wantFiles(t, w, "agents/claude/outbox")
	send(t, w, draft("codex"))
}

// TestLockDoesNotWaitForAPipe checks that Send does not block on a lock file that is a pipe.
// Opening one normally waits for its other end, and no signal interrupts that.
func TestLockDoesNotWaitForAPipe(t *testing.T) {
	w := newWorkspace(t, "claude", "codex", "gemini")
	makePipe(t, filepath.Join(w.dir, "state/deliver.lock"))
	done := make(chan error, 1)
	go func() {
		_, err := w.Send(t.Context(), faultDraft(true), nil)
		done <- err
	}()
	select {
	case err := <-done:
		// Send may lock the pipe or refuse it.
		if n := len(files(t, w, "agents/claude/outbox")); (err == nil) != (n == 1) {
			t.Errorf("the outbox has %d messages, and sending gave %v", n, err)
		}
	case <-time.After(time.Minute):
		t.Fatal("sending waits for the other end of a pipe")
	}
}
