package live

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/oacp-go/oacp/internal/testing/check"
)

// smallDisk mounts a small file system for the state of the workspace, and returns the path of a file on it
// that may fill it.
func (h *hooks) smallDisk() (filler string) {
	h.Helper()
	path := filepath.Join(h.Workspace.Dir(), "state")
	check.SmallDisk(h, path, "64k")
	return filepath.Join(path, "filler")
}

// TestFullDisk fills the disk: hooks say nothing until they can note what they say, and then all of it once.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	for _, started := range []bool{true, false} {
		h := newHooks(t, Claude)
		filler := h.smallDisk()
		if started {
			h.begin()
		}
		if err := os.WriteFile(filler, make([]byte, 1<<17), 0o600); !errors.Is(err, unix.ENOSPC) {
			t.Fatalf("filling the disk gave %v", err)
		}
		h.arrive(h.ask("m002"))
		for _, event := range []string{SessionStart, UserPromptSubmit, PostToolUse, Stop, PostToolUse, Stop} {
			a, err := h.handle(Event{Name: event, Session: "s"})
			if text := shown(t, event, a); !errors.Is(err, unix.ENOSPC) || text != "" || a.Follow {
				t.Errorf("%s on a full disk says %q (%v)", event, text, err)
			}
		}
		if files, err := os.ReadDir(h.statePath("")); err == nil {
			for _, file := range files {
				if name := file.Name(); !slices.Contains([]string{lockName, "s.json"}, name) {
					t.Errorf("the file %s is left", name)
				}
			}
		}
		if noticed := h.noticed("s"); slices.Contains(noticed, "m002") {
			t.Errorf("session s noticed %q, and was not shown m002", noticed)
		}
		if err := os.Remove(filler); err != nil {
			t.Fatal(err)
		}
		want := []string{"m002"}
		if !started {
			h.arrive(h.ask("m001"))
			want = []string{"m001", "m002"}
		}
		h.wantNamed(h.on("s", UserPromptSubmit), want...)
		h.on("s", Stop)
		h.wantNoticed("s", "m001", "m002")
	}
}
