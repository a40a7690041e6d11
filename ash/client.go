package ash

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"sync"
	"time"

	"github.com/oacp-go/oacp/internal/failure"
)

var (
	// ErrClosed is returned if the connection to the bridge is closed; the error includes the
	// reason.
	ErrClosed = failure.New("connection_lost", "ash: connection closed", "the agent's turn was aborted")
	// ErrNotSent is returned, together with [ErrClosed], if the bridge did not get the whole
	// command.
	ErrNotSent = errors.New("ash: the command was not sent")
	// ErrNotReady is returned if the bridge does not send ready in time.
	ErrNotReady = failure.New("", "ash: the bridge is not ready", "the process there does not answer as an Ash bridge; restart it")
	// ErrNoDone is returned if a failed or interrupted turn does not end in time.
	ErrNoDone = failure.New("connection_lost", "ash: the turn did not end in time", "the agent's turn was aborted")
	// ErrBridgeExited is returned if the bridge process exited.
	ErrBridgeExited = errors.New("ash: the bridge process ended")

	// errBusy is returned if a query is already running on this client.
	errBusy = errors.New("ash: a query is already running")
)

const (
	// spawnTimeout is how long a new bridge process may take to start and say ready.
	spawnTimeout = 10 * time.Second
	// connectTimeout is how long a client waits for the ready of a running bridge. After that it
	// assumes that the bridge is ready, because some bridges say so only once.
	connectTimeout = 2 * time.Second
	// stopTimeout is how long each stage of stopping a bridge may take by default.
	stopTimeout = 5 * time.Second
)

// Client is the host's end of the protocol: a connection to a bridge that runs one query at a time.
// Its methods may be called from several goroutines. End it with [Client.Shutdown] or
// [Client.Close]. A client whose connection was lost stays closed: make a new one.
//
// A goroutine reads the bridge's events: it passes them to the running turn, and drops them between
// turns, so that no turn gets events of an earlier one.
type Client struct {
	path                      string
	bridge                    *process // nil unless spawned
	readyTimeout, stopTimeout time.Duration
	// settle is how long a failed or abandoned turn may take to end. After that the client closes the
	// connection, so that a late done never ends the next query.
	settle time.Duration

	conn  net.Conn // nil if connecting failed
	out   *lineWriter
	ready chan struct{} // closed by the first ready
	quit  chan struct{} // closed by disconnect
	once  sync.Once
	ended chan struct{} // closed when the reader is done and err is set
	err   error

	mu      sync.Mutex
	turn    *hostTurn
	session string // the id in the latest done
}

func newClient(path string, readyTimeout time.Duration) *Client {
	return &Client{
		path: path, readyTimeout: readyTimeout, stopTimeout: stopTimeout, settle: 5 * time.Second,
		ready: make(chan struct{}), quit: make(chan struct{}), ended: make(chan struct{}),
	}
}

// Connect connects to the bridge that listens at path and waits for its ready. It assumes after two
// seconds that the bridge is ready.
func Connect(ctx context.Context, path string) (*Client, error) {
	return newClient(path, connectTimeout).connect(ctx)
}

func (c *Client) connect(ctx context.Context) (*Client, error) {
	if err := checkSocketPath(c.path); err != nil {
		return nil, err
	}
	conn, err := dial(ctx, c.path)
	if err == nil {
		ctx, cancel := c.untilReady(ctx)
		defer cancel()
		err = c.open(ctx, conn)
	}
	if err != nil {
		return nil, fmt.Errorf("ash: connect to %s: %w", c.path, err)
	}
	return c, nil
}

// Spawn starts a bridge process and connects to it at path. The process runs in a group of its own,
// finds the path in ASH_BRIDGE_SOCKET, and on Linux gets SIGTERM when this process dies. Ctx bounds
// only the start, which may take ten seconds. Grace is how long each stage of stopping the process
// may take; zero means five seconds.
//
// Spawn returns [ErrSocketInUse], [ErrNotReady], [ErrBridgeExited] or an error of the command.
// After an error no process is left.
func Spawn(ctx context.Context, cmd *exec.Cmd, path string, grace time.Duration) (*Client, error) {
	c := newClient(path, spawnTimeout)
	c.stopTimeout = cmp.Or(grace, stopTimeout)
	return c.spawn(ctx, cmd)
}

