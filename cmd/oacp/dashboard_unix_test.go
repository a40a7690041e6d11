//go:build unix

package main

import (
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// terminal is a tmux server of a test's own with one pane.
type terminal struct{ t *testing.T }

// newTerminal runs a command in a terminal of 80 columns and 24 lines.
func newTerminal(t *testing.T, command ...string) terminal {
	t.Helper()
	if _, err := exec.LookPath("tmux"); err != nil {
		t.Skip("there is no tmux for the test of the live view")
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
		// -J joins wrapped lines, and keeps the spaces at the end of others.
		screen = regexp.MustCompile(`(?m) +$`).ReplaceAllString(term.tmux("capture-pane", "-p", "-J"), "")
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

// newZone writes a time zone and returns the path of the file, a value for TZ.
func newZone(t *testing.T, name string, seconds uint32) string {
	t.Helper()
	zone := append([]byte("TZif"), make([]byte, 16)...) // format 1
	for _, count := range []uint32{0, 0, 0, 0, 1, uint32(len(name) + 1), seconds} {
		zone = binary.BigEndian.AppendUint32(zone, count)
	}
	zone = append(append(zone, 0, 0), name+"\x00"...)
	path := filepath.Join(t.TempDir(), "zone")
	if err := os.WriteFile(path, zone, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
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
	term := newTerminal(t, "sh", "-c", `TZ=$2 "$0" dashboard --dir "$1" --runs-dir "$1/runs"; echo "left with $?"; read line`, program, c.Dir, newZone(t, "XYZ", 9000))
	here := time.Now().In(time.FixedZone("XYZ", 9000))
	term.awaitText(here.Format(time.DateOnly), " XYZ\n", "first task", "AGENT", "RUN", "TIME", "q quit")

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

	term.tmux("send-keys", "?")
	term.awaitText("up, down    select a row, or scroll", "esc         back", "q, ctrl-c   quit", "any other key goes back")
	term.tmux("send-keys", "?")
	term.awaitText("* TIME", "? keys")
	term.tmux("send-keys", "Enter")
	term.awaitText("Conversation:")
	term.tmux("send-keys", "?")
	term.awaitText("up, down    select a row, or scroll")
	term.tmux("send-keys", "Down")
	term.awaitText("Conversation:")
	term.tmux("send-keys", "Escape")

	term.tmux("resize-window", "-x", "40", "-y", "11")
	term.awaitText("* FROM", "STATE", "q quit  ? keys  tab agents  enter conve…")
	term.tmux("send-keys", "?")
	term.awaitText("up, down    select a row, or scroll", "q, ctrl-c   quit")
	term.tmux("send-keys", "x")
	term.tmux("resize-window", "-x", "120", "-y", "40")
	term.awaitText("RUN", "q quit  ? keys  tab agents  enter conversation  up/down select")
	if screen := term.tmux("capture-pane", "-p", "-e"); regexp.MustCompile(`\x1b\[[0-9;]*[349][0-7][;m]`).MatchString(screen) {
		t.Errorf("the view has colours, want none:\n%q", screen)
	}

	term.tmux("send-keys", "q")
	term.awaitText("left with 0")
	term.tmux("send-keys", "Enter")
}

// startPair starts a pair in a folder, whose worker waits for a line in each of its turns before it
// answers. The reviewer never approves.
func startPair(t *testing.T, program, folder string) (pair *exec.Cmd, answer func()) {
	t.Helper()
	lines := filepath.Join(folder, "lines")
	if err := syscall.Mkfifo(lines, 0o600); err != nil {
		t.Fatal(err)
	}
	worker := "#!/bin/sh\ncat >/dev/null\nread line <'" + lines + "'\necho I did it\necho DONE\n"
	reviewer := "#!/bin/sh\ncat >/dev/null\necho it is not right\necho FAIL\n"
	for name, text := range map[string]string{"worker": worker, "reviewer": reviewer} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	pipe, err := os.OpenFile(lines, os.O_RDWR, 0) // to write alone would wait for a reader
	if err != nil {
		t.Fatal(err)
	}
	answer = func() {
		if _, err := pipe.WriteString("\n"); err != nil {
			t.Error(err)
		}
	}
	pair = exec.CommandContext(t.Context(), program, "pair", "mend it", "--review", "claude",
		"--codex-command", filepath.Join(folder, "worker"), "--claude-command", filepath.Join(folder, "reviewer"))
	pair.Dir, pair.Env = folder, append(os.Environ(), "OACP_RUNS="+filepath.Join(folder, "runs"), "HOME="+folder)
	if err := pair.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = pair.Process.Kill() // it was, unless the test has failed
		_ = pair.Wait()
		answer() // the worker that has lost its pair ends, too
		if err := pipe.Close(); err != nil {
			t.Error(err)
		}
	})
	return pair, answer
}

// TestDashboardRunLive follows the conversation of a run in a real terminal, until the process that
// drives it is killed.
func TestDashboardRunLive(t *testing.T) {
	c := newSession(t, "claude,codex")
	program, err := exec.LookPath("oacp")
	if err != nil {
		t.Fatal(err)
	}
	term := newTerminal(t, "sh", "-c", `cd "$1" && "$0" dashboard --runs-dir "$1/runs"; echo "left with $?"; read line`, program, c.Dir)
	pair, answer := startPair(t, program, c.Dir)
	term.awaitText("working (codex)", "mend it")

	term.tmux("send-keys", "BTab")
	term.awaitText("* RUN", "> 1", "q quit  ? keys  tab messages  enter conversation")
	term.tmux("send-keys", "Enter")
	term.awaitText("Run 1  working (codex)  1/20  mend it", "user -> codex  task", "esc back")

	answer()
	term.awaitText("codex -> claude  signal DONE  iteration 1", "it is not right", "Run 1  working (codex)  2/20")

	if err := pair.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	term.awaitText("Run 1  stopped (working)  2/20  mend it")
	term.tmux("send-keys", "Escape")
	term.awaitText("* RUN", "stopped (working)", "DONE 1 FAIL")

	term.tmux("send-keys", "BTab", "Down", "Enter")
	term.awaitText("messages of codex only", "esc all messages")
	term.tmux("send-keys", "q")
	term.awaitText("left with 0")
	term.tmux("send-keys", "Enter")
}
