package processgroup

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"syscall"
	"time"
)

// A Process is a started command that leads a process group of its own.
type Process struct {
	command *exec.Cmd
	done    chan struct{}
	err     error
}

const (
	// pipeDelay is how long a process that a command left behind may hold the command's output open.
	pipeDelay = 2 * time.Second
	// killDelay is how long a killed process may take to end. A process that waits for a disk or a
	// network share ends only when that answers.
	killDelay = 5 * time.Second
)

// Start starts a command, with a WaitDelay of two seconds unless it has one. On Linux the command gets
// the signal death when this process dies. When the command has ended and its output was read, what
// is left of its group is killed.
func Start(command *exec.Cmd, death syscall.Signal) (*Process, error) {
	if command.WaitDelay == 0 {
		command.WaitDelay = pipeDelay
	}
	Lead(command, death)
	p := &Process{command: command, done: make(chan struct{})}
	started := make(chan error)
	go p.run(started)
	return p, <-started
}

// run starts the command and waits for its end on the same thread; see Hold.
func (p *Process) run(started chan<- error) {
	defer Hold()()
	defer close(p.done)
	err := p.command.Start()
	started <- err
	if err != nil {
		return
	}
	err = p.command.Wait()
	Kill(p.command.Process)
	if !errors.Is(err, exec.ErrWaitDelay) { // it is not a failure of the command to leave a process behind
		p.err = err
	}
}

// Done returns a channel that is closed when the command has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err returns the error of a command that has ended: an *exec.ExitError, or a failure of its input or
// output.
func (p *Process) Err() error { return p.err }

// String describes the end of a command that has ended.
func (p *Process) String() string { return p.command.ProcessState.String() }

// Kill kills the command and its group.
func (p *Process) Kill() {
	if !p.hasEnded() {
		Kill(p.command.Process)
	}
}

// Stop sends SIGTERM to the group, and SIGKILL if the command has not ended after the grace or when
// ctx ends. It waits for the end of the command, and returns an error if that takes too long.
func (p *Process) Stop(ctx context.Context, grace time.Duration) error {
	if p.hasEnded() {
		return nil
	}
	Signal(p.command.Process, syscall.SIGTERM)
	if p.EndsWithin(ctx, grace) {
		return nil
	}
	Kill(p.command.Process)
	if !p.EndsWithin(context.WithoutCancel(ctx), killDelay+p.command.WaitDelay) {
		return fmt.Errorf("process %d was killed but did not exit", p.command.Process.Pid)
	}
	return nil
}

func (p *Process) hasEnded() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// EndsWithin waits for the end of the command until the limit or the end of ctx, and reports whether
// the command has ended.
func (p *Process) EndsWithin(ctx context.Context, limit time.Duration) bool {
	select {
	case <-p.done:
	case <-time.After(limit):
	case <-ctx.Done():
	}
	return p.hasEnded()
}
