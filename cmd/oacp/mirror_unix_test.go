//go:build unix

package main

import (
	"bufio"
	"bytes"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/oacp-go/oacp/internal/failure"
)

// TestMirrorFollow lets a real process follow both ways, and stops it.
func TestMirrorFollow(t *testing.T) {
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		c := newSession(t, "a,b")
		log := filepath.Join(c.Dir, "bridge.jsonl")
		send := func(subject string) {
			t.Helper()
			c.must(t, "send", "--from", "a", "--to", "b", "--type", "question", "--subject", subject, "--body", "x")
		}
		send("before")
		command := exec.CommandContext(t.Context(), "oacp", "mirror", "--dir", c.Dir, "--bridge", log, "--follow", "--json")
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
		wait := func(want string) {
			t.Helper()
			for lines.Scan() {
				if strings.Contains(lines.Text(), want) {
					return
				}
			}
			t.Fatalf("want a line with %s; standard error:\n%s", want, stderr.String())
		}
		wait(`"recorded":1`)
		send("while it runs")
		wait(`"recorded":1`)
		c.must(t, "bridge", "send", "--bridge", log, "--from", "a", "--to", "b", "--type", "chat", "--content", "from the bridge")
		wait(`"delivered":1`)
		if err := command.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
		for lines.Scan() {
			t.Errorf("%v: printed %q, want nothing more", signal, lines.Text())
		}
		_ = command.Wait() // the status says it
		if got := command.ProcessState.ExitCode(); got != failure.ExitDone || stderr.Len() > 0 {
			t.Errorf("%v: exit status is %d, want 0 and nothing on standard error, which has:\n%s", signal, got, stderr.String())
		}
		if out := c.must(t, "mirror", "--bridge", log); !strings.HasPrefix(out, "0 recorded, 0 delivered") {
			t.Errorf("%v: a mirror afterwards says %q, want nothing left to do", signal, out)
		}
	}
}
