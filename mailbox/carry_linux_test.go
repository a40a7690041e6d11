package mailbox

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/internal/staging"
	"github.com/oacp-go/oacp/internal/testing/check"
	"github.com/oacp-go/oacp/schema"
)

// leftBehind returns the staged copies that interrupted moves left.
func leftBehind(t *testing.T, w *Workspace) (left []string) {
	t.Helper()
	for _, box := range []Box{Archive, DeadLetters} {
		for _, name := range files(t, w, schema.BoxPath("codex", box)) {
			if strings.HasPrefix(name, staging.HiddenPrefix) {
				left = append(left, name)
			}
		}
	}
	return append(left, files(t, w, outgoingName)...)
}

// moveSplits are the ways in which a message can move across mounts.
var moveSplits = [][]string{splits[0], {"agents/codex/inbox/archive", "agents/codex/dead_letter"}}

// TestLeftCopiesAreSwept kills a move to another file system at every step. The next such move and
// doctor sweep the copies left behind: at once, or, if the claims of the dead process do not show,
// when the copies are an hour old, and not before.
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
		for step := range 32 {
			for name, sweep := range sweepers {
				w := newSplitWorkspace(t, moveSplits[step%2]...)
				f := &faulty{failAt: step / 4, err: errCrash, torn: true}
				if step/2%2 == 1 {
					f.at = elsewhere
				}
				e := received(t, w)
				w.files = f
				_ = dealing.deal(w, e) // it may be past its last step
				w.files = durable.Disk{}
				left := len(leftBehind(t, w))
				seen += left
				if f.at == "" {
					left = 0
				}

				after(w, 0)
				sweep(t, w, dealing.deal)
				if young := leftBehind(t, w); len(young) != left {
					t.Errorf("%s died at %q: %s leaves %q at once, want %d copies", dealing.name, f.name, name, young, left)
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
type sweptMeanwhile struct{ durable.Disk }

func (s sweptMeanwhile) Publish(from *durable.Dir, name string, to *durable.Dir, newName string, unique bool) error {
	if strings.Contains(name, "@codex@") {
		if err := from.Remove(name); err != nil {
			return err
		}
	}
	return s.Disk.Publish(from, name, to, newName, unique)
}

// TestSlowMoverLosesNothing checks that a move whose copy was swept reports that, and not that the
// message is gone.
func TestSlowMoverLosesNothing(t *testing.T) {
	for _, dealing := range dealings[1:] {
		w := newSplitWorkspace(t, moveSplits[1]...)
		e := received(t, w)
		w.files = sweptMeanwhile{}
		err := dealing.deal(w, e)
		w.files = durable.Disk{}
		if err == nil || IsGone(err) {
			t.Errorf("%s gave %v, want an error that does not say that the message is gone", dealing.name, err)
		}
		check.Error(t, err, "swept", e.Name)
		wantFiles(t, w, "agents/codex/inbox", filepath.Base(e.Path))
		if err := dealing.deal(w, e); err != nil {
			t.Errorf("%s again: %v", dealing.name, err)
		}
	}
}
