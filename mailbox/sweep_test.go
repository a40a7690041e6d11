package mailbox

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/internal/testing/check"
)

// TestSweepRemovesWhatKilledProcessesLeft kills processes while they write files, leaves what others do, and sweeps an
// hour later.
func TestSweepRemovesWhatKilledProcessesLeft(t *testing.T) {
	w := newWorkspace(t, "claude", "codex")
	home := t.TempDir()
	w.home = func() (string, error) { return home, nil }
	check.WriteFile(t, filepath.Join(home, "keys/here/codex/machine/.key.json.tmp-1"), "{")
	inbox, err := (folder{w, "codex", Inbox}).open()
	if err != nil {
		t.Fatal(err)
	}
	defer inbox.Close()
	// One while it adds a file, another while it replaces one.
	if err := durable.AddFile(&faulty{failAt: 1, err: errCrash}, inbox, "a.yaml", []byte("text")); !errors.Is(err, errCrash) {
		t.Fatal(err)
	}
	if _, err := inbox.Prepare("config.yaml", []byte("text"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{".git-init-X/config", "trust/.catalog.yaml.tmp-1", ".workspace.json.tmp-1", ".git/.tmp-mine"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(w.dir, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		check.WriteFile(t, filepath.Join(w.dir, name), "text")
	}
	check.WriteFile(t, inbox.Path(".mine.yaml"), "of somebody else")
	check.WriteFile(t, filepath.Join(w.dir, ".tmp-mine"), "outside the folders of oacp")
	left, err := inbox.Names()
	if err != nil || len(left) != 3 {
		t.Fatalf("the killed processes left %q (%v), want two files beside the one of somebody else", left, err)
	}
	after(w, staleAfter/2)
	if swept, err := Sweep(t.Context(), w, false); err != nil || len(swept) != 0 {
		t.Errorf("half an hour later Sweep removed %q (%v), want nothing", swept, err)
	}
	after(w, 2*staleAfter)
	found, err := Sweep(t.Context(), w, true)
	if swept, sweepErr := Sweep(t.Context(), w, false); errors.Join(err, sweepErr) != nil || len(found) != 6 || !slices.Equal(found, swept) {
		t.Errorf("Sweep found %q (%v) and removed %q (%v), want six files", found, err, swept, sweepErr)
	}
	wantFiles(t, w, "agents/codex/inbox", ".mine.yaml")
	for _, mine := range []string{".tmp-mine", ".git/.tmp-mine"} {
		if _, err := os.Stat(filepath.Join(w.dir, mine)); err != nil {
			t.Error(err)
		}
	}
}
