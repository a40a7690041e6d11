//go:build unix

package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// terminal is a tmux server of a test's own with one pane.
type terminal struct{ t *testing.T }

// newTerminal runs a command in a terminal of 80 columns and 24 lines.
func newTerminal(t *testing.T, command ...string) terminal {
	t.Helper()
	if _, err := exec.LookPath("tmux"); err != nil {
		t.Skip("there is no tmux: the live view is not tried in a terminal")
	}
	sockets, err := os.MkdirTemp("", "tmux") // a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMUX_TMPDIR", sockets)
	t.Setenv("TMUX", "")
	term := terminal{t}
	t.Cleanup(func() {
		_ = exec.Command("tmux", "kill-server").Run() // it has ended with its command, as a rule
		if err := os.RemoveAll(sockets); err != nil {
			t.Error(err)
		}
	})
	term.tmux(append([]string{"-f", os.DevNull, "new-session", "-d", "-x", "80", "-y", "24"}, command...)...)
	return term
}

func (term terminal) tmux(args ...string) string {
	term.t.Helper()
	out, err := exec.CommandContext(term.t.Context(), "tmux", args...).CombinedOutput()
	if err != nil {
		term.t.Fatalf("tmux %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// awaitText waits until the screen shows all of the texts.
func (term terminal) awaitText(texts ...string) {
	term.t.Helper()
	screen := ""
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		screen = term.tmux("capture-pane", "-p")
		missing := false
		for _, text := range texts {
			missing = missing || !strings.Contains(screen, text)
		}
		if !missing {
			return
		}
	}
	term.t.Fatalf("after a minute the screen lacks one of %q:\n%s", texts, screen)
}

// TestDashboardLive drives the live view in a real terminal.
func TestDashboardLive(t *testing.T) {
	c := newSession(t, "claude,codex")
	send := func(subject string) {
		t.Helper()
		c.must(t, "send", "--from", "claude", "--to", "codex", "--type", "task_request", "--subject", subject, "--body", "Please do.")
	}
	send("first task")
	program, err := exec.LookPath("oacp")
	if err != nil {
		t.Fatal(err)
	}
	term := newTerminal(t, "sh", "-c", `"$0" dashboard --dir "$1" --runs-dir "$1/runs"; echo "left with $?"; read line`, program, c.dir)
	term.awaitText("first task", "AGENT", "RUN", "TIME", "q quit")

	send("second task")
	term.awaitText("second task")

	term.tmux("send-keys", "Tab")
	term.awaitText("* AGENT", "> claude")
	term.tmux("send-keys", "BTab")
	term.awaitText("* TIME")
	term.tmux("send-keys", "Enter")
	term.awaitText("Conversation:", "Please do.", "esc back")
	term.tmux("send-keys", "Escape")
	term.awaitText("first task", "second task")

	term.tmux("resize-window", "-x", "40", "-y", "11")
	term.awaitText("* TIME", "q quit  tab next")
	term.tmux("resize-window", "-x", "120", "-y", "40")
	term.awaitText("RUN", "q quit  tab next  enter conversation")

	term.tmux("send-keys", "q")
	term.awaitText("left with 0")
	term.tmux("send-keys", "Enter")
}
