package main

import (
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/oacp-go/oacp/internal/failure"
)

// inContainer is oacp as the first process of a container.
func inContainer(arguments ...string) *exec.Cmd {
	return exec.Command("unshare", append([]string{"--pid", "--fork", "--mount-proc", "--kill-child", "oacp"}, arguments...)...)
}

func requireContainer(t *testing.T) {
	t.Helper()
	if out, err := inContainer("version").CombinedOutput(); err != nil {
		t.Skipf("there are no containers here: %v\n%s", err, out)
	}
}

// TestFirstProcessReaps: the turn ends when a process that its agent left
// behind is no more, not even as a zombie.
func TestFirstProcessReaps(t *testing.T) {
	requireContainer(t)
	c := newSession(t, "a,b")
	c.must(t, "send", "--from", "a", "--to", "b", "--type", "question", "--subject", "s", "--body", "x")
	script := `sh -c 'true & echo $! >"$1"' sh "$1"; while kill -0 $(cat "$1") 2>/dev/null; do :; done`
	out, err := inContainer("run", "--dir", c.Dir, "--agent", "b", "--once", "--max-attempts", "1", "--timeout", "20s", "--",
		"sh", "-c", script, "sh", filepath.Join(t.TempDir(), "left")).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "acknowledged") {
		t.Errorf("run: %v, want the message acknowledged:\n%s", err, out)
	}
}

// TestFirstProcessPassesOn: signals reach the process that does the work, and
// its exit status comes back.
func TestFirstProcessPassesOn(t *testing.T) {
	requireContainer(t)
	c := newSession(t, "a,b")
	c.must(t, "send", "--from", "a", "--to", "b", "--type", "question", "--subject", "s", "--body", "x")
	out, err := inContainer("run", "--dir", c.Dir, "--agent", "b", "--", "sh", "-c", "kill -TERM 1; sleep 1000").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "stopped") {
		t.Errorf("run: %v, want the turn stopped:\n%s", err, out)
	}
	command := inContainer("run", "--dir", c.Dir, "--agent", "nobody", "--", "cat")
	_ = command.Run() // the status says it
	if got := command.ProcessState.ExitCode(); got != failure.ExitFailed {
		t.Errorf("exit status %d for an unknown agent, want %d", got, failure.ExitFailed)
	}
	c.must(t, "send", "--from", "a", "--to", "b", "--type", "question", "--subject", "s", "--body", "x")
	command = inContainer("run", "--dir", c.Dir, "--agent", "b", "--", "sh", "-c", "kill -KILL $PPID; sleep 1000")
	_ = command.Run()
	if got, want := command.ProcessState.ExitCode(), failure.ExitSignal+int(syscall.SIGKILL); got != want {
		t.Errorf("exit status %d of a runner that was killed, want %d", got, want)
	}
}
