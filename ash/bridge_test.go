//go:build unix

package ash

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestMain lets the test binary play a bridge process, so that Spawn has one to start.
func TestMain(m *testing.M) {
	if role := os.Getenv("ASH_TEST_BRIDGE"); role != "" {
		if err := playProcess(role, os.Getenv("ASH_BRIDGE_SOCKET")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(3)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func playProcess(role, path string) error {
	switch role {
	case "dies":
		return errors.New("no agent here")
	case "never listens":
		terminated := make(chan os.Signal, 1)
		signal.Notify(terminated, syscall.SIGTERM)
		<-terminated
		return nil
	case "serves", "leaves a child":
		if role == "leaves a child" {
			child := exec.Command(os.Args[0])
			child.Env = append(os.Environ(), "ASH_TEST_BRIDGE=never listens")
			child.Stderr = os.Stderr // keeps the pipe open
			if err := child.Start(); err != nil {
				return err
			}
			fmt.Fprintln(os.Stderr, child.Process.Pid)
		}
		server, err := Listen(path, turns(echo))
		if err != nil {
			return err
		}
		return server.Serve(context.Background())
	case "deaf":
		terminated := make(chan os.Signal, 1)
		signal.Notify(terminated, syscall.SIGTERM)
		listener, err := net.Listen("unix", path)
		if err != nil {
			return err
		}
		conn, err := listener.Accept()
		if err != nil {
			return err
		}
		if _, err := conn.Write([]byte("{\"ev\":\"ready\"}\n")); err != nil {
			return err
		}
		for range terminated { // until it is killed
		}
	}
	return fmt.Errorf("no such role: %s", role)
}

func bridgeCommand(role string) *exec.Cmd {
	command := exec.Command(os.Args[0])
	command.Env = append(os.Environ(), "ASH_TEST_BRIDGE="+role)
	return command
}

func TestSpawn(t *testing.T) {
	path := socketPath(t)
	staleSocket(t, path) // of an earlier bridge
	command := bridgeCommand("serves")
	client, err := Spawn(context.Background(), command, path, 0)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if messages, err := query(client, "hello"); err != nil || len(messages) != 1 {
			t.Errorf("query: got %q, error %v", messages, err)
		}
	}
	if group, err := syscall.Getpgid(command.Process.Pid); err != nil || group != command.Process.Pid {
		t.Errorf("the bridge is in group %d, error %v, want its own", group, err)
	}
	if err := client.Shutdown(context.Background()); err != nil {
		t.Errorf("Shutdown: %v", err)
	}
	if !command.ProcessState.Success() {
		t.Errorf("the bridge ended with %v", command.ProcessState)
	}
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket still exists: %v", err)
	}
}

func TestSpawnFails(t *testing.T) {
	for name, test := range map[string]struct {
		command *exec.Cmd
		want    error
	}{
		"no such command": {exec.Command("/nonexistent/bridge"), os.ErrNotExist},
		"dies":            {bridgeCommand("dies"), ErrBridgeExited},
		"never listens":   {bridgeCommand("never listens"), ErrNotReady},
	} {
		t.Run(name, func(t *testing.T) {
			timeout := spawnTimeout
			if errors.Is(test.want, ErrNotReady) {
				timeout = 100 * time.Millisecond
			}
			client, err := newClient(socketPath(t), timeout).spawn(context.Background(), test.command)
			if client != nil || !errors.Is(err, test.want) {
				t.Errorf("Spawn: got %v, want %v", err, test.want)
			}
			if test.command.Process != nil && test.command.ProcessState == nil {
				t.Error("Spawn left a process behind")
			}
		})
	}
}

func TestSpawnSocketInUse(t *testing.T) {
	command := bridgeCommand("serves")
	if _, err := Spawn(context.Background(), command, serve(t, turns(echo)), 0); !errors.Is(err, ErrSocketInUse) {
		t.Errorf("Spawn: got %v, want %v", err, ErrSocketInUse)
	}
	if command.Process != nil {
		t.Error("Spawn started a process whose socket was taken")
	}
}

// TestSpawnDeafBridge checks that a bridge that ignores shutdown and SIGTERM is killed and its
// socket removed.
func TestSpawnDeafBridge(t *testing.T) {
	path := socketPath(t)
	command := bridgeCommand("deaf")
	client, err := Spawn(context.Background(), command, path, 50*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	if err := client.Shutdown(context.Background()); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Shutdown: got %v, want %v", err, context.DeadlineExceeded)
	}
	if status, ok := command.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGKILL {
		t.Errorf("the bridge ended with %v, want %v", command.ProcessState, syscall.SIGKILL)
	}
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket still exists: %v", err)
	}
}

// TestSpawnBridgeDies checks that a query ends when its bridge is killed.
func TestSpawnBridgeDies(t *testing.T) {
	command := bridgeCommand("serves")
	client, err := Spawn(context.Background(), command, socketPath(t), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := client.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	}()
	if err := command.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for err == nil { // until the client notices the death
		_, err = query(client, "hello")
	}
	if !errors.Is(err, ErrClosed) {
		t.Errorf("query: got %v, want %v", err, ErrClosed)
	}
}

// TestSpawnKillsGroup checks that processes that a bridge leaves running die with it and do not
// delay its end.
func TestSpawnKillsGroup(t *testing.T) {
	command := bridgeCommand("leaves a child")
	var output bytes.Buffer
	command.Stderr = &output
	command.WaitDelay = 50 * time.Millisecond
	client, err := Spawn(context.Background(), command, socketPath(t), 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := client.Shutdown(context.Background()); err != nil {
		t.Errorf("Shutdown: %v", err)
	}
	line, err := bufio.NewReader(&output).ReadString('\n')
	var child int
	if _, scanErr := fmt.Sscan(strings.TrimSpace(line), &child); err != nil || scanErr != nil {
		t.Fatalf("the bridge wrote %q", line)
	}
	waitGone(t, child)
}

// waitGone waits until a process that is not a child of this one ends.
func waitGone(t *testing.T, pid int) {
	t.Helper()
	timeout := time.After(patience)
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	for {
		state, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if syscall.Kill(pid, 0) != nil || err == nil && strings.Contains(string(state), ") Z ") {
			return
		}
		select {
		case <-ticker.C:
		case <-timeout:
			t.Fatalf("process %d still runs", pid)
		}
	}
}

// TestSocketIsPrivate checks that the mode is 0600 with any umask.
func TestSocketIsPrivate(t *testing.T) {
	path := socketPath(t)
	old := syscall.Umask(0)
	server, err := Listen(path, turns(echo))
	syscall.Umask(old)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	}()
	info, err := os.Lstat(path)
	if err != nil || info.Mode() != os.ModeSocket|0o600 {
		t.Errorf("the socket's mode is %v, error %v, want 0600", info.Mode(), err)
	}
}
