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

	"github.com/oacp-go/oacp/ash"
)

// TestKilledRunnerLeavesNoBridge: a bridge that a runner started ends with it,
// whatever the runner dies of, and takes its socket away.
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
		_, err := os.Lstat(strings.TrimSpace(string(socket)))
		if errors.Is(err, fs.ErrNotExist) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		runtime.Gosched()
	}
	// The next start of a bridge clears away what reserved the socket.
	reservation, err := ash.ReserveSocket()
	if err == nil {
		err = reservation.Release()
	}
	if err != nil {
		t.Fatal(err)
	}
	if left, err := filepath.Glob(strings.TrimSpace(string(socket)) + "*"); err != nil || len(left) > 0 {
		t.Errorf("%q are left (%v), want nothing", left, err)
	}
}
