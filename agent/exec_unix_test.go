//go:build unix

package agent

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"
)

// TestExecKillsWhatHoldsTheOutput starts commands that end at once but leave a process that holds
// their output and ends only on SIGKILL.
func TestExecKillsWhatHoldsTheOutput(t *testing.T) {
	for _, kind := range []string{"hang", "stubborn"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			left := newFIFO(t)
			driver := started(t, NewExec(Options{Command: helperCommand(t, "forks", kind, left.path)}))
			if _, err := driver.Turn(impatient(t), Request{}, nil); err != nil {
				t.Errorf("error %v, want none: the command itself succeeded", err)
			}
			left.end(t)
		})
	}
}

// TestExecEndsItsGroup checks that processes left in a command's group end with it, even if the
// command succeeded and nothing holds its output.
func TestExecEndsItsGroup(t *testing.T) {
	left := newFIFO(t)
	driver := started(t, NewExec(Options{Command: []string{"sh", "-c", "sleep 1000 >" + left.path + " 2>&1 & echo done"}}))
	if result, err := driver.Turn(impatient(t), Request{}, nil); err != nil || result.Text != "done\n" {
		t.Errorf("answer %q (%v), want the command's", result.Text, err)
	}
	left.end(t)
}

// TestExecStopsTheWholeGroup cancels a turn whose command has a child.
func TestExecStopsTheWholeGroup(t *testing.T) {
	tool := newFIFO(t)
	driver := started(t, NewExec(Options{Command: []string{"sh", "-c", "exec 3>" + tool.path + "; " + helperShell(t, "stubborn") + " & wait"}, Grace: 50 * time.Millisecond}))
	ctx, cancel := context.WithCancel(impatient(t))
	defer cancel()
	_, err := driver.Turn(ctx, Request{}, whenSeen("hanging", cancel))
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want context.Canceled", err)
	}
	tool.end(t)
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

// TestExecBoundedMemory checks that a gigabyte of output does not take much memory.
func TestExecBoundedMemory(t *testing.T) {
	if _, err := exec.LookPath("head"); err != nil {
		t.Skip("needs head")
	}
	driver := started(t, NewExec(Options{Command: []string{"head", "-c", fmt.Sprint(1 << 30), "/dev/zero"}}))
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

// TestLastLine checks which line of a command's output explains its failure.
func TestLastLine(t *testing.T) {
	for script, want := range map[string]string{
		`echo out; echo first >&2; echo "second " >&2; echo >&2; echo more`: "second",
		`echo out; printf 'the end'`:                                        "the end",
		`printf '10%%\r20%%\rno space left' >&2`:                            "no space left",
		`:`:                                                                 "",
		`printf ' \n\n' >&2; echo out`:                                      "out",
		`printf 'caf\351\n' >&2`:                                            "caf\uFFFD",
		`head -c 100000 /dev/zero | tr '\0' x >&2`:                          strings.Repeat("x", maxQuote) + "…",
		`echo why >&2; yes | head -n 100000; echo ended`:                    "why",
	} {
		driver := started(t, NewExec(Options{Command: []string{"sh", "-c", script + "; exit 1"}}))
		var exit *ExitError
		result, err := driver.Turn(impatient(t), Request{}, nil)
		if !errors.As(err, &exit) || result.LastLine != want {
			t.Errorf("%s: last line %q (%v), want %q", script, result.LastLine, err, want)
		}
	}
}
