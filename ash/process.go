package ash

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/oacp-go/oacp/internal/processgroup"
)

// process is a bridge process that a client started, with its process group.
type process struct {
	command *exec.Cmd
	exited  chan struct{} // closed when the process has ended and err is set
	err     error
}

const (
	// pipeDelay is how long a child of an ended process may hold its output open.
	pipeDelay = 2 * time.Second
	// redial is the pause between attempts to connect.
	redial = 5 * time.Millisecond
)

func startProcess(command *exec.Cmd, path string) (*process, error) {
	command.Env = append(command.Environ(), "ASH_BRIDGE_SOCKET="+path)
	if command.WaitDelay == 0 {
		command.WaitDelay = pipeDelay
	}
	// At SIGTERM a bridge can end its agent and remove its socket.
	processgroup.Lead(command, syscall.SIGTERM)
	p := &process{command: command, exited: make(chan struct{})}
	started := make(chan error)
	go p.run(started)
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// run starts the process and waits for its end on the same thread; see processgroup.Hold.
func (p *process) run(started chan<- error) {
	defer processgroup.Hold()()
	err := p.command.Start()
	started <- err
	if err != nil {
		return
	}
	defer close(p.exited)
	err = p.command.Wait()
	processgroup.Kill(p.command.Process) // what the bridge left behind
	if !errors.Is(err, exec.ErrWaitDelay) {
		p.err = err // a process left behind is not a failure of the bridge
	}
}

// dial connects to the socket that the process is about to make.
func (p *process) dial(ctx context.Context, path string) (net.Conn, error) {
	for {
		conn, err := dial(ctx, path)
		if err == nil {
			return conn, nil
		}
		select {
		case <-time.After(redial):
		case <-p.exited:
			return nil, p.exitError()
		case <-ctx.Done():
			return nil, errors.Join(context.Cause(ctx), err)
		}
	}
}

// exitError says how the process ended.
func (p *process) exitError() error {
	if p.err == nil {
		return fmt.Errorf("%w: %v", ErrBridgeExited, p.command.ProcessState)
	}
	return fmt.Errorf("%w: %w", ErrBridgeExited, p.err)
}

// explain adds to an error of the connection that the process has ended, if it has or does at once.
func (p *process) explain(err error) error {
	if !errors.Is(err, ErrClosed) || errors.Is(err, ErrBridgeExited) {
		return err
	}
	select {
	case <-p.exited:
		return errors.Join(p.exitError(), err)
	case <-time.After(departure):
		return err
	}
}

// waitExit waits for the process to end, and returns how it failed, if it did.
func (p *process) waitExit(ctx context.Context, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	select {
	case <-p.exited:
		if p.err != nil {
			return p.exitError()
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("ash: shutdown: the bridge process does not end: %w", ctx.Err())
	}
}

// stop ends the process in stages, and removes its socket if the process did not.
func (p *process) stop(path string, timeout time.Duration) error {
	select {
	case <-p.exited:
	default:
		processgroup.Signal(p.command.Process, syscall.SIGTERM)
	}
	select {
	case <-p.exited:
	case <-time.After(timeout):
		processgroup.Kill(p.command.Process)
		<-p.exited
	}
	if _, err := os.Lstat(path); err != nil {
		return nil // the process has removed it
	}
	err := withSocketLock(path, func() error { return removeStaleSocket(path) })
	if errors.Is(err, ErrSocketInUse) || errors.Is(err, ErrSocketPath) {
		return nil // it belongs to another process
	}
	return err
}
