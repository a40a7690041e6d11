package mailbox

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/oacp-go/oacp/internal/staging"
	"github.com/oacp-go/oacp/internal/testing/check"
	"github.com/oacp-go/oacp/schema"
)

// denied calls do while nothing in the folder can be looked at.
func denied(t *testing.T, folder string, do func()) {
	t.Helper()
	if err := os.Chmod(folder, 0); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := os.Chmod(folder, 0o755); err != nil {
			t.Error(err)
		}
	}()
	if os.Geteuid() == 0 { // root may look at everything, but a thread need not have its rights
		const nobody = 65534
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		if _, err := unix.SetfsuidRetUid(nobody); err != nil {
			t.Fatal(err)
		}
		defer func() {
			if _, err := unix.SetfsuidRetUid(0); err != nil {
				panic(err) // this thread must not run other tests
			}
		}()
	}
	do()
}

// TestAgentsThatCannotBeLookedAt checks that an agent whose folder cannot be looked at is not taken for
// one that the workspace does not have.
func TestAgentsThatCannotBeLookedAt(t *testing.T) {
	w := newWorkspace(t, "claude", "codex")
	denied(t, filepath.Join(w.dir, schema.AgentsName), func() {
		if !w.Knows("codex") {
			t.Error("the workspace says that it does not have codex")
		}
		if err := w.CheckAgent("codex"); !errors.Is(err, fs.ErrPermission) {
			t.Errorf("checking codex gave %v, want that it is not permitted", err)
		}
	})
	if w.Knows("gemini") || !w.Knows("codex") {
		t.Error("the workspace does not tell its agents from others")
	}
}

// TestRecoveryNeedsTheOutbox checks that a staged copy stays where it is as long as the outbox of its
// sender cannot be looked at: the message may have been sent.
func TestRecoveryNeedsTheOutbox(t *testing.T) {
	for _, hidden := range []string{"agents/claude/outbox", "agents/claude", schema.AgentsName} {
		w := newWorkspace(t, "claude", "codex")
		r := send(t, w, draft("codex"))
		staged := filepath.Join(w.dir, outgoingName, staging.Name{ID: r.Message.ID, Agent: "codex", Box: Inbox}.Entry())
		if err := os.Rename(r.Inboxes[0], staged); err != nil {
			t.Fatal(err)
		}
		after(w, 2*staleAfter)
		denied(t, filepath.Join(w.dir, hidden), func() {
			if recovered, err := w.Recover(t.Context()); err == nil || len(recovered.DeadLetters)+len(recovered.Swept) > 0 {
				t.Errorf("without %s, recovery gave %+v and %v; want an error", hidden, recovered, err)
			}
		})
		if recovered := mustRecover(t, w); len(recovered.Published) != 1 {
			t.Errorf("recovery gave %+v, want the copy published", recovered)
		}
	}
}

// TestRestoreOnReadOnlyDisk checks that the error says what is wrong with the disk.
func TestRestoreOnReadOnlyDisk(t *testing.T) {
	dir := t.TempDir()
	check.SmallDisk(t, dir, "1m")
	w := newWorkspaceIn(t, dir, "claude", "codex")
	e, _ := dealt(t, w, (*Workspace).Acknowledge)
	remount := func(flags uintptr) {
		if err := unix.Mount("", w.dir, "", unix.MS_REMOUNT|flags, ""); err != nil {
			t.Fatal(err)
		}
	}
	remount(unix.MS_RDONLY)
	defer remount(0)
	_, err := w.Restore(t.Context(), e.Message, "codex", begin)
	if !errors.Is(err, unix.EROFS) || IsGone(err) {
		t.Errorf("restoring gave %v, want that the file system is read-only", err)
	}
}
