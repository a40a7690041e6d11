//go:build unix

package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestExecKillsWhatHoldsTheOutput starts commands that end at once and leave a
// process behind which holds their output and ends for nobody but SIGKILL.
func TestExecKillsWhatHoldsTheOutput(t *testing.T) {
	for _, kind := range []string{"hang", "stubborn"} {
		t.Run(kind, func(t *testing.T) {
			driver := NewExec(helperCommand(t, "forks", kind), nil)
			driver.pipeDelay = 200 * time.Millisecond
			started(t, driver)
			result, err := driver.Turn(impatient(t), Request{}, nil)
			if err != nil {
				t.Errorf("error %v, want none: the command itself did well", err)
			}
			awaitEnd(t, childOf(t, result.Text))
		})
	}
}

// TestExecEndsItsGroup: what a command leaves in its group ends with it, also
// if the command did well and nothing holds its output.
func TestExecEndsItsGroup(t *testing.T) {
	left := newFIFO(t)
	driver := started(t, NewExec([]string{"sh", "-c", "sleep 1000 >" + left.path + " 2>&1 & echo done"}, nil))
	if result, err := driver.Turn(impatient(t), Request{}, nil); err != nil || result.Text != "done\n" {
		t.Errorf("answer %q (%v), want that of the command", result.Text, err)
	}
	left.end(t)
}

// TestExecStopsTheWholeGroup cancels a turn whose command has a child.
func TestExecStopsTheWholeGroup(t *testing.T) {
	driver := started(t, NewExec([]string{"sh", "-c", helperShell(t, "stubborn") + " & echo child $!; wait"}, &ExecOptions{Grace: 50 * time.Millisecond}))
	ctx, cancel := context.WithCancel(impatient(t))
	defer cancel()
	result, err := driver.Turn(ctx, Request{}, whenSeen("hanging", cancel))
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want context.Canceled", err)
	}
	awaitEnd(t, childOf(t, result.Text))
}

func helperShell(t *testing.T, kind string) string {
	t.Helper()
	return "'" + strings.Join(helperCommand(t, kind), "' '") + "'"
}

func childOf(t *testing.T, text string) int {
	t.Helper()
	var pid int
	at := strings.Index(text, "child ")
	if at < 0 {
		t.Fatalf("output %q names no child", text)
	}
	if _, err := fmt.Sscanf(text[at:], "child %d", &pid); err != nil {
		t.Fatalf("output %q names no child: %v", text, err)
	}
	return pid
}

// awaitEnd waits until there is no such process, or only what is left of one
// that nobody has waited for.
func awaitEnd(t *testing.T, pid int) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) || isZombie(pid) {
			return
		}
	}
	t.Errorf("process %d still runs", pid)
	_ = syscall.Kill(pid, syscall.SIGKILL)
}

func isZombie(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, ok := strings.Cut(string(stat), ") ")
	return err == nil && ok && strings.HasPrefix(rest, "Z")
}

// TestExecBoundedMemory lets a command print a gigabyte.
func TestExecBoundedMemory(t *testing.T) {
	if _, err := exec.LookPath("head"); err != nil {
		t.Skip("needs head")
	}
	driver := started(t, NewExec([]string{"head", "-c", fmt.Sprint(1 << 30), "/dev/zero"}, nil))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	result, err := driver.Turn(impatient(t), Request{}, nil)
	runtime.ReadMemStats(&after)
	if err != nil || !result.Truncated || len(result.Text) != MaxText || len(result.Tail) != maxTail {
		t.Errorf("error %v, truncated %v, %d bytes and a tail of %d, want a truncated answer of %d and a tail of %d",
			err, result.Truncated, len(result.Text), len(result.Tail), MaxText, maxTail)
	}
	if took, most := after.TotalAlloc-before.TotalAlloc, uint64(16<<20); took > most {
		t.Errorf("a gigabyte of output took %d bytes of memory, want at most %d", took, most)
	}
}
