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
	turnCtx, cancel := context.WithCancelCause(ctx)
	previous, done := c.lastDone, make(chan struct{})
	c.running, c.lastDone = cancel, done
	c.mu.Unlock()

	c.turns.Go(func() {
		defer close(done)
		defer cancel(nil)
		<-previous // its done goes out first
		c.runTurn(turnCtx, session, run)
	})
	return nil
}

// runTurn runs a turn from its first message to its done. The connection and the session are free for the next turn
// before the host learns that this one is over, so a host that answers at once is never refused.
func (c *connection) runTurn(ctx context.Context, session string, run func(context.Context, Send) error) {
	err := c.runInSession(ctx, session, run)
	c.mu.Lock()
	c.running = nil
	c.mu.Unlock()
	if err = worthReporting(ctx, err); err != nil {
		_ = c.write(Error{Text: wireText(err)}) // a connection that fails here fails for its reader too
	}
	_ = c.write(Done{SessionID: session})
}

func (c *connection) runInSession(ctx context.Context, session string, run func(context.Context, Send) error) error {
	release, err := c.server.claim(ctx, session)
	if err != nil {
		return err
	}
	defer release()
	sender := &turnSender{connection: c}
	defer sender.end()
	return run(ctx, sender.send)
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

// turnSender sends the messages of one turn, and none once the turn is over.
type turnSender struct {
	connection *connection
	mu         sync.Mutex
	ended      bool
}

var errTurnOver = errors.New("ash: the turn is over")

func (s *turnSender) send(data json.RawMessage) error {
	line, err := EncodeEvent(Message{Data: data})
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return errTurnOver
	}
	return s.connection.out.write(context.Background(), line)
}

func (s *turnSender) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
}
