//go:build unix

package agent

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// startHelper starts a child that the test binary plays. Line gets its standard output.
func startHelper(t *testing.T, grace time.Duration, line func(line []byte), kind string, args ...string) *child {
	t.Helper()
	c := newChild(grace, func(text []byte, isError bool) {
		if line != nil && !isError {
			line(text)
		}
	})
	command := helperCommand(t, kind, args...)
	if err := c.launch(t.Context(), command[0], command, "", os.Environ()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return c
}

// awaitChild waits for the child's end.
func awaitChild(t *testing.T, c *child) {
	t.Helper()
	select {
	case <-c.ended:
	case <-time.After(time.Minute):
		t.Fatal("the program has not ended within a minute")
	}
}

func TestChildLines(t *testing.T) {
	var lines []string
	c := startHelper(t, 0, func(line []byte) { lines = append(lines, string(line)) }, "cat")
	c.send([]byte("one\n"))
	c.send([]byte("two\nthree\n\ncut off"))
	if err := c.finish(t.Context()); err != nil {
		t.Error(err)
	}
	if got := strings.Join(lines, "|"); got != "one|two|three|cut off" || exitError(c.process.Err()) != nil {
		t.Errorf("lines %s (%v), want one|two|three|cut off", got, exitError(c.process.Err()))
	}
	c.send([]byte("too late\n"))
}

func TestChildLongLine(t *testing.T) {
	c := startHelper(t, 0, nil, "cat")
	for range maxLine>>20 + 1 {
		c.send(make([]byte, 1<<20))
	}
	awaitChild(t, c)
	if err := c.death(); err == nil || !strings.Contains(err.Error(), "a line of more than") {
		t.Errorf("the program ended because of %v, want its long line", err)
	}
}

// TestChildFinish ends programs that heed the request to end and programs that ignore it.
func TestChildFinish(t *testing.T) {
	for kind, want := range map[string]string{"cat": "", "hang": "terminated", "stubborn": "killed"} {
		t.Run(kind, func(t *testing.T) {
			ready := make(chan struct{})
			c := startHelper(t, 50*time.Millisecond, func([]byte) { close(ready) }, kind)
			c.send([]byte("hello\n"))
			<-ready
			if err := c.finish(t.Context()); err != nil {
				t.Error(err)
			}
			var exit *ExitError
			ended := exitError(c.process.Err())
			if errors.As(ended, &exit); want == "" && ended != nil || want != "" && (exit == nil || exit.Signal != want) {
				t.Errorf("ended with %v, want signal %q", ended, want)
			}
			if err := c.finish(t.Context()); err != nil {
				t.Errorf("second finish = %v, want no error", err)
			}
		})
	}
}

// TestChildFinishInHaste checks that a program is killed at once if the context has ended.
func TestChildFinishInHaste(t *testing.T) {
	ready := make(chan struct{})
	c := startHelper(t, time.Hour, func([]byte) { close(ready) }, "stubborn")
	<-ready
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.finish(ctx); err != nil || !c.hasEnded() {
		t.Errorf("the program still runs (%v)", err)
	}
}

func TestChildStderr(t *testing.T) {
	var stderr []string
	c := newChild(0, func(line []byte, isError bool) {
		if isError {
			stderr = append(stderr, string(line))
		}
	})
	command := helperCommand(t, "fail")
	if err := c.launch(t.Context(), command[0], command, "", os.Environ()); err != nil {
		t.Fatal(err)
	}
	awaitChild(t, c)
	if got := strings.Join(stderr, "|"); got != "it broke" {
		t.Errorf("stderr %q, want: it broke", got)
	}
}

// TestChildDoesNotRead checks that sending more than a pipe holds to a program that has closed its
// input does not block.
func TestChildDoesNotRead(t *testing.T) {
	c := startHelper(t, 0, nil, "deaf")
	for range 10 {
		c.send(make([]byte, 1<<20))
	}
	awaitChild(t, c)
}

// TestChildLeavesNoise checks that a process outside the program's group that holds the output and
// writes to it forever does not block.
func TestChildLeavesNoise(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("setsid"); err != nil {
		t.Skip("needs setsid")
	}
	shell, err := exec.LookPath("sh")
	if err != nil {
		t.Fatal(err)
	}
	for name, noise := range map[string]string{"a little": "echo noise >&2; echo noise; sleep 0.02", "much": "echo " + strings.Repeat("noise", 800) + "; echo noise >&2"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lines, noisy := make(chan string, 1), make(chan struct{})
			begun := sync.OnceFunc(func() { close(noisy) })
			c := newChild(0, func(line []byte, isError bool) {
				switch {
				case isError:
				case strings.HasPrefix(string(line), "child"):
					lines <- string(line)
				default:
					begun()
				}
				<-time.After(time.Millisecond) // slower than the noise
			})
			command := []string{"sh", "-c", "setsid sh -c 'while :; do " + noise + "; done' & echo child $!; read line"}
			if err := c.launch(t.Context(), shell, command, "", os.Environ()); err != nil {
				t.Fatal(err)
			}
			pid := childOf(t, <-lines)
			defer func() { _ = syscall.Kill(-pid, syscall.SIGKILL) }() // it may have died of a closed pipe
			<-noisy                                                    // the process has left the group
			c.send([]byte("end\n"))
			awaitChild(t, c)
		})
	}
}
