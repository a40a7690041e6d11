package ash

import (
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
	return c.run(ctx, query)
}

// Resume continues a session and yields the messages of the turn, as [Client.Query] does.
func (c *Client) Resume(ctx context.Context, sessionID string) iter.Seq2[json.RawMessage, error] {
	return c.run(ctx, Resume{SessionID: sessionID})
}

// Interrupt asks the bridge to end the running query. Without one it does nothing.
func (c *Client) Interrupt(ctx context.Context) error {
	link, err := c.current()
	if err != nil {
		return err
	}
	if err := link.interrupt(ctx); err != nil {
		return fmt.Errorf("ash: interrupt: %w", err)
	}
	return nil
}

func (c *Client) run(ctx context.Context, command Command) iter.Seq2[json.RawMessage, error] {
	return func(yield func(json.RawMessage, error) bool) {
		link, err := c.current()
		if err != nil {
			yield(nil, err)
			return
		}
		turn, err := link.begin()
		if err != nil {
			yield(nil, err)
			return
		}
		left, err := link.runTurn(ctx, turn, command, c.options.SettleTimeout, yield)
		link.finish(turn)
		c.noteSession(turn.session)
		if c.bridge != nil {
			err = c.bridge.explain(err)
		}
		if err != nil && !left {
			yield(nil, err)
		}
	}
}

// runTurn sends a command and yields the messages of its turn. Left reports that the loop wants no
// more. On return the turn is over, or the connection is closed.
func (l *link) runTurn(ctx context.Context, turn *hostTurn, command Command, settle time.Duration,
	yield func(json.RawMessage, error) bool,
) (left bool, err error) {
	if err := l.write(ctx, command); err != nil {
		return false, err
	}
	var reported error
	var overdue <-chan time.Time // set by the first error: its done must follow soon
	for {
		select {
		case event := <-turn.events:
			switch event := event.(type) {
			case Message:
				if !yield(event.Data, nil) {
					return true, l.giveUp(turn, settle)
				}
			case Error:
				if reported == nil {
					reported = event
				}
			case Done:
				turn.session = event.SessionID
				return false, reported
			}
			if reported != nil {
				overdue = time.After(settle)
			}
		case <-overdue:
			l.close()
			return false, errors.Join(reported, ErrNoDone)
		case <-l.ended:
			return false, errors.Join(reported, l.err)
		case <-ctx.Done():
			return false, errors.Join(context.Cause(ctx), l.giveUp(turn, settle))
		}
	}
}

// giveUp interrupts a turn and waits for its done. If there is none in time, it closes the
// connection.
func (l *link) giveUp(turn *hostTurn, settle time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), settle)
	defer cancel()
	if err := l.write(ctx, Interrupt{}); err != nil {
		return err
	}
	for {
		select {
		case event := <-turn.events:
			if done, ok := event.(Done); ok {
				turn.session = done.SessionID
				return nil
			}
		case <-l.ended:
			return l.err
		case <-ctx.Done():
			l.close()
			return ErrNoDone
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

func (c *Client) noteSession(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if id != "" {
		c.session = id
	}
}
