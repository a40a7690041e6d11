package main

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// TestKilledRunnerLeavesNoBridge checks that a bridge that a runner started ends with it, however
// the runner ends, and removes its socket.
func TestKilledRunnerLeavesNoBridge(t *testing.T) {
	c := newSession(t, "a,b")
	c.must(t, "send", "--from", "a", "--to", "b", "--type", "question", "--subject", "s", "--body", "x")
	note := filepath.Join(t.TempDir(), "socket.txt")
	command := exec.Command("oacp", "run", "--dir", c.Dir, "--agent", "b", "--driver", "ash", "--", "oacp", "ash", "serve", "--",
		"sh", "-c", `echo $ASH_BRIDGE_SOCKET >"$1.new" && mv "$1.new" "$1" && sleep 1000`, "sh", note)
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	var socket []byte
	for socket == nil {
		var err error
		if socket, err = os.ReadFile(note); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		runtime.Gosched()
	}
	if err := command.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = command.Wait() // it was killed
	for {              // the test's own limit ends it
		left, err := filepath.Glob(strings.TrimSpace(string(socket)) + "*")
		if err != nil {
			t.Fatal(err)
		}
		if len(left) == 0 {
			break
		}
		runtime.Gosched()
	}
}
