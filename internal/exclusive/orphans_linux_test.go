package exclusive

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/oacp-go/oacp/internal/orphans"
)

func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "-hold" {
		if err := holdAndStart(lockIn(os.Args[2])); err != nil {
			panic(err)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// holdAndStart takes the lock, starts a process in its own session, and waits to be killed.
func holdAndStart(l Lock) error {
	ctx := context.Background()
	hold, err := l.Take(ctx, time.Now())
	if err != nil {
		return err
	}
	child := exec.Command("setsid", "sh", "-c", "echo running; sleep 1000; :")
	child.Env = append(os.Environ(), orphans.Environ(hold.Context(ctx))...)
	child.Stdout = os.Stdout
	if err := child.Start(); err != nil {
		return err
	}
	return errors.Join(child.Wait(), hold.Release())
}

// TestOrphans checks that the processes of a killed holder end before the next one gets the lock.
func TestOrphans(t *testing.T) {
	folder := t.TempDir()
	l := lockIn(folder)
	command := exec.Command(os.Args[0], "-hold", folder)
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
		t.Fatalf("the holder's child said %q, %v", line, err)
	}
	if err := command.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	hold, err := l.Take(t.Context(), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if len(hold.ended) == 0 {
		t.Error("there were no orphans, want the shell and what it runs")
	}
	if _, err := io.ReadAll(output); err != nil { // ends when both are dead
		t.Error(err)
	}
	if err := command.Wait(); err == nil {
		t.Error("the holder succeeded, want it killed")
	}
	if err := hold.Release(); err != nil {
		t.Error(err)
	}
	if hold, err = l.Take(t.Context(), time.Now()); err != nil || len(hold.ended) != 0 {
		t.Errorf("after a release: %v, %v; want no orphans", hold, err)
	}
	if err := hold.Release(); err != nil {
		t.Error(err)
	}
}
