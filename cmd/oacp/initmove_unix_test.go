//go:build unix

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/oacp-go/oacp/internal/testing/terminal"
)

// TestInitAsksBeforeItMoves answers the question of init --git about a workspace at the top of the repository.
func TestInitAsksBeforeItMoves(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, args := range [][]string{{"git", "init", "-q"}, {"oacp", "init", "--commit", "--agents", "anna"}} {
		command := exec.Command(args[0], args[1:]...)
		if command.Dir = dir; command.Run() != nil {
			t.Fatalf("%q failed", args)
		}
	}
	for _, answer := range []struct {
		key    string
		status int
		want   string
	}{{"n", 1, dir}, {"y", 0, filepath.Join(dir, ".oacp")}} {
		term := terminal.Start(t, terminal.Options{Command: []string{"oacp", "init", "--git"}, Dir: dir, Columns: 300})
		term.Await("move the workspace "+dir+", with its mail and state, to ", "[y/N]")
		term.Press(answer.key, "Enter")
		if status := term.Wait(); status != answer.status {
			t.Errorf("after %s, init ended with %d:\n%s", answer.key, status, term.Screen())
		}
		if _, err := os.Stat(filepath.Join(answer.want, "agents/anna/inbox")); err != nil {
			t.Errorf("after %s: %v", answer.key, err)
		}
	}
}
