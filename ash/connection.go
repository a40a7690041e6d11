package ash

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"strings"
	"sync"
	"time"
)

// shutdownPatience is how long a host may read nothing once the server is shutting down.
const shutdownPatience = 5 * time.Second

// connection is a host's connection to the bridge. One goroutine reads its commands; each turn has
// one of its own.
type connection struct {
	server *Server
	conn   net.Conn
	out    *lineWriter

	turns   sync.WaitGroup
	mu      sync.Mutex
	running context.CancelCauseFunc // ends the running turn; nil if there is none
}

// serveConnection serves a host until it goes away or sends a shutdown, or ctx ends. Then it ends
// the host's turn and waits for it.
func (s *Server) serveConnection(ctx context.Context, conn net.Conn, shutdown context.CancelCauseFunc) {
	c := &connection{server: s, conn: conn, out: newLineWriter(conn, s.writeTimeout)}
	defer conn.Close() // every line has been written, or its write has failed
	stop := context.AfterFunc(ctx, func() {
		_ = conn.SetReadDeadline(longAgo)
		c.out.hurry(shutdownPatience)
	})
	defer stop()

	if c.write(event{name: "ready"}) != nil {
		return
	}
	c.readCommands(ctx, shutdown)
	if ctx.Err() == nil {
		c.endTurn(ErrConnectionLost)
	}
	c.turns.Wait()
}

// readCommands executes the host's commands until the connection ends or a line is too long.
func (c *connection) readCommands(ctx context.Context, shutdown context.CancelCauseFunc) {
	lines := newLineReader(c.conn)
	for {
		line, err := lines.next()
		if err != nil {
			return
		}
		cmd, err := decodeCommand(line)
		switch {
		case err != nil:
			err = c.write(event{name: "error", text: wireText(err)})
		case cmd.name == "interrupt":
			c.endTurn(ErrInterrupted)
		case cmd.name == "shutdown":
			shutdown(ErrShutdown)
			return
		default:
			err = c.startTurn(ctx, cmd)
		}
		if err != nil {
			return
		}
	}
}

// endTurn ends the context of the running turn, if there is one.
func (c *connection) endTurn(cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running != nil {
		c.running(cause)
	}
}

func (c *connection) write(e event) error {
	line, err := e.encode()
	if err != nil {
		return err
	}
	return c.out.write(context.Background(), line) // bounded by the writer's patience
}

// wireText returns the error without this package's prefix.
func wireText(err error) string {
	return strings.TrimPrefix(err.Error(), "ash: ")
}

// startTurn runs a turn in its own goroutine, or refuses it if the connection is running one.
func (c *connection) startTurn(ctx context.Context, cmd command) error {
	c.mu.Lock()
	if c.running != nil {
		c.mu.Unlock()
		return c.write(event{name: "error", text: "a query is already running on this connection"})
	}
	ctx, c.running = context.WithCancelCause(ctx)
	c.mu.Unlock()
	c.turns.Go(func() { c.runTurn(ctx, cmd) })
	return nil
}

// runTurn runs a turn and writes its done. It writes the done under the lock that a new turn needs, so
// that the server does not refuse a host that answers the done at once. If writing fails, so does the
// connection's reader.
func (c *connection) runTurn(ctx context.Context, cmd command) {
	err := worthReporting(ctx, c.handle(ctx, cmd))
	if err != nil {
		_ = c.write(event{name: "error", text: wireText(err)})
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = c.write(event{name: "done", session: cmd.SessionID})
	c.running(nil)
	c.running = nil
}

func (c *connection) handle(ctx context.Context, cmd command) error {
	if cmd.name == "exec" {
		executor, ok := c.server.handler.(Executor)
		if !ok {
			return errors.New("this bridge runs no commands")
		}
		result, err := executor.Exec(ctx, cmd.Exec)
		if err == nil {
			err = c.write(event{name: "exec_result", result: result})
		}
		return err
	}
	release, err := c.server.claim(ctx, cmd.SessionID)
	if err != nil {
		return err
	}
	defer release()
	send, end := c.sender()
	defer end()
	if cmd.name == "resume" {
		return c.server.handler.Resume(ctx, cmd.SessionID, send)
	}
	return c.server.handler.Query(ctx, cmd.Query, send)
}

var errTurnOver = errors.New("ash: the turn is over")

// sender returns a function that sends messages of a turn until end is called.
func (c *connection) sender() (send Send, end func()) {
	var mu sync.Mutex
	over := false
	send = func(data json.RawMessage) error {
		line, err := event{name: "message", data: data}.encode()
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		if over {
			return errTurnOver
		}
		return c.out.write(context.Background(), line)
	}
	return send, func() {
		mu.Lock()
		defer mu.Unlock()
		over = true
	}
}

// worthReporting returns the error that the host should see. A host knows that it interrupted the turn,
// but not that the bridge is shutting down.
func worthReporting(ctx context.Context, err error) error {
	cause := context.Cause(ctx)
	switch {
	case err == nil || cause == nil:
		return err
	case !errors.Is(err, context.Canceled) && !errors.Is(err, cause):
		return err
	case errors.Is(cause, ErrInterrupted):
		return nil
	case errors.Is(cause, ErrConnectionLost):
		return nil // the host is gone
	}
	return ErrShutdown
}
