//go:build unix

package main

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/oacp-go/oacp/internal/testing/check"
)

// TestSignal stops a real process that waits.
func TestSignal(t *testing.T) {
	hearHangups()
	for sent, want := range map[syscall.Signal]int{syscall.SIGHUP: 129, syscall.SIGINT: 130, syscall.SIGTERM: 143} {
		c := newSession(t, "a,b")
		command := exec.CommandContext(t.Context(), "oacp", "send", "--dir", c.Dir,
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
		if err := command.Process.Signal(sent); err != nil {
			t.Fatal(err)
		}
		if !lines.Scan() || !strings.Contains(lines.Text(), `"code":"interrupted"`) {
			t.Errorf("%v: printed %q, want an error with the code interrupted", sent, lines.Text())
		}
		_ = command.Wait() // the status says it
		if got := command.ProcessState.ExitCode(); got != want {
			t.Errorf("%v: exit status is %d, want %d; standard error:\n%s", sent, got, want, stderr.String())
		}
		if out := c.must(t, "inbox", "--agent", "b"); !strings.Contains(out, "1 pending") {
			t.Errorf("%v: the inbox is %q, want the message in it", sent, out)
		}
	}
}

// TestSignalBeforeReceipt stops send and reply after the commit, while nobody reads their output. They print the
// receipt all the same, and their status says that the message is sent.
func TestSignalBeforeReceipt(t *testing.T) {
	for _, sent := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		c := newSession(t, "a,b")
		c.must(t, "send", "--from", "b", "--to", "a", "--type", "question", "--subject", "s", "--body", "x")
		question := c.must(t, "list", "--agent", "a", "--box", "inbox", "--json")
		_, id, _ := strings.Cut(question, `"id": "`)
		id, _, _ = strings.Cut(id, `"`)
		for _, args := range [][]string{
			{"send", "--from", "a", "--to", "b", "--type", "question", "--subject", "s", "--body", "x", "--json"},
			{"reply", id, "--from", "a", "--body", "x", "--ack", "--json"},
		} {
			outbox := filepath.Join(c.Dir, "agents", "a", "outbox")
			before := len(check.Contents(t, outbox))
			reader, writer, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			filler := fillPipe(t, writer)
			command := exec.Command("oacp", append(args, "--dir", c.Dir)...)
			command.Stdout = writer
			if err := errors.Join(command.Start(), writer.Close()); err != nil {
				t.Fatal(err)
			}
			for len(check.Contents(t, outbox)) == before {
				runtime.Gosched()
			}
			if err := command.Process.Signal(sent); err != nil {
				t.Fatal(err)
			}
			printed, err := io.ReadAll(reader)
			_ = command.Wait() // the status says it
			if status := command.ProcessState.ExitCode(); status != 0 || err != nil || !bytes.Contains(printed[filler:], []byte(`"message_id"`)) {
				t.Errorf("%s, %v: exit status %d, printed %q (%v); want 0 and a receipt", args[0], sent, status, printed[filler:], err)
			}
		}
	}
}

// fillPipe fills a pipe and returns the number of bytes in it. The next write blocks until somebody reads.
func fillPipe(t *testing.T, writer *os.File) (held int) {
	t.Helper()
	fd := int(writer.Fd())
	err := syscall.SetNonblock(fd, true)
	for size := 4096; size > 0 && err == nil; size /= 2 {
		for n := 0; err == nil; held += n {
			n, err = syscall.Write(fd, make([]byte, size))
			n = max(n, 0)
		}
		if errors.Is(err, syscall.EAGAIN) {
			err = nil
		}
	}
	if err = errors.Join(err, syscall.SetNonblock(fd, false)); err != nil {
		t.Fatal(err)
	}
	return held
}

// TestSignalBreaksOffQuery checks that a signal stops a query that waits for a silent bridge.
func TestSignalBreaksOffQuery(t *testing.T) {
	t.Parallel()
	hearHangups()
	for _, sent := range []syscall.Signal{syscall.SIGTERM, syscall.SIGHUP} {
		t.Run(sent.String(), func(t *testing.T) {
			t.Parallel()
			listener, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
			if err != nil {
				t.Fatal(err)
			}
			defer listener.Close()
			command := exec.CommandContext(t.Context(), "oacp", "ash", "query", "x", "--socket", listener.Addr().String())
			if err := command.Start(); err != nil {
				t.Fatal(err)
			}
			conn, err := listener.Accept()
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			_, err = io.WriteString(conn, "{\"ev\":\"ready\"}\n")
			lines := bufio.NewReader(conn)
			if err == nil {
				_, err = lines.ReadString('\n') // the query
			}
			if err == nil {
				err = command.Process.Signal(sent)
			}
			if err != nil {
				t.Fatal(err)
			}
			_ = command.Wait() // the status says it
			if got, want := command.ProcessState.ExitCode(), 128+int(sent); got != want {
				t.Errorf("%v: exit status is %d, want %d", sent, got, want)
			}
		})
	}
}

