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
// query.
//
// The turn has succeeded if the range ends without an error. An error ends the range: an [Error] of
// the bridge (its first), [ErrClosed] if the connection was lost, with [ErrNotSent] if the bridge
// did not get the query, the cause of ctx, or an error of the encoding. A second query at the same
// time is an error.
//
// Leaving the range early, or ending ctx, interrupts the turn. If the turn does not end within five
// seconds, Query closes the connection.
func (c *Client) Query(ctx context.Context, query Query) iter.Seq2[json.RawMessage, error] {
	return func(yield func(json.RawMessage, error) bool) {
		turn, err := c.begin()
		if err != nil {
			yield(nil, err)
			return
		}
		left, err := c.runTurn(ctx, turn, query, yield)
		c.finish(turn)
		if c.bridge != nil {
			err = c.bridge.explain(err)
		}
		if err != nil && !left {
			yield(nil, err)
		}
	}
}

// hostTurn is the running turn as the host sees it.
type hostTurn struct {
	events chan event
	over   chan struct{} // closed when the events have no receiver
	// session is the id in its done.
	session string
}

func (c *Client) begin() (*hostTurn, error) {
	select {
	case <-c.ended:
		return nil, fmt.Errorf("%w: %w", ErrNotSent, c.err)
	default:
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.turn != nil {
		return nil, errBusy
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

// write sends a command. If the connection is lost, the error matches ErrNotSent.
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

// runTurn sends a query and yields the messages of its turn. Left reports that the caller has left the
// range. When runTurn returns, the turn is over or the connection is closed.
func (c *Client) runTurn(
	ctx context.Context, turn *hostTurn, query Query, yield func(json.RawMessage, error) bool,
) (left bool, err error) {
	if err := c.write(ctx, command{name: "query", Query: query}); err != nil {
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
