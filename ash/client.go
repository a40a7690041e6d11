package ash

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"sync"
	"time"
)

var (
	// ErrClosed says that the connection to the bridge is closed, and why.
	ErrClosed = errors.New("ash: connection closed")
	// ErrNotSent says, besides [ErrClosed], that the bridge did not get the whole command.
	ErrNotSent = errors.New("ash: the command was not sent")
	// ErrBusy says that a query is already running on this client.
	ErrBusy = errors.New("ash: a query is already running")
	// ErrNotReady says that the bridge did not say ready in time.
	ErrNotReady = errors.New("ash: the bridge is not ready")
	// ErrNoDone says that a turn that failed or was interrupted did not end in time.
	ErrNoDone = errors.New("ash: the turn did not end in time")
	// ErrBridgeExited says that the bridge process ended.
	ErrBridgeExited = errors.New("ash: the bridge process ended")
)

// ClientOptions tunes a [Client]. The zero value is ready to use.
type ClientOptions struct {
	// ReadyTimeout is how long the bridge may take to start and say ready. Zero means ten seconds.
	ReadyTimeout time.Duration
	// AssumeReady takes silence until then for ready, instead of failing with [ErrNotReady].
	AssumeReady bool
	// SettleTimeout is how long a turn that failed or was given up may take to end. After that, the
	// connection is closed, so that a late done never ends the next query. Zero means five seconds.
	SettleTimeout time.Duration
	// StopTimeout is how long each stage of stopping a bridge may take. Zero means five seconds.
	StopTimeout time.Duration
	// WriteTimeout is how long the bridge may read nothing of a command before the connection
	// counts as lost. Zero means one minute.
	WriteTimeout time.Duration
}

func (o *ClientOptions) withDefaults() ClientOptions {
	var options ClientOptions
	if o != nil {
		options = *o
	}
	options.ReadyTimeout = cmp.Or(options.ReadyTimeout, 10*time.Second)
	options.SettleTimeout = cmp.Or(options.SettleTimeout, 5*time.Second)
	options.StopTimeout = cmp.Or(options.StopTimeout, 5*time.Second)
	options.WriteTimeout = cmp.Or(options.WriteTimeout, time.Minute)
	return options
}

// Client is the host's end of the protocol: a connection to a bridge that runs one query at a time.
// Its methods may be called from several goroutines. End it with [Client.Shutdown] or
// [Client.Close].
type Client struct {
	path    string
	options ClientOptions
	bridge  *process // nil unless spawned

	mu      sync.Mutex
	link    *link
	closed  bool
	session string // what the latest done told
}

// Connect connects to the bridge that listens at path and waits for its ready. Options may be nil.
// If the bridge does not say ready in time, Connect returns [ErrNotReady].
func Connect(ctx context.Context, path string, options *ClientOptions) (*Client, error) {
	c := &Client{path: path, options: options.withDefaults()}
	if err := checkSocketPath(path); err != nil {
		return nil, err
	}
	if err := c.open(ctx, dial); err != nil {
		return nil, fmt.Errorf("ash: connect to %s: %w", path, err)
	}
	return c, nil
}

// Spawn starts a bridge process and connects to it at path. The process runs in a group of its own,
// finds the path in ASH_BRIDGE_SOCKET, and on Linux gets SIGTERM when this process dies. Options
// may be nil. Ctx bounds only the start.
//
// Spawn returns [ErrSocketInUse], [ErrNotReady], [ErrBridgeExited] or an error of the command.
// After an error no process is left.
func Spawn(ctx context.Context, command *exec.Cmd, path string, options *ClientOptions) (*Client, error) {
	c := &Client{path: path, options: options.withDefaults()}
	if err := checkSocketPath(path); err != nil {
		return nil, err
	}
	if answers, err := socketAnswers(path); err != nil || answers {
		if err == nil {
			err = ErrSocketInUse
		}
		return nil, fmt.Errorf("ash: spawn: %s: %w", path, err)
	}
	bridge, err := startProcess(command, path)
	if err != nil {
		return nil, fmt.Errorf("ash: spawn: %w", err)
	}
	c.bridge = bridge
	if err := c.open(ctx, bridge.dial); err != nil {
		err = bridge.explain(err)
		return nil, fmt.Errorf("ash: spawn %s: %w", command.Path, errors.Join(err, c.Close()))
	}
	return c, nil
}

// Reconnect replaces the connection; a query on it ends with [ErrClosed]. It does not wait for a
// ready, which a bridge may say only once. If the bridge process has ended, it returns
// [ErrBridgeExited].
func (c *Client) Reconnect(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return fmt.Errorf("%w: the client is closed", ErrClosed)
	}
	c.link.close()
	if c.bridge != nil && c.bridge.hasExited() {
		return fmt.Errorf("ash: reconnect: %w", c.bridge.exitError())
	}
	conn, err := dial(ctx, c.path)
	if err != nil {
		return fmt.Errorf("ash: reconnect: %w", err)
	}
	c.link = newLink(conn, c.options)
	return nil
}

// Close ends the connection, and a spawned bridge with SIGTERM, then SIGKILL. A running query ends
// with [ErrClosed]. Close may be called more than once.
func (c *Client) Close() error {
	c.mu.Lock()
	link, bridge := c.link, c.bridge
	c.closed = true
	c.mu.Unlock()
	if link != nil {
		link.close()
	}
	if bridge == nil {
		return nil
	}
	return bridge.stop(c.path, c.options.StopTimeout)
}

// Shutdown asks the bridge to end, and waits until it has closed the connection and a spawned
// process has ended. If that takes too long, or ctx ends, Shutdown continues as [Client.Close] and
// returns an error, as it does if a spawned bridge failed.
func (c *Client) Shutdown(ctx context.Context) error {
	link, err := c.current()
	if err == nil {
		err = link.shutdown(ctx, c.options.StopTimeout)
	}
	if err == nil && c.bridge != nil {
		err = c.bridge.waitExit(ctx, c.options.StopTimeout)
	}
	return errors.Join(err, c.Close())
}

// shutdown sends a shutdown and waits for the bridge to close the connection.
func (l *link) shutdown(ctx context.Context, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if err := l.write(ctx, Shutdown{}); err != nil {
		return fmt.Errorf("ash: shutdown: %w", err)
	}
	select {
	case <-l.ended:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("ash: shutdown: the bridge does not close the connection: %w", ctx.Err())
	}
}

// current returns the connection, or an error if the client is closed.
func (c *Client) current() (*link, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, fmt.Errorf("%w: the client is closed", ErrClosed)
	}
	return c.link, nil
}

// open makes a connection that is the client's own once the bridge has said ready on it.
func (c *Client) open(ctx context.Context, dial func(context.Context, string) (net.Conn, error)) error {
	timeout := c.options.ReadyTimeout
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("%w after %v", ErrNotReady, timeout))
	defer cancel()
	conn, err := dial(ctx, c.path)
	if err != nil {
		return err
	}
	link := newLink(conn, c.options)
	select {
	case <-link.ready:
	case <-link.ended:
		return link.err
	case <-ctx.Done():
		cause := context.Cause(ctx)
		if !c.options.AssumeReady || !errors.Is(cause, ErrNotReady) {
			link.close()
			return cause
		}
	}
	c.link = link
	return nil
}

func dial(ctx context.Context, path string) (net.Conn, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "unix", path)
	if cause := context.Cause(ctx); err != nil && cause != nil {
		return nil, fmt.Errorf("%w: %w", cause, err)
	}
	return conn, err
}
