//go:build unix

package main

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"os/exec"
	"path/filepath"
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

// TestSignalBreaksOffQuery: a query that is told to stop does not wait for a
// bridge that says nothing.
func TestSignalBreaksOffQuery(t *testing.T) {
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGHUP} {
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
			err = command.Process.Signal(signal)
		}
		if err != nil {
			t.Fatal(err)
		}
		_ = command.Wait() // the status says it
		if got, want := command.ProcessState.ExitCode(), 128+int(signal); got != want {
			t.Errorf("%v: exit status is %d, want %d", signal, got, want)
		}
	}
}
