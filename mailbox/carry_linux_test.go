package mailbox

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/oacp-go/oacp/internal/durable"
)

// leftBehind returns the staged copies that interrupted moves left.
func leftBehind(t *testing.T, w *Workspace) (left []string) {
	t.Helper()
	for _, box := range []Box{Archive, DeadLetters} {
		for _, name := range files(t, w, BoxName("codex", box)) {
			if strings.HasPrefix(name, hiddenPrefix) {
				left = append(left, name)
			}
		}
	}
	return append(left, files(t, w, outgoingName)...)
}

// moveSplits are the ways in which a message can move across mounts.
var moveSplits = [][]string{splits[0], {"agents/codex/archive", "agents/codex/dead_letter"}}

// TestLeftCopiesAreSwept kills a move to another file system at every step. The next such move and
// doctor sweep the copies left behind when they are an hour old, and not before.
func TestLeftCopiesAreSwept(t *testing.T) {
	sweepers := map[string]func(t *testing.T, w *Workspace, deal func(*Workspace, Entry) error){
		"the next one": func(t *testing.T, w *Workspace, deal func(*Workspace, Entry) error) {
			if err := deal(w, received(t, w)); err != nil {
				t.Errorf("dealing with the next message: %v", err)
			}
		},
		"recovery": func(t *testing.T, w *Workspace, _ func(*Workspace, Entry) error) {
			mustRecover(t, w)
		},
	}
	seen := 0
	for _, dealing := range dealings[1:] {
		for failAt := range 16 {
			for name, sweep := range sweepers {
				w := newSplitWorkspace(t, moveSplits[failAt%2]...)
				f := &faulty{failAt: failAt / 2, err: errCrash, torn: true}
				e := received(t, w)
				w.files = f
				_ = dealing.deal(w, e) // it may be past its last step
				w.files = disk{}
				left := len(leftBehind(t, w))
				seen += left

				after(w, 0)
				sweep(t, w, dealing.deal)
				if young := leftBehind(t, w); len(young) != left {
					t.Errorf("%s died at %q: %s leaves %q at once, want %d copies that may still be in use", dealing.name, f.name, name, young, left)
				}
				after(w, 2*staleAfter)
				sweep(t, w, dealing.deal)
				if old := leftBehind(t, w); len(old) != 0 {
					t.Errorf("%s died at %q: %s leaves %q after %v", dealing.name, f.name, name, old, 2*staleAfter)
				}
			}
		}
	}
	if seen == 0 {
		t.Error("no crash leaves a copy: does this test still find the copies?")
	}
}

// sweptMeanwhile is a file system on which an hour passes and another process sweeps just before a
// hidden copy is published.
type sweptMeanwhile struct{ disk }

func (s sweptMeanwhile) publish(from *durable.Dir, name string, to *durable.Dir, newName string) error {
	if strings.Contains(name, "@codex@") {
		if err := from.Remove(name); err != nil {
			return err
		}
	}
	return s.disk.publish(from, name, to, newName)
}

// TestSlowMoverLosesNothing checks that a move whose copy was swept reports that, and not that the
// message is gone.
func TestSlowMoverLosesNothing(t *testing.T) {
	for _, dealing := range dealings[1:] {
		w := newSplitWorkspace(t, splits[0]...)
		e := received(t, w)
		w.files = sweptMeanwhile{}
		err := dealing.deal(w, e)
		w.files = disk{}
		if err == nil || IsGone(err) {
			t.Errorf("%s gave %v, want an error that does not say that the message is gone", dealing.name, err)
		}
		wantError(t, err, "swept", e.Name)
		wantFiles(t, w, "agents/codex/inbox", filepath.Base(e.Path))
		if err := dealing.deal(w, e); err != nil {
			t.Errorf("%s again: %v", dealing.name, err)
		}
	}
}
