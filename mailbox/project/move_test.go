package project_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/oacp-go/oacp/internal/testing/check"
	"github.com/oacp-go/oacp/mailbox/project"
)

// A move that was killed after any of its steps is finished by the next one, and nothing finds half of a workspace.
func TestMoveIsKilled(t *testing.T) {
	steps := []string{"agents", "state", "schemas/question.schema.json", "workspace.json"}
	for killed := range len(steps) + 1 {
		top := t.TempDir()
		to := filepath.Join(top, ".oacp")
		workspaceAt(t, top, true)
		for _, name := range []string{"agents/claude/inbox/mail", "state/journal", steps[2], "schemas/other"} {
			check.WriteFile(t, filepath.Join(top, name), name)
		}
		for _, name := range steps[:killed] {
			if err := errors.Join(os.MkdirAll(filepath.Dir(filepath.Join(to, name)), 0o755), os.Rename(filepath.Join(top, name), filepath.Join(to, name))); err != nil {
				t.Fatal(err)
			}
		}
		found, err := project.Around(top)
		want := map[int]string{0: top, len(steps): to}[killed]
		if found != want || project.Moving(top, to) != (want == "") {
			t.Errorf("killed after %d steps, commands find %q, %v", killed, found, err)
		}
		if err := project.Move(top, to, t.TempDir(), steps[2]); err != nil {
			t.Fatal(err)
		}
		for _, name := range append(slices.Clone(steps[1:]), "agents/claude/inbox/mail", "state/journal") {
			if _, err := os.Stat(filepath.Join(to, name)); err != nil {
				t.Errorf("killed after %d steps: %v", killed, err)
			}
		}
		if found, err := project.Around(top); found != to {
			t.Errorf("after the move, commands find %q, %v", found, err)
		}
		if entries, err := os.ReadDir(top); err != nil || len(entries) != 2 { // .oacp, and the schemas, with one of another program
			t.Errorf("the top has %v, %v", entries, err)
		}
	}
}

func TestMoveIsRefused(t *testing.T) {
	top := t.TempDir()
	workspaceAt(t, top, true)
	check.WriteFile(t, filepath.Join(top, ".oacp/state/other"), "x")
	check.WriteFile(t, filepath.Join(top, "state/journal"), "x")
	if err := project.Move(top, filepath.Join(top, ".oacp"), ""); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a move over another state: %v", err)
	}
	check.Remove(t, filepath.Join(top, ".oacp/state"))
	if err := project.Move(top, filepath.Join(top, ".oacp"), ""); err != nil {
		t.Errorf("without the other state: %v", err)
	}
	if found, err := project.Around(top); found != filepath.Join(top, ".oacp") {
		t.Errorf("commands find %q, %v", found, err)
	}
}
