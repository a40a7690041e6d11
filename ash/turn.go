package ash

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
)

// startTurn runs a turn in its own goroutine, or refuses it when the connection is running one already. Its error is
// the connection's.
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

// runTurn runs a turn from its first message to its done. It writes the done under the lock that a new turn needs, so
// that a host that answers the done at once is not refused. If the connection fails here, it fails for its reader, too.
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

// sender returns a function that sends the messages of one turn, and none once the other was called.
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

// worthReporting returns what the host is told about how a turn ended. That it stopped because the host interrupted it
// is no news; that it stopped because the bridge goes down is.
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
