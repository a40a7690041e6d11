package mailbox

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/internal/testing/check"
	"github.com/oacp-go/oacp/schema"
)

// bindfs shows a folder at another place through FUSE, which has no exclusive rename. By default,
// two such mounts share no locks, like the mounts of two machines.
func bindfs(t *testing.T, folder string) (view string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("mounting a folder needs root")
	}
	view = t.TempDir()
	if out, err := exec.Command("bindfs", folder, view).CombinedOutput(); err != nil {
		t.Skipf("this machine cannot mount a folder with bindfs: %v %s", err, out)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(view, unix.MNT_DETACH); err != nil {
			t.Errorf("unmounting %s: %v", view, err)
		}
	})
	return view
}

// TestTwoMountsLoseNothing sends from two mounts of one workspace at once, again and again, while
// the short file name is free.
func TestTwoMountsLoseNothing(t *testing.T) {
	const rounds = 300
	w := newWorkspace(t, "claude", "codex")
	views := []*Workspace{openWorkspace(t, bindfs(t, w.dir)), openWorkspace(t, bindfs(t, w.dir))}
	for round := range rounds {
		start := make(chan struct{})
		var group sync.WaitGroup
		for _, view := range views {
			view.files = durable.Disk{}
			view.now = func() time.Time { return testTime.Add(time.Duration(round) * time.Minute) }
			group.Go(func() {
				<-start
				if _, err := view.Send(t.Context(), draft("codex"), nil); err != nil {
					t.Errorf("sending: %v", err)
				}
			})
		}
		close(start)
		group.Wait()
	}
	for _, box := range []string{"agents/codex/inbox", "agents/claude/outbox"} {
		if got := len(files(t, w, box)); got != rounds*len(views) {
			t.Errorf("%s has %d messages, want the %d accepted ones", box, got, rounds*len(views))
		}
	}
	wantFiles(t, w, outgoingName)
}

// TestClockOfAnotherMachine lets a machine whose clock is two minutes ahead recover while a sender
// waits for a slow sync after its commit. The recipients handle the message at once. Nobody gets it
// twice, on a network file system as the tests know it and as bindfs has it.
func TestClockOfAnotherMachine(t *testing.T) {
	for _, mounted := range []bool{false, true} {
		t.Run(fmt.Sprintf("mounted=%t", mounted), func(t *testing.T) {
			w := newWorkspace(t, "claude", "codex", "gemini")
			received := map[schema.AgentName]int{}
			slow := &interrupted{part: "@codex@inbox", happen: func() {
				other := openWorkspace(t, w.dir)
				after(other, 2*strangerAfter)
				mustRecover(t, other)
				takeAll(t, w.dir, received)
			}}
			sender := w
			if mounted {
				sender = openWorkspace(t, bindfs(t, w.dir))
				sender.files = slow
			} else {
				slow.at = elsewhere
				sender.files = notExclusive{slow}
			}
			sender.long = true // otherwise it begins again after the commit of a short name fails
			r, err := sender.Send(t.Context(), faultDraft(false), nil)
			if err != nil || r.Inboxes[0] != filepath.Join(sender.BoxPath("codex", Archive), filepath.Base(r.Outbox)) {
				t.Errorf("Send gave %+v, %v; want a receipt with the copy in the archive of codex", r, err)
			}
			sender.files = durable.Disk{}
			mustRecover(t, w)
			takeAll(t, w.dir, received)
			if received["codex"] != 1 || received["gemini"] != 1 {
				t.Errorf("received %v, want once each", received)
			}
		})
	}
}

// TestRemovedStateLosesNothing removes state twice during each of many broadcasts. Each accepted one
// reaches all of its recipients once. Those that find no folder are refused.
func TestRemovedStateLosesNothing(t *testing.T) {
	const broadcasts = 200
	w := newWorkspace(t, "claude", "codex", "gemini")
	begin := make(chan struct{})
	var group sync.WaitGroup
	group.Go(func() {
		for range begin {
			for range 2 {
				// It may fail because a sender makes the folder again.
				_ = os.RemoveAll(filepath.Join(w.dir, schema.StateName))
			}
		}
	})
	sent := 0
	for i := range broadcasts {
		w.now = func() time.Time { return testTime.Add(time.Duration(i) * time.Minute) }
		begin <- struct{}{}
		r, err := w.Send(t.Context(), draft("codex", "gemini"), nil)
		var queued *QueuedError
		switch {
		case err == nil:
			sent++
		case r != nil || errors.As(err, &queued):
			t.Errorf("broadcast %d: %v", i, err)
		}
	}
	close(begin)
	group.Wait()
	for _, box := range []string{"agents/codex/inbox", "agents/gemini/inbox", "agents/claude/outbox"} {
		if got := len(files(t, w, box)); got != sent {
			t.Errorf("%s has %d messages, want the %d accepted ones", box, got, sent)
		}
	}
	if sent == 0 {
		t.Error("no broadcast is accepted")
	}
}

// TestKilledSendersAreSwept kills processes while they send, and recovers a minute later: the only
// files that are not swept at once are those that were killed before they wrote a byte.
func TestKilledSendersAreSwept(t *testing.T) {
	w := newWorkspace(t, "claude", "codex", "gemini")
	for range 20 {
		cmd, ids := child(t, w.dir, 1000, "codex,gemini")
		ids.Scan()
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		for ids.Scan() {
		}
		_ = cmd.Wait() // it was killed
		after(w, 0)
		mustRecover(t, w)
		for _, name := range files(t, w, outgoingName) {
			if text := check.ReadFile(t, filepath.Join(w.dir, outgoingName, name)); text != "" {
				t.Errorf("%s is not swept, and holds %q", name, text)
			}
		}
	}
	after(w, strangerAfter)
	mustRecover(t, w)
	wantFiles(t, w, outgoingName)
}

// TestRecoverLeavesNewFilesAlone checks that a file that its process may be about to claim is left
// alone.
func TestRecoverLeavesNewFilesAlone(t *testing.T) {
	w := newWorkspace(t, "claude", "codex", "gemini")
	killBefore(t, w, false, "publish msg-")
	for _, name := range files(t, w, outgoingName) {
		if err := os.Truncate(filepath.Join(w.dir, outgoingName, name), 0); err != nil {
			t.Fatal(err)
		}
	}
	after(w, 0)
	if got := mustRecover(t, w); !isEmpty(got) {
		t.Errorf("Recover did %+v with empty files, want nothing", got)
	}
	after(w, strangerAfter)
	if got := mustRecover(t, w); len(got.Swept) != 3 {
		t.Errorf("a minute later Recover did %+v, want three files swept", got)
	}
}
