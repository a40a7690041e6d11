//go:build unix

package main

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A tmuxScene is oacp pair --tmux in a terminal, with agents that show a line and then wait to be
// released. Another tmux server than the terminal's shows the agents.
type tmuxScene struct {
	terminal
	// folder holds the repository, the runs, and the pipes on which the agents wait.
	folder, sockets string
	// session is the tmux session of the run.
	session string
}

func newTmuxScene(t *testing.T) *tmuxScene {
	t.Helper()
	program, err := exec.LookPath("oacp")
	if err != nil {
		t.Fatal(err)
	}
	scene := &tmuxScene{folder: t.TempDir()}
	for name, text := range map[string]string{
		"repository/README": "x", "repository/.git/HEAD": "ref: refs/heads/main\n",
		"agent": "cat >/dev/null\necho $OACP_AGENT at work\nread line <$1/$OACP_AGENT\n[ $OACP_ROLE = worker ] && echo DONE || echo PASS\n",
	} {
		path := filepath.Join(scene.folder, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	for _, agent := range []string{"codex", "claude"} {
		if err := syscall.Mkfifo(filepath.Join(scene.folder, agent), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if scene.sockets, err = os.MkdirTemp("", "tmux"); err != nil { // a socket's path must be short
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_, _ = scene.shown("kill-server") // it has ended with the run, as a rule
		if err := os.RemoveAll(scene.sockets); err != nil {
			t.Error(err)
		}
	})
	scene.terminal = newTerminal(t, "sh", "-c",
		`cd "$1/repository"; a="sh $1/agent $1"; TMUX= TMUX_TMPDIR=$2 "$0" pair x --tmux --review claude --runs-dir "$1/runs" --codex-command "$a" --claude-command "$a"; echo "ended with $?"; read line`,
		program, scene.folder, scene.sockets)
	scene.awaitText("tmux attach -t agentpair-repository-", "codex works")
	name, err := scene.shown("list-sessions", "-F", "#{session_name}")
	if err != nil {
		t.Fatal(err)
	}
	scene.session = strings.TrimSpace(name)
	return scene
}

// shown asks the tmux server that shows the agents.
func (s *tmuxScene) shown(args ...string) (string, error) {
	cmd := exec.Command("tmux", args...)
	cmd.Env = append(os.Environ(), "TMUX=", "TMUX_TMPDIR="+s.sockets)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// awaitPane waits until an agent's pane shows that it is at work, and only it.
func (s *tmuxScene) awaitPane(pane, agent, other string) {
	s.t.Helper()
	for s.t.Context().Err() == nil {
		text, err := s.shown("capture-pane", "-p", "-t", "="+s.session+":."+pane)
		switch {
		case err != nil:
			s.t.Fatalf("capturing the pane of %s: %v\n%s", agent, err, text)
		case strings.Contains(text, other+" at work"):
			s.t.Fatalf("the pane of %s shows %s:\n%s", agent, other, text)
		case strings.Contains(text, agent+" at work"):
			return
		}
	}
}

// release lets an agent go on.
func (s *tmuxScene) release(agent string) {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(s.folder, agent), []byte("go\n"), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// awaitEnd waits until no pane shows an agent.
func (s *tmuxScene) awaitEnd() {
	for s.t.Context().Err() == nil {
		if _, err := s.shown("has-session", "-t", "="+s.session); err != nil {
			return
		}
	}
}

// TestPairTmux checks that each agent has a pane that shows it at work, and that all panes end with
// the run.
func TestPairTmux(t *testing.T) {
	scene := newTmuxScene(t)
	scene.awaitPane("0", "codex", "claude")
	scene.release("codex")
	scene.awaitPane("1", "claude", "codex")
	scene.release("claude")
	scene.awaitText("run 1 is completed in iteration 1", "ended with 0")
	scene.awaitEnd()
	scene.tmux("send-keys", "Enter")
}

// TestPairTmuxKilled checks that the panes of a killed run end, too.
func TestPairTmuxKilled(t *testing.T) {
	scene := newTmuxScene(t)
	scene.awaitPane("0", "codex", "claude")
	notes, err := filepath.Glob(filepath.Join(scene.folder, "runs", "*", "1", "pair.json"))
	if err != nil || len(notes) != 1 {
		t.Fatalf("the driver of the run is noted in %q, %v; want one file", notes, err)
	}
	var holder struct {
		PID int `json:"pid"`
	}
	data, err := os.ReadFile(notes[0])
	if err := errors.Join(err, json.Unmarshal(data, &holder)); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(holder.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	scene.awaitText("ended with 137")
	scene.awaitEnd()
	scene.tmux("send-keys", "Enter")
}
