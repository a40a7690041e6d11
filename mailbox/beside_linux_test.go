package mailbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/internal/testing/check"
	"github.com/oacp-go/oacp/schema"
)

// mountTmpfs mounts a small file system at a folder for the duration of the test.
func mountTmpfs(t testing.TB, path, size string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("mounting another file system needs root")
	}
	if err := unix.Mount("tmpfs", path, "tmpfs", 0, "size="+size); err != nil {
		t.Skipf("this machine cannot mount another file system: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(path, unix.MNT_DETACH); err != nil {
			t.Errorf("unmounting %s: %v", path, err)
		}
	})
}

// newSplitWorkspace makes a workspace of claude, codex and gemini with some of the boxes on file
// systems of their own. All of it is in memory.
func newSplitWorkspace(t *testing.T, elsewhere ...string) *Workspace {
	t.Helper()
	dir := t.TempDir()
	mountTmpfs(t, dir, "1m")
	w := newWorkspaceIn(t, dir, "claude", "codex", "gemini")
	for _, box := range elsewhere {
		if err := os.MkdirAll(filepath.Join(w.dir, box), 0o755); err != nil {
			t.Fatal(err)
		}
		mountTmpfs(t, filepath.Join(w.dir, box), "1m")
	}
	return w
}

// splits are the sets of boxes of a delivery that can be on other file systems.
var splits = [][]string{
	{"agents/codex/inbox"},
	{"agents/claude/outbox"},
	{"agents/codex/inbox", "agents/claude/outbox"},
}

func TestSendToAnotherFileSystem(t *testing.T) {
	for _, split := range splits {
		t.Run(strings.Join(split, ","), func(t *testing.T) {
			w := newSplitWorkspace(t, split...)
			f := &faulty{Disk: durable.Disk{Sync: true}, failAt: -1}
			w.files = f
			r := send(t, w, faultDraft(false))
			for _, path := range append(r.Inboxes, r.Outbox) {
				if got, want := check.ReadFile(t, path), check.ReadFile(t, r.Outbox); got != want {
					t.Errorf("%s holds %q, want %q", path, got, want)
				}
			}
			for _, box := range []string{"agents/codex/inbox", "agents/gemini/inbox", "agents/claude/outbox"} {
				wantFiles(t, w, box, filepath.Base(r.Outbox))
			}
			wantFiles(t, w, "state/outgoing")
		})
	}
}

// TestStagedBesideIsHidden checks that no reader takes a copy staged next to its destination for a
// message.
func TestStagedBesideIsHidden(t *testing.T) {
	split := splits[0]
	for failAt := range deliveries[0].operations(t, newSplitWorkspace(t, split...)) {
		w := newSplitWorkspace(t, split...)
		f := &faulty{Disk: durable.Disk{Sync: true}, failAt: failAt, err: errCrash}
		w.files = f
		_, err := w.Send(t.Context(), faultDraft(false), nil)
		if !strings.HasPrefix(f.name, "publish .") {
			continue
		}
		if !errors.Is(err, errCrash) {
			t.Fatalf("the killed delivery gave %v, want the crash", err)
		}
		staged := files(t, w, "agents/codex/inbox")
		if len(staged) != 1 || schema.IsMessageFile(staged[0]) || strings.HasSuffix(staged[0], schema.FileExtension) {
			t.Errorf("the inbox holds %q, want one file whose name is not that of a message", staged)
		}
		if got := inboxIDs(t, w, "codex"); len(got) != 0 {
			t.Errorf("the inbox lists %v, want nothing", got)
		}
		return
	}
	t.Fatal("no operation publishes a copy that is staged next to its destination")
}

// TestCrashAtEveryStepToAnotherFileSystem checks that the next process delivers a message that
// counts as sent, without waiting, and that any other message vanishes.
func TestCrashAtEveryStepToAnotherFileSystem(t *testing.T) {
	for i, split := range splits {
		d := deliveries[2*(i%2)] // send or receive
		for failAt := range d.operations(t, newSplitWorkspace(t, split...)) {
			for _, torn := range []bool{false, true} {
				name := fmt.Sprintf("%s/%s/step=%d/torn=%t", d.name, strings.Join(split, ","), failAt, torn)
				t.Run(name, func(t *testing.T) { crashBeside(t, d, split, failAt, torn) })
			}
		}
	}
}

func crashBeside(t *testing.T, d delivery, split []string, failAt int, torn bool) {
	w := newSplitWorkspace(t, split...)
	f := &faulty{Disk: durable.Disk{Sync: true}, failAt: failAt, err: errCrash, torn: torn}
	w.files = f
	if _, err := d.deliver(t, w); err != nil && !errors.Is(err, errCrash) {
		t.Fatalf("the killed delivery gave %v, want the crash (%s)", err, f.name)
	}
	wantWholeFiles(t, w)
	later := openWorkspace(t, w.dir)
	received := map[schema.AgentName]int{}
	for _, delay := range []time.Duration{0, 0, 2 * time.Hour, 2 * time.Hour} {
		later.now = func() time.Time { return time.Now().Add(delay) }
		if _, err := later.Recover(t.Context()); err != nil {
			t.Fatalf("recovering after a crash at %q: %v", f.name, err)
		}
		wantWholeFiles(t, later)
		takeAll(t, w.dir, received)
		sent := len(files(t, later, "agents/claude/outbox"))
		for _, hidden := range files(t, later, "agents/claude/outbox") {
			if strings.HasPrefix(hidden, ".") {
				sent--
			}
		}
		if received["codex"] != sent || received["gemini"] != sent || sent > 1 {
			t.Errorf("after a crash at %q and a recovery %v later: sent %d, received %v; want all or none, once each",
				f.name, delay, sent, received)
		}
	}
	wantFiles(t, later, "state/outgoing")
	wantFiles(t, later, "agents/codex/inbox")
}

