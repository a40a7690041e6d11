//go:build unix

package main

import (
	"bufio"
	"bytes"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// TestSignal stops a real process that waits.
func TestSignal(t *testing.T) {
	for signal, want := range map[syscall.Signal]int{syscall.SIGHUP: 129, syscall.SIGINT: 130, syscall.SIGTERM: 143} {
		c := newSession(t, "a,b")
		command := exec.CommandContext(t.Context(), "oacp", "send", "--dir", c.dir,
			"--from", "a", "--to", "b", "--type", "question", "--subject", "s", "--body", "x", "--wait", "--json")
		var stderr bytes.Buffer
		command.Stderr = &stderr
		stdout, err := command.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := command.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(stdout)
		if !lines.Scan() {
			t.Fatalf("send printed nothing; standard error:\n%s", stderr.String())
		}
		if err := command.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
		if !lines.Scan() || !strings.Contains(lines.Text(), `"code":"interrupted"`) {
			t.Errorf("%v: printed %q, want an error with the code interrupted", signal, lines.Text())
		}
		_ = command.Wait() // the status says it
		if got := command.ProcessState.ExitCode(); got != want {
			t.Errorf("%v: exit status is %d, want %d; standard error:\n%s", signal, got, want, stderr.String())
		}
		if out := c.must(t, "inbox", "--agent", "b"); !strings.Contains(out, "1 pending") {
			t.Errorf("%v: the inbox is %q, want the message in it", signal, out)
		}
	}
}
