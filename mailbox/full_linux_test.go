package mailbox

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/internal/testing/check"
	"github.com/oacp-go/oacp/schema"
)

// TestFullDisk checks that a message that does not fit is refused, that the old ones stay, and that
// the message is delivered when there is room again.
func TestFullDisk(t *testing.T) {
	for _, d := range deliveries {
		t.Run(d.name, func(t *testing.T) { fillDisk(t, d) })
	}
}

func fillDisk(t *testing.T, d delivery) {
	dir := t.TempDir()
	check.SmallDisk(t, dir, "64k")
	w := newWorkspaceIn(t, dir, "claude", "codex", "gemini")
	m := draft("codex")
	m.ID = "msg-20260313T1429Z-claude-0123456789abcdef"
	first := send(t, w, m)
	old := check.ReadFile(t, first.Outbox)
	filler := filepath.Join(dir, "filler")
	if err := os.WriteFile(filler, make([]byte, 1<<17), 0o644); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("filling the disk gave %v, want ENOSPC", err)
	}
	before := tree(t, w)

	_, err := d.deliver(t, w)
	if !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("delivering on a full disk gave %v, want ENOSPC", err)
	}
	check.Error(t, err, dir, "no space left")
	if after := tree(t, w); after != before {
		t.Errorf("the refused message left the workspace as\n%s\nwant\n%s", after, before)
	}
	for _, path := range append(first.Inboxes, first.Outbox) {
		if got := check.ReadFile(t, path); got != old {
			t.Errorf("%s holds %q now, want %q", path, got, old)
		}
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	if _, err := d.deliver(t, w); err != nil {
		t.Fatal(err)
	}
	for agent, want := range map[schema.AgentName]int{"codex": 2, "gemini": 1} {
		if got := len(inboxIDs(t, w, agent)); got != want {
			t.Errorf("the inbox of %s has %d messages after there was room again, want %d", agent, got, want)
		}
	}
}

// TestBoxOnAnotherMount checks that nothing is lost if no rename leads to a box.
func TestBoxOnAnotherMount(t *testing.T) {
	w := newWorkspace(t, "claude", "codex")
	check.SmallDisk(t, w.BoxPath("claude", Outbox), "1m")
	if r, err := w.Send(t.Context(), draft("codex"), nil); r != nil || !errors.Is(err, syscall.EXDEV) {
		t.Errorf("sending from an outbox on another mount gave %v, want EXDEV and no receipt", err)
	}
	wantFiles(t, w, outgoingName)

	w = newWorkspace(t, "claude", "codex")
	inbox := w.BoxPath("codex", Inbox)
	if err := unix.Mount("tmpfs", inbox, "tmpfs", 0, "size=1m"); err != nil {
		t.Skipf("this machine cannot mount another file system: %v", err)
	}
	var queued *QueuedError
	r, err := w.Send(t.Context(), draft("codex"), nil)
	if !errors.As(err, &queued) || !errors.Is(err, syscall.EXDEV) {
		t.Errorf("sending to an inbox on another mount gave %v, want a queued message", err)
	}
	if err := unix.Unmount(inbox, unix.MNT_DETACH); err != nil {
		t.Fatal(err)
	}
	mustRecover(t, w)
	wantFiles(t, w, "agents/codex/inbox", filepath.Base(r.Outbox))
}

// TestLockThatCannotBeMade checks that the error of a lock file for which there is no room says so.
func TestLockThatCannotBeMade(t *testing.T) {
	path := t.TempDir()
	check.SmallDisk(t, path, "64k,nr_inodes=1") // the folder itself
	dir, err := durable.OpenPath(path)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	err = dir.Locked(t.Context(), "lock", func() error { return nil })
	if !errors.Is(err, unix.ENOSPC) || IsGone(err) {
		t.Errorf("locking on a full disk gave %v, want ENOSPC", err)
	}
}
