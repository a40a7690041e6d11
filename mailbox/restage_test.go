package mailbox

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/gofrs/flock"

	"github.com/oacp-go/oacp/internal/staging"
	"github.com/oacp-go/oacp/internal/testing/check"
)

// leftover sends a message and makes its inbox copy a staged one of a dead process, in state/outgoing.
func leftover(t *testing.T, w *Workspace) (e Entry, staged string) {
	t.Helper()
	e = received(t, w)
	staged = filepath.Join(w.dir, outgoingName, stagedEntry(e.Message.ID, "codex"))
	if err := os.Rename(e.Path, staged); err != nil {
		t.Fatal(err)
	}
	return e, staged
}

// TestOneRestages checks that a recovery which finds another one at work, or the old copy gone, stages no copy.
func TestOneRestages(t *testing.T) {
	for name, disturb := range map[string]func(t *testing.T, w *Workspace, staged string){
		"another holds the lock": func(t *testing.T, w *Workspace, _ string) {
			other, err := openBatch(w, nil)
			if err == nil {
				_, err = other.takeLock((*flock.Flock).TryLock)
			}
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = other.close() })
		},
		"another removed the copy": func(t *testing.T, _ *Workspace, staged string) { check.Remove(t, staged) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorkspace(t, "claude", "codex")
			e, staged := leftover(t, w)
			data, err := w.ReadRaw(Entry{Agent: "claude", Box: Outbox, Name: e.Name})
			if err != nil {
				t.Fatal(err)
			}
			b, err := openBatch(w, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer b.close()
			c, err := b.reopen(staging.Name{ID: e.Message.ID, Agent: "codex", Box: string(Inbox)})
			if err != nil {
				t.Fatal(err)
			}
			disturb(t, w, staged)
			if err := b.restage(c, data, false); !errors.Is(err, ErrGone) {
				t.Errorf("restaging gave %v, want ErrGone", err)
			}
			if names, err := os.ReadDir(w.BoxPath("codex", Inbox)); err != nil || len(names) > 0 {
				t.Errorf("the inbox has %v (%v), want nothing", names, err)
			}
		})
	}
}

// TestRestagedCopyIsPublishedOnce leaves a copy that was staged again in its box, beside the old one: the process died
// between the two steps.
func TestRestagedCopyIsPublishedOnce(t *testing.T) {
	w := newWorkspace(t, "claude", "codex")
	e, staged := leftover(t, w)
	again := staging.Name{ID: e.Message.ID, Agent: "codex", Box: string(Inbox), Beside: true}
	hidden := filepath.Join(w.BoxPath("codex", Inbox), staging.HiddenPrefix+stagedEntry(e.Message.ID, "codex"))
	check.WriteFile(t, hidden, check.ReadFile(t, staged))
	check.WriteFile(t, filepath.Join(w.dir, outgoingName, again.Entry()), "staged in its box\n")
	after(w, 2*staleAfter)
	if recovered := mustRecover(t, w); len(recovered.Published) != 1 {
		t.Errorf("%q are published, want one copy", recovered.Published)
	}
	mustRecover(t, w)
	wantFiles(t, w, "agents/codex/inbox", e.Name)
	wantFiles(t, w, outgoingName)
}
