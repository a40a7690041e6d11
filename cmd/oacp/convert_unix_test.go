//go:build unix

package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/oacp-go/oacp/internal/command"
)

func makePipe(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Skipf("this file system has no pipes: %v", err)
	}
	return path
}

// TestConvertPipe checks that convert reads a named pipe to its end.
func TestConvertPipe(t *testing.T) {
	c := newSession(t, "a,b")
	pipe := makePipe(t)
	written := make(chan error, 1)
	go func() {
		written <- os.WriteFile(pipe, []byte(`{"id":"x","type":"task","from":"a","to":"b","content":"piped","timestamp":"2024-03-28T10:00:00Z"}`+"\n"), 0)
	}()
	if out := c.must(t, "convert", "--to", "mailbox", pipe); !strings.HasPrefix(out, "0 recorded, 1 delivered") {
		t.Errorf("got %q, want 1 delivered", out)
	}
	if err := <-written; err != nil {
		t.Error(err)
	}
}

// TestSignalBreaksOffConvert checks that a signal stops the command while it reads a pipe without a
// writer.
func TestSignalBreaksOffConvert(t *testing.T) {
	c := newSession(t, "a,b")
	for _, to := range []string{"mailbox", "bridge"} {
		reader, writer, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		convert := exec.CommandContext(t.Context(), "oacp", "convert", "--dir", c.Dir, "--to", to, "-")
		var stderr bytes.Buffer
		convert.Stdin, convert.Stderr = reader, &stderr
		if err := errors.Join(convert.Start(), reader.Close()); err != nil {
			t.Fatal(err)
		}
		// More than a pipe holds, so the command is reading, and waits for more.
		if _, err := writer.Write(bytes.Repeat([]byte(" "), 256<<10)); err != nil {
			t.Fatal(err)
		}
		if err := convert.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		_ = convert.Wait() // the status says it
		if got, want := convert.ProcessState.ExitCode(), 128+int(syscall.SIGTERM); got != want {
			t.Errorf("to %s: exit status is %d, want %d; standard error:\n%s", to, got, want, stderr.String())
		}
		if err := writer.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestOpeningAPipeEndsWithTheContext checks that the end of the context stops the wait for a
// writer.
func TestOpeningAPipeEndsWithTheContext(t *testing.T) {
	pipe := makePipe(t)
	ctx, stop := context.WithCancelCause(context.Background())
	in := startReading(&call{Streams: &command.Streams{}, ctx: ctx}, pipe)
	told := errors.New("told to stop")
	stop(told)
	if _, err := io.ReadAll(in); !errors.Is(err, told) {
		t.Errorf("got %v, want %v", err, told)
	}
	// The open may still be in progress, or may not have begun: let it end.
	writer, err := os.OpenFile(pipe, os.O_RDWR, 0)
	if err = errors.Join(err, in.Close()); err != nil {
		t.Error(err)
	}
	t.Cleanup(func() { _ = writer.Close() })
}

// TestPipeAsLog checks that a pipe is refused as a log, and that no command waits for it.
func TestPipeAsLog(t *testing.T) {
	c := newSession(t, "a,b")
	pipe := makePipe(t)
	for _, args := range [][]string{
		{"bridge", "status"}, {"bridge", "drain", "--agent", "a"},
		{"bridge", "send", "--from", "a", "--type", "chat", "--content", "x"}, {"mirror", "--dir", c.Dir},
	} {
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		out, err := exec.CommandContext(ctx, "oacp", append(args, "--bridge", pipe)...).CombinedOutput()
		if ctx.Err() != nil || err == nil || !strings.Contains(string(out), "not a regular file") {
			t.Errorf("%q: got %v, %s, want it refused", args, err, out)
		}
		stop()
	}
}