// TestErrorAtEveryStepToAnotherFileSystem checks that Send reports the truth and that a refused
// message leaves nothing behind.
func TestErrorAtEveryStepToAnotherFileSystem(t *testing.T) {
	for i, split := range splits {
		d := deliveries[2*(i%2)] // send or receive
		for failAt := range d.operations(t, newSplitWorkspace(t, split...)) {
			w := newSplitWorkspace(t, split...)
			f := &faulty{Disk: durable.Disk{Sync: true}, failAt: failAt, err: syscall.ENOSPC}
			w.files = f
			r, err := d.deliver(t, w)
			var queue *QueuedError
			var unsynced *NotDurableError
			switch {
			case err == nil, errors.As(err, &unsynced):
			case errors.As(err, &queue):
				if _, err := w.Recover(t.Context()); err != nil {
					t.Errorf("%v: %s failed: recovering: %v", split, f.name, err)
				}
			default:
				if r != nil {
					t.Errorf("%v: %s failed: refused with %v and a receipt", split, f.name, err)
				}
				wantFiles(t, w, "agents/claude/outbox")
				wantFiles(t, w, "state/outgoing")
			}
			received := map[schema.AgentName]int{}
			takeAll(t, w.dir, received)
			sent := len(files(t, w, "agents/claude/outbox"))
			if received["codex"] != sent || received["gemini"] != sent {
				t.Errorf("%v: %s failed with %v: sent %d, received %v, want them equal", split, f.name, err, sent, received)
			}
		}
	}
}

// TestFullDisk checks that a message that does not fit is refused, that the old ones stay, and that
// the message is delivered when there is room again.
func TestFullDisk(t *testing.T) {
	for _, d := range deliveries {
		t.Run(d.name, func(t *testing.T) { fillDisk(t, d) })
	}
}

func fillDisk(t *testing.T, d delivery) {
	dir := t.TempDir()
	mountTmpfs(t, dir, "64k")
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

// TestFullInboxOnAnotherFileSystem checks that Send refuses the message before the commit.
func TestFullInboxOnAnotherFileSystem(t *testing.T) {
	w := newWorkspace(t, "claude", "codex", "gemini")
	inbox := filepath.Join(w.dir, "agents/codex/inbox")
	mountTmpfs(t, inbox, "16k")
	if err := os.WriteFile(filepath.Join(inbox, "filler"), make([]byte, 1<<16), 0o644); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("filling the disk gave %v, want ENOSPC", err)
	}
	before := tree(t, w)
	_, err := w.Send(t.Context(), faultDraft(false), nil)
	if !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("sending to a full inbox gave %v, want ENOSPC", err)
	}
	if after := tree(t, w); after != before {
		t.Errorf("the refused message left the workspace as\n%s\nwant\n%s", after, before)
	}
}

// TestMountedFolderOfTheSameDisk delivers to a bind mount: no rename crosses mounts, even within
// one file system.
func TestMountedFolderOfTheSameDisk(t *testing.T) {
	w := newWorkspace(t, "claude", "codex")
	if os.Geteuid() != 0 {
		t.Skip("mounting a folder needs root")
	}
	inbox := filepath.Join(w.dir, "agents/codex/inbox")
	if err := unix.Mount(t.TempDir(), inbox, "", unix.MS_BIND, ""); err != nil {
		t.Skipf("this machine cannot mount a folder: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(inbox, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	r := send(t, w, draft("codex"))
	wantFiles(t, w, "agents/codex/inbox", filepath.Base(r.Inboxes[0]))
	wantFiles(t, w, "state/outgoing")
}

// TestDealingAcrossFileSystems archives and buries from an inbox on its own file system, with a
// fault at every step. The message is always in at least one place, and nothing is replaced.
func TestDealingAcrossFileSystems(t *testing.T) {
	for _, dealing := range dealings {
		for failAt := range 40 {
			w := newSplitWorkspace(t, moveSplits[failAt%2]...)
			e := received(t, w)
			f := &faulty{failAt: failAt / 2, err: errCrash, torn: true}
			w.files = f
			err := dealing.deal(w, e)
			w.files = durable.Disk{}
			inbox := len(files(t, w, "agents/codex/inbox"))
			kept := 0
			for _, box := range []Box{Archive, DeadLetters} {
				for _, name := range files(t, w, schema.BoxPath("codex", box)) {
					if !schema.IsMessageFile(name) {
						continue
					}
					kept++
					if got, want := check.ReadFile(t, filepath.Join(w.BoxPath("codex", box), name)), check.ReadFile(t, filepath.Join(w.BoxPath("claude", Outbox), e.Name)); got != want {
						t.Errorf("%s shows %q, want the message or nothing", name, got)
					}
				}
			}
			switch {
			case err == nil && (inbox != 0 || kept == 0 && dealing.name != "remove"):
				t.Errorf("%s succeeded: %d in the inbox, %d kept", dealing.name, inbox, kept)
			case err != nil && !errors.Is(err, errCrash):
				t.Errorf("%s gave %v, want the crash at %q", dealing.name, err, f.name)
			case inbox+kept == 0 && dealing.name != "remove":
				t.Errorf("%s died at %q: the message is nowhere", dealing.name, f.name)
			}
			if inbox == 1 {
				if err := dealing.deal(w, e); err != nil {
					t.Errorf("%s died at %q, and the second try gave: %v", dealing.name, f.name, err)
				}
				wantFiles(t, w, "agents/codex/inbox")
			}
		}
	}
}
