package processgroup

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == "-parent" {
		if err := parent(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// parent starts a shell that prints a line at SIGTERM, and waits for it.
func parent() error {
	child := exec.Command("sh", "-c", "trap 'echo asked; exit' TERM; echo running; while :; do sleep 0.01; done")
	child.Stdout = os.Stdout
	Lead(child, syscall.SIGTERM)
	defer Hold()()
	return errors.Join(child.Start(), child.Wait())
}

// TestKill checks that the processes that the leader started end with it.
func TestKill(t *testing.T) {
	command := exec.Command("sh", "-c", "sleep 1000 & echo running; wait")
	Lead(command, syscall.SIGKILL)
	defer Hold()()
	pipe, err := command.StdoutPipe()
	if err == nil {
		err = command.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	output := bufio.NewReader(pipe)
	if line, err := output.ReadString('\n'); err != nil || line != "running\n" {
		t.Fatalf("the leader said %q, %v", line, err)
	}
	Kill(command.Process)
	if _, err := io.ReadAll(output); err != nil { // ends with the last of them
		t.Error(err)
	}
	if err := command.Wait(); err == nil {
		t.Error("the leader succeeded, want it killed")
	}
	Kill(command.Process) // none are left
}

// TestDeath checks that a process gets a signal when its parent is killed.
func TestDeath(t *testing.T) {
	command := exec.Command(os.Args[0], "-parent")
	command.Stderr = os.Stderr
	pipe, err := command.StdoutPipe()
	if err == nil {
		err = command.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	output := bufio.NewReader(pipe)
	if line, err := output.ReadString('\n'); err != nil || line != "running\n" {
		t.Fatalf("the child said %q, %v", line, err)
	}
	if err := command.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	// The kernel may send the signal again for each thread of the parent that ends.
	if rest, err := io.ReadAll(output); err != nil || len(rest) == 0 || strings.ReplaceAll(string(rest), "asked\n", "") != "" {
		t.Errorf("the child said %q, %v; want it asked to end", rest, err)
	}
	if err := command.Wait(); err == nil {
		t.Error("the parent succeeded, want it killed")
	}
}
