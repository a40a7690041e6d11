package mailbox

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/oacp-go/oacp/internal/testing/check"
	"github.com/oacp-go/oacp/schema"
)

// TestStateFoldersKeepGitOut checks that git ignores state, whatever creates it first, in a
// workspace that another tool made.
func TestStateFoldersKeepGitOut(t *testing.T) {
	tests := map[string]func(t *testing.T, w *Workspace){
		"a delivery": func(t *testing.T, w *Workspace) {
			if _, err := w.Send(t.Context(), draft("codex"), &SendOptions{Create: true}); err != nil {
				t.Fatal(err)
			}
		},
		"a folder": func(t *testing.T, w *Workspace) {
			if err := w.MakeStateFolder("state/turns/deep"); err != nil {
				t.Fatal(err)
			}
			if info, err := os.Stat(filepath.Join(w.dir, "state/turns/deep")); err != nil || !info.IsDir() {
				t.Errorf("the folder is missing: %v", err)
			}
		},
	}
	for name, first := range tests {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.MkdirAll(filepath.Join(dir, "agents/codex/inbox"), 0o755); err != nil {
				t.Fatal(err)
			}
			first(t, openWorkspace(t, dir))
			if got := check.ReadFile(t, filepath.Join(dir, "state/.gitignore")); got != "*\n" {
				t.Errorf("state/.gitignore holds %q, want all of it", got)
			}
		})
	}
}

func TestMakeStateFolderStaysInState(t *testing.T) {
	w := newWorkspace(t, "codex")
	before := tree(t, w)
	for _, bad := range []string{"", "state", "agents/x", "state/../agents/x", "../x", "state/../../x", "/tmp/x", "statement/x"} {
		if err := w.MakeStateFolder(bad); err == nil {
			t.Errorf("making %q gave no error", bad)
		}
	}
	if after := tree(t, w); after != before {
		t.Errorf("the workspace became\n%s", after)
	}
}

func TestOpenWhatIsNoWorkspace(t *testing.T) {
	dir := t.TempDir()
	for _, path := range []string{dir, filepath.Join(dir, "missing")} {
		if _, err := Open(path, nil); !errors.Is(err, ErrNoWorkspace) {
			t.Errorf("opening %s gave %v, want ErrNoWorkspace", path, err)
		}
	}
	check.WriteFile(t, filepath.Join(dir, schema.AgentsName), "no folder")
	if _, err := Open(dir, nil); err == nil {
		t.Error("opening a folder whose agents is a file gave no error")
	}
	outside := t.TempDir()
	linked := t.TempDir()
	if err := os.Symlink(outside, filepath.Join(linked, schema.AgentsName)); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(linked, nil); err == nil {
		t.Error("opening a folder whose agents is a link out of it gave no error")
	}
}
