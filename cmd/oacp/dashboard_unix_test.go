//go:build unix

package main

import (
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"syscall"
	"testing"
	"time"

	"github.com/oacp-go/oacp/internal/testing/terminal"
)

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
	term := terminal.Start(t, terminal.Options{
		Command: []string{program, "dashboard", "--dir", c.Dir, "--runs-dir", filepath.Join(c.Dir, "runs")},
		Env:     []string{"TZ=" + newZone(t, "XYZ", 9000)}, Columns: 80, Lines: 24,
	})
	here := time.Now().In(time.FixedZone("XYZ", 9000))
	term.Await(here.Format(time.DateOnly), " XYZ\n", "first task", "AGENT", "RUN", "TIME", "q quit")

	send("second task")
	term.Await("second task")

	term.Press("Tab")
	term.Await("* AGENT", "> claude")
	term.Press("BTab")
	term.Await("* TIME")
	term.Press("Enter")
	term.Await("Conversation:", "Please do.", "esc back")
	term.Press("Escape")
	term.Await("first task", "second task")

	term.Resize(40, 11)
	term.Await("* TIME", "q quit  tab agents  enter conversation …")
	term.Resize(120, 40)
	term.Await("RUN", "q quit  tab agents  enter conversation  up/down select")
	if screen := term.Styled(); regexp.MustCompile(`\x1b\[[0-9;]*[349][0-7][;m]`).MatchString(screen) {
		t.Errorf("the view has colours, want none:\n%q", screen)
	}

	term.Press("q")
	if status := term.Wait(); status != 0 {
		t.Errorf("left with status %d, want 0", status)
	}
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
	term := terminal.Start(t, terminal.Options{
		Command: []string{program, "dashboard", "--runs-dir", filepath.Join(c.Dir, "runs")}, Dir: c.Dir, Columns: 80, Lines: 24,
	})
	pair, answer := startPair(t, program, c.Dir)
	term.Await("working (codex)", "mend it")

	term.Press("BTab")
	term.Await("* RUN", "> 1", "q quit  tab messages  enter conversation")
	term.Press("Enter")
	term.Await("Run 1  working (codex)  1/20  mend it", "user -> codex  task", "esc back")

	answer()
	term.Await("codex -> claude  signal DONE  iteration 1", "it is not right", "Run 1  working (codex)  2/20")

	if err := pair.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	term.Await("Run 1  stopped (working)  2/20  mend it")
	term.Press("Escape")
	term.Await("* RUN", "stopped (working)", "DONE 1 FAIL")

	term.Press("BTab", "Down", "Enter")
	term.Await("messages of codex only", "esc all messages")
	term.Press("q")
	if status := term.Wait(); status != 0 {
		t.Errorf("left with status %d, want 0", status)
	}
}
