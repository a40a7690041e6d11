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

	"github.com/oacp-go/oacp/internal/testing/terminal"
)

// A tmuxScene is oacp pair --tmux in a terminal, with agents that show a line and then wait to be
// released. The run is in another tmux server than the terminal.
type tmuxScene struct {
	t *testing.T
	*terminal.Terminal
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
	scene := &tmuxScene{t: t, folder: t.TempDir()}
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
	agent := "sh " + filepath.Join(scene.folder, "agent") + " " + scene.folder
	scene.Terminal = terminal.Start(t, terminal.Options{
		Command: []string{program, "pair", "x", "--tmux", "--review", "claude", "--runs-dir", filepath.Join(scene.folder, "runs"),
			"--codex-command", agent, "--claude-command", agent},
		Dir: filepath.Join(scene.folder, "repository"), Env: []string{"TMUX_TMPDIR=" + scene.sockets}, Columns: 80, Lines: 24,
	})
	scene.Await("tmux attach -t agentpair-repository-", "codex works")
	name, err := scene.shown("list-sessions", "-F", "#{session_name}")
	if err != nil {
		t.Fatal(err)
	}
	scene.session = strings.TrimSpace(name)
	return scene
}

// shown asks the tmux server that the run is in.
func (s *tmuxScene) shown(args ...string) (string, error) {
	cmd := exec.Command("tmux", args...)
	cmd.Env = append(os.Environ(), "TMUX=", "TMUX_TMPDIR="+s.sockets)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// awaitStatus waits until the command in the terminal ends with the status.
func (s *tmuxScene) awaitStatus(want int) {
	s.t.Helper()
	if status := s.Wait(); status != want {
		s.t.Errorf("the command ended with status %d, want %d", status, want)
	}
}

// awaitPane waits until an agent's pane shows that it is at work, and only it.
func (s *tmuxScene) awaitPane(pane, agent, other string) {
	s.t.Helper()
	for s.panes() != 3 && s.t.Context().Err() == nil { // they are made one after the other
	}
	for s.t.Context().Err() == nil {
		text, err := s.shown("capture-pane", "-p", "-J", "-t", "="+s.session+":."+pane)
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

// panes counts the panes of the session.
func (s *tmuxScene) panes() int {
	out, err := s.shown("list-panes", "-t", "="+s.session)
	if err != nil {
		s.t.Fatalf("listing the panes: %v\n%s", err, out)
	}
	return strings.Count(out, "\n")
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

// awaitPlace waits until the pane at a place in the window shows a text.
func (s *tmuxScene) awaitPlace(place, want string) {
	s.t.Helper()
	for s.t.Context().Err() == nil {
		text, err := s.shown("capture-pane", "-p", "-J", "-t", "="+s.session+":.{"+place+"}")
		if err != nil {
			s.t.Fatalf("capturing the %s pane: %v\n%s", place, err, text)
		}
		if strings.Contains(text, want) {
			return
		}
	}
}

// closeSession presses Enter in the pane of the run, and waits until the session has ended.
func (s *tmuxScene) closeSession() {
	s.t.Helper()
	s.awaitPlace("bottom", "Enter closes this tmux session")
	if out, err := s.shown("send-keys", "-t", "="+s.session+":.{bottom}", "Enter"); err != nil {
		s.t.Fatalf("pressing Enter: %v\n%s", err, out)
	}
	s.awaitEnd()
}

// driver returns the process that drives the run.
func (s *tmuxScene) driver() int {
	s.t.Helper()
	notes, err := filepath.Glob(filepath.Join(s.folder, "runs", "*", "1", "pair.json"))
	if err != nil || len(notes) != 1 {
		s.t.Fatalf("the driver of the run is noted in %q, %v; want one file", notes, err)
	}
	var holder struct {
		PID int `json:"pid"`
	}
	data, err := os.ReadFile(notes[0])
	if err := errors.Join(err, json.Unmarshal(data, &holder)); err != nil {
		s.t.Fatal(err)
	}
	return holder.PID
}

// TestPairTmux checks that each agent has a pane that shows it at work, above one with the run, that
// the terminal shows the run, too, and that the result stays until someone presses Enter.
func TestPairTmux(t *testing.T) {
	scene := newTmuxScene(t)
	scene.awaitPane("{top-left}", "codex", "claude")
	scene.release("codex")
	scene.awaitPane("{top-right}", "claude", "codex")
	scene.awaitPlace("bottom", "claude reviews")
	scene.release("claude")
	scene.Await("run 1 is completed in iteration 1")
	scene.awaitStatus(0)
	scene.awaitPlace("bottom", "run 1 is completed in iteration 1")
	scene.closeSession()
}

// TestPairTmuxMissing checks that the command says what is missing, and makes no run.
func TestPairTmuxMissing(t *testing.T) {
	program, err := exec.LookPath("oacp")
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	command := exec.Command(program, "pair", "x", "--tmux", "--codex-only", "--codex-command", "/bin/echo DONE", "--runs-dir", filepath.Join(folder, "runs"))
	command.Dir, command.Env = folder, []string{"PATH=" + folder, "HOME=" + folder}
	out, err := command.CombinedOutput()
	if want := "hint: install tmux with your system's package manager, or leave --tmux out\n"; err == nil || !strings.HasSuffix(string(out), want) {
		t.Errorf("%v, want the hint %q in\n%s", err, want, out)
	}
	if _, err := os.Stat(filepath.Join(folder, "runs")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("there is a folder of runs (%v), want none", err)
	}
}

// TestPairTmuxTerminalClosed checks that the run goes on when its terminal is closed.
func TestPairTmuxTerminalClosed(t *testing.T) {
	scene := newTmuxScene(t)
	scene.awaitPane("{top-left}", "codex", "claude")
	scene.Close()
	scene.release("codex")
	scene.awaitPlace("bottom", "claude reviews")
	scene.release("claude")
	scene.awaitPlace("bottom", "run 1 is completed in iteration 1")
	scene.closeSession()
}

// TestPairTmuxInterrupted checks that ^C in the terminal leaves the run alone and says how to get at
// it.
func TestPairTmuxInterrupted(t *testing.T) {
	scene := newTmuxScene(t)
	scene.awaitPane("{top-left}", "codex", "claude")
	scene.Press("C-c")
	scene.Await("hint: the run continues in tmux: tmux attach -t")
	scene.awaitStatus(130)
	scene.release("codex")
	scene.awaitPane("{top-right}", "claude", "codex")
	scene.release("claude")
	scene.awaitPlace("bottom", "run 1 is completed in iteration 1")
	scene.closeSession()
}

// TestPairTmuxStopped checks that ^C in the pane of the run stops the run, and that the pane then
// prints the command that continues it.
func TestPairTmuxStopped(t *testing.T) {
	scene := newTmuxScene(t)
	scene.awaitPane("{top-left}", "codex", "claude")
	if out, err := scene.shown("send-keys", "-t", "="+scene.session+":.{bottom}", "C-c"); err != nil {
		t.Fatalf("pressing ^C: %v\n%s", err, out)
	}
	scene.awaitPlace("bottom", "oacp pair --run-id 1")
	scene.closeSession()
	scene.awaitStatus(1)
}

// TestPairTmuxKilled checks that the end of a run that is killed shows in the terminal, and how to
// continue the run.
func TestPairTmuxKilled(t *testing.T) {
	scene := newTmuxScene(t)
	scene.awaitPane("{top-left}", "codex", "claude")
	if err := syscall.Kill(scene.driver(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	scene.Await("the process that drove run 1 has ended", "continues the run")
	scene.awaitStatus(1)
	scene.closeSession()
}
