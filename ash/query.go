package ash

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"time"
)

// Query runs a turn and yields its messages, byte for byte. Each range over the result sends the
// command.
//
// The turn has succeeded if the range ends without an error. An error ends the range: an [Error] of
// the bridge (its first), [ErrClosed] if the connection was lost, with [ErrNotSent] if the bridge
// did not get the command, [ErrBusy] if another query is running, the cause of ctx, or an error of
// the encoding.
//
// Leaving the range early, or ending ctx, interrupts the turn. If the turn does not end within the
// settle timeout, the connection is closed. After [Client.Interrupt] messages continue until the
// turn ends.
func (c *Client) Query(ctx context.Context, query Query) iter.Seq2[json.RawMessage, error] {
	return c.run(ctx, command{name: "query", Query: query})
}

// Resume continues a session and yields the messages of the turn, as [Client.Query] does.
func (c *Client) Resume(ctx context.Context, sessionID string) iter.Seq2[json.RawMessage, error] {
	return c.run(ctx, command{name: "resume", Query: Query{SessionID: sessionID}})
}

// Interrupt asks the bridge to end the running query. Without one it does nothing. No turn can
// begin meanwhile, so the bridge never takes the interrupt for that of the next query.
func (c *Client) Interrupt(ctx context.Context) error {
	c.order.Lock()
	defer c.order.Unlock()
	c.mu.Lock()
	idle := c.turn == nil
	c.mu.Unlock()
	err := c.closed()
	if err == nil && !idle {
		err = c.write(ctx, command{name: "interrupt"})
	}
	if err != nil {
		return fmt.Errorf("ash: interrupt: %w", err)
	}
	return nil
}

// closed returns why the connection has ended, nil if it has not.
func (c *Client) closed() error {
	select {
	case <-c.ended:
		return c.err
	default:
		return nil
	}
}

// hostTurn is the running turn as the host sees it.
type hostTurn struct {
	events chan event
	over   chan struct{} // closed when nobody receives events
	// session is the id in its done.
	session string
}

func (c *Client) run(ctx context.Context, cmd command) iter.Seq2[json.RawMessage, error] {
	return func(yield func(json.RawMessage, error) bool) {
		turn, err := c.begin()
		if err != nil {
			yield(nil, err)
			return
		}
		left, err := c.runTurn(ctx, turn, cmd, yield)
		c.finish(turn)
		if c.bridge != nil {
			err = c.bridge.explain(err)
		}
		if err != nil && !left {
			yield(nil, err)
		}
	}
}

// begin begins a turn.
func (c *Client) begin() (*hostTurn, error) {
	if err := c.closed(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotSent, err)
	}
	c.order.Lock()
	defer c.order.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.turn != nil {
		return nil, ErrBusy
	}
	c.turn = &hostTurn{events: make(chan event), over: make(chan struct{})}
	return c.turn, nil
}

// finish ends the turn and keeps the session id in its done.
func (c *Client) finish(turn *hostTurn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.turn = nil
	c.session = cmp.Or(turn.session, c.session)
	close(turn.over)
}

// write sends a command. It returns ErrNotSent if the bridge cannot have received all of it.
func (c *Client) write(ctx context.Context, cmd command) error {
	line, err := cmd.encode()
	if err != nil {
		return err
	}
	if err := c.out.write(ctx, line); err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
		return fmt.Errorf("%w: %w: %w", ErrNotSent, ErrClosed, err)
	}
	return nil
}

// runTurn sends a command and yields the messages of its turn. When left is set, the loop wants no more. On
// return the turn is over, or the connection is closed.
func (c *Client) runTurn(
	ctx context.Context, turn *hostTurn, cmd command, yield func(json.RawMessage, error) bool,
) (left bool, err error) {
	if err := c.write(ctx, cmd); err != nil {
		return false, err
	}
	ended, stopping := false, ctx.Done()
	var overdue <-chan time.Time // set once the done must follow soon
	interrupt := func() error {
		ended, stopping, overdue = true, nil, time.After(c.settle)
		limited, cancel := context.WithTimeout(context.Background(), c.settle)
		defer cancel()
		return c.write(limited, command{name: "interrupt"})
	}
	for {
		select {
		case event := <-turn.events:
			switch {
			case event.name == "done":
				turn.session = event.session
				return left, err
			case ended:
			case event.name == "message":
				if !yield(event.data, nil) {
					left, err = true, interrupt()
				}
			case event.name == "error" && err == nil:
				err = Error{event.text}
			}
			if err != nil && !ended {
				overdue = time.After(c.settle)
			}
		case <-overdue:
			c.disconnect()
			return left, errors.Join(err, ErrNoDone)
		case <-c.ended:
			return left, errors.Join(err, c.err)
		case <-stopping:
			err = errors.Join(context.Cause(ctx), interrupt())
		}
	}
}

// SessionID returns the id in the latest done, "" if there is none. The bridge may have given the
// session another id than the host did.
func (c *Client) SessionID() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.session
}
