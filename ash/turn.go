package ash

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
)

// startTurn runs a turn in its own goroutine, or refuses it if the connection is running one.
func (c *connection) startTurn(ctx context.Context, session string, run func(context.Context, Send) error) error {
	c.mu.Lock()
	if c.running != nil {
		c.mu.Unlock()
		return c.write(Error{Text: "a query is already running on this connection"})
	}
	ctx, c.running = context.WithCancelCause(ctx)
	c.mu.Unlock()
	c.turns.Go(func() { c.runTurn(ctx, session, run) })
	return nil
}

// runTurn runs a turn and writes its done, under the lock that a new turn needs, so that a host
// that reacts to the done at once is not refused. If writing fails, the connection's reader fails,
// too.
func (c *connection) runTurn(ctx context.Context, session string, run func(context.Context, Send) error) {
	err := worthReporting(ctx, c.runInSession(ctx, session, run))
	if err != nil {
		_ = c.write(Error{Text: wireText(err)})
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = c.write(Done{SessionID: session})
	c.running(nil)
	c.running = nil
}

func (c *connection) runInSession(ctx context.Context, session string, run func(context.Context, Send) error) error {
	release, err := c.server.claim(ctx, session)
	if err != nil {
		return err
	}
	defer release()
	send, end := c.sender()
	defer end()
	return run(ctx, send)
}

var errTurnOver = errors.New("ash: the turn is over")

// sender returns a function that sends messages of a turn until the other is called.
func (c *connection) sender() (send Send, end func()) {
	var mu sync.Mutex
	over := false
	send = func(data json.RawMessage) error {
		line, err := EncodeEvent(Message{Data: data})
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

// worthReporting returns the error that the host should see. It need not see that it interrupted
// the turn, but it must see that the bridge is shutting down.
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
		return nil // nobody is left to tell
	}
	return ErrShutdown
}