func (c *Client) spawn(ctx context.Context, cmd *exec.Cmd) (*Client, error) {
	if err := checkSocketPath(c.path); err != nil {
		return nil, err
	}
	if answers, err := socketAnswers(c.path); err != nil || answers {
		if err == nil {
			err = ErrSocketInUse
		}
		return nil, fmt.Errorf("ash: spawn: %s: %w", c.path, err)
	}
	bridge, err := startProcess(cmd, c.path)
	if err != nil {
		return nil, fmt.Errorf("ash: spawn: %w", err)
	}
	c.bridge = bridge
	ctx, cancel := c.untilReady(ctx)
	defer cancel()
	conn, err := bridge.dial(ctx, c.path)
	if err == nil {
		err = c.open(ctx, conn)
	}
	if err != nil {
		err = bridge.explain(err)
		return nil, fmt.Errorf("ash: spawn %s: %w", cmd.Path, errors.Join(err, c.Close()))
	}
	return c, nil
}

// Close ends the connection, and a spawned bridge with SIGTERM, then SIGKILL. A running query ends
// with [ErrClosed]. Close may be called more than once.
func (c *Client) Close() error {
	if c.conn != nil {
		c.disconnect()
	}
	if c.bridge == nil {
		return nil
	}
	return c.bridge.stop(c.path, c.stopTimeout)
}

// disconnect ends the connection and waits for its reader.
func (c *Client) disconnect() {
	c.once.Do(func() {
		close(c.quit)
		_ = c.conn.Close() // the reader reports the error
	})
	<-c.ended
}

// Shutdown asks the bridge to end, and waits until it has closed the connection and a spawned process has
// ended. If that takes too long, or ctx ends, Shutdown continues like [Client.Close] and returns an
// error. It also returns an error if a spawned bridge failed.
func (c *Client) Shutdown(ctx context.Context) error {
	err := c.shutdown(ctx)
	if err == nil && c.bridge != nil {
		err = c.bridge.waitExit(ctx, c.stopTimeout)
	}
	return errors.Join(err, c.Close())
}

// shutdown sends a shutdown and waits for the bridge to close the connection.
func (c *Client) shutdown(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, c.stopTimeout)
	defer cancel()
	if err := c.write(ctx, command{name: "shutdown"}); err != nil {
		return fmt.Errorf("ash: shutdown: %w", err)
	}
	select {
	case <-c.ended:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("ash: shutdown: the bridge does not close the connection: %w", ctx.Err())
	}
}

// untilReady returns a context that bounds the wait for the bridge's ready.
func (c *Client) untilReady(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, c.readyTimeout, fmt.Errorf("%w after %v", ErrNotReady, c.readyTimeout))
}

// open begins to read events and waits for the bridge's ready.
func (c *Client) open(ctx context.Context, conn net.Conn) error {
	c.conn, c.out = conn, newLineWriter(conn, writePatience)
	go c.read()
	select {
	case <-c.ready:
	case <-c.ended:
		return c.err
	case <-ctx.Done():
		cause := context.Cause(ctx)
		if c.bridge != nil || !errors.Is(cause, ErrNotReady) {
			c.disconnect()
			return cause
		}
	}
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

func (c *Client) read() {
	defer close(c.ended)
	err := c.readEvents()
	select {
	case <-c.quit:
		err = errors.New("closed at this end")
	default:
		if errors.Is(err, io.EOF) {
			err = errors.New("closed by the bridge")
		}
	}
	c.err = fmt.Errorf("%w: %w", ErrClosed, err)
	_ = c.conn.Close() // it has ended already
}

// readEvents delivers events until the connection ends or a line is unreadable, and returns why. It does
// not skip an unreadable line, because that may have been the done of the turn.
func (c *Client) readEvents() error {
	lines := newLineReader(c.conn)
	announced := false
	for {
		line, err := lines.next()
		if err != nil {
			return err
		}
		e, err := decodeEvent(line)
		switch {
		case errors.Is(err, errUnknownName):
		case err != nil:
			return err
		case e.name != "ready":
			c.deliver(e)
		case !announced:
			announced = true
			close(c.ready)
		}
	}
}

func (c *Client) deliver(e event) {
	c.mu.Lock()
	turn := c.turn
	c.mu.Unlock()
	if turn == nil {
		return
	}
	select {
	case turn.events <- e:
	case <-turn.over:
	case <-c.quit:
	}
}