// TestBrokenPipe checks that a runner whose output has no reader finishes its turn, begins no
// other, and prints nothing.
func TestBrokenPipe(t *testing.T) {
	c := newSession(t, "a,b")
	for range 2 {
		c.must(t, "send", "--from", "a", "--to", "b", "--type", "question", "--subject", "s", "--body", "x")
	}
	status, complaints := runUnread(t, "run", "--dir", c.Dir, "--agent", "b", "--once", "--", "cat")
	if want := 128 + int(syscall.SIGPIPE); status != want || complaints != "" {
		t.Errorf("exit status %d, standard error %q, want %d and nothing", status, complaints, want)
	}
	if out := c.must(t, "inbox", "--agent", "b"); !strings.Contains(out, "1 pending") {
		t.Errorf("the inbox is %q, want one message handled and one left", out)
	}
	journal, err := os.ReadFile(filepath.Join(c.Dir, "state", "turns", "b.jsonl"))
	if got := bytes.Count(journal, []byte("\"started\"")); err != nil || got != 1 {
		t.Errorf("%d turns were begun (%v), want 1; the journal is\n%s", got, err, journal)
	}
}

// TestBrokenPipeOfPair checks that a run whose output has no reader stops, and can be resumed.
func TestBrokenPipeOfPair(t *testing.T) {
	repository := t.TempDir()
	runs := []string{"--runs-dir", t.TempDir(), "--repo", repository}
	status, complaints := runUnread(t, append([]string{"pair", "--agent", "claude", "--review", "none", "--claude-command", "sh -c 'echo DONE'", "x"}, runs...)...)
	if want := 128 + int(syscall.SIGPIPE); status != want || complaints != "" {
		t.Errorf("exit status %d, standard error %q, want %d and nothing", status, complaints, want)
	}
	out, err := exec.Command("oacp", append([]string{"pair", "--run-id", "1", "--claude-command", "sh -c 'echo DONE'"}, runs...)...).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "completed") {
		t.Errorf("resuming: %v\n%s", err, out)
	}
}

// runUnread runs oacp with a standard output that has no reader.
func runUnread(t *testing.T, arguments ...string) (status int, complaints string) {
	t.Helper()
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	var stderr bytes.Buffer
	command := exec.Command("oacp", arguments...)
	command.Stdout, command.Stderr = writer, &stderr
	if err := errors.Join(reader.Close(), command.Start(), writer.Close()); err != nil {
		t.Fatal(err)
	}
	_ = command.Wait() // the status says it
	return command.ProcessState.ExitCode(), stderr.String()
}

// TestReadyOnce checks that run, with two conversations, and then ash query get their turns from a
// bridge that sends ready only once.
func TestReadyOnce(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	go func() { defer close(served); sayReadyOnce(listener) }()
	c := newSession(t, "a,b")
	for range 2 {
		c.must(t, "send", "--from", "a", "--to", "b", "--type", "question", "--subject", "s", "--body", "x")
	}
	socket := listener.Addr().String()
	out, err := exec.Command("oacp", "run", "--dir", c.Dir, "--agent", "b", "--once", "--driver", "ash", "--socket", socket).CombinedOutput()
	if err != nil || bytes.Count(out, []byte("  done  ")) != 2 {
		t.Errorf("run: %v, want two turns done:\n%s", err, out)
	}
	if out, err := exec.Command("oacp", "ash", "query", "x", "--socket", socket).CombinedOutput(); err != nil || string(out) != "hi\n" {
		t.Errorf("ash query: %v, %q, want hi", err, out)
	}
	if err := listener.Close(); err != nil {
		t.Error(err)
	}
	<-served
}

// sayReadyOnce is a bridge with one answer for everything. It ends with the listener and the
// connections.
func sayReadyOnce(listener net.Listener) {
	var hosts sync.WaitGroup
	defer hosts.Wait()
	for greeting := "{\"ev\":\"ready\"}\n"; ; greeting = "" {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		hosts.Go(func() {
			defer conn.Close()
			_, err := io.WriteString(conn, greeting)
			for lines := bufio.NewReader(conn); err == nil; {
				if _, err = lines.ReadString('\n'); err == nil {
					_, err = io.WriteString(conn, `{"ev":"message","data":{"type":"assistant","text":"hi"}}`+"\n"+`{"ev":"done","sessionId":"x"}`+"\n")
				}
			}
		})
	}
}
