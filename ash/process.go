package ash

import (
	"cmp"
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
type process struct{ *processgroup.Process }

// redial is the pause between attempts to connect.
const redial = 5 * time.Millisecond

func startProcess(command *exec.Cmd, path string) (*process, error) {
	command.Env = append(command.Environ(), "ASH_BRIDGE_SOCKET="+path)
	// At SIGTERM a bridge can end its agent and remove its socket.
	started, err := processgroup.Start(command, syscall.SIGTERM)
	return &process{started}, err
}

// dial connects to the socket of the process as soon as it exists.
func (p *process) dial(ctx context.Context, path string) (net.Conn, error) {
	for {
		conn, err := dial(ctx, path)
		if err == nil {
			return conn, nil
		}
		select {
		case <-time.After(redial):
		case <-p.Done():
			return nil, p.exitError()
		case <-ctx.Done():
			return nil, errors.Join(context.Cause(ctx), err)
		}
	}
}

// exitError says how the process ended.
func (p *process) exitError() error {
	if p.Err() == nil {
		return fmt.Errorf("%w: %v", ErrBridgeExited, p)
	}
	return fmt.Errorf("%w: %w", ErrBridgeExited, p.Err())
}

// explain adds the end of the process to an error of the connection, if the process has ended or ends
// within a moment.
func (p *process) explain(err error) error {
	if !errors.Is(err, ErrClosed) || errors.Is(err, ErrBridgeExited) {
		return err
	}
	select {
	case <-p.Done():
		return errors.Join(p.exitError(), err)
	case <-time.After(departure):
		return err
	}
}

// waitExit waits for the process to end, and returns how it failed, if it did.
func (p *process) waitExit(ctx context.Context, timeout time.Duration) error {
	switch {
	case !p.EndsWithin(ctx, timeout):
		return fmt.Errorf("ash: shutdown: the bridge process does not end: %w", cmp.Or(ctx.Err(), context.DeadlineExceeded))
	case p.Err() != nil:
		return p.exitError()
	}
	return nil
}

// stop ends the process in stages, and removes its socket if the process did not.
func (p *process) stop(path string, timeout time.Duration) error {
	if err := p.Stop(context.Background(), timeout); err != nil {
		return fmt.Errorf("ash: stop the bridge: %w", err)
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
