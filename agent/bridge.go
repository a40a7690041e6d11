package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/oacp-go/oacp/ash"
)

// Bridge is the handler with which an ash.Server serves any drivers but Ash. It passes messages of the
// Claude Code SDK on untouched. For other agents, it turns the lines of the answer into assistant
// messages as they come, and the whole answer into a result message, in the shape of that SDK.
//
// A session continues after a turn that failed, and after its driver was stopped to make room for
// others.
type Bridge struct {
	pool Pool

	mu sync.Mutex
	// ids are the agents' own ids of the sessions, by the hosts' names for them.
	ids map[string]string
}

// maxIdleDrivers bounds the drivers that run between turns. Hosts may choose a new session for each
// query.
const maxIdleDrivers = 8

// NewBridge returns a bridge that makes a driver when a session is first named. The driver should
// continue the session if it can.
func NewBridge(newDriver func(session string) Driver) *Bridge {
	return &Bridge{
		pool: Pool{New: func(_, session string) Driver { return newDriver(session) }, Most: maxIdleDrivers},
		ids:  make(map[string]string),
	}
}

var _ ash.Handler = (*Bridge)(nil)

// Query runs a turn of the query's session. It accepts only text in content blocks, and ignores
// fields that this package does not know.
func (b *Bridge) Query(ctx context.Context, query ash.Query, send ash.Send) error {
	prompt, err := promptText(query)
	if err != nil {
		return err
	}
	driver, err := b.driver(ctx, query.SessionID, true)
	if err != nil {
		return err
	}
	relay := newSDKRelay(query.SessionID, driver, send)
	result, err := runInterruptible(ctx, driver, Request{Prompt: prompt, Partial: query.IncludePartialMessages}, relay.event)
	relay.say(len(relay.unsent))
	switch {
	case err == nil:
		return errors.Join(relay.finish(result), b.keep(ctx, query.SessionID, driver))
	case errors.Is(err, ErrInterrupted):
		return errors.Join(context.Cause(ctx), b.keep(ctx, query.SessionID, driver))
	}
	return errors.Join(err, b.drop(ctx, query.SessionID, driver))
}

// runInterruptible runs a turn. An interrupt by the host interrupts the driver, too.
func runInterruptible(ctx context.Context, driver Driver, request Request, observe func(Event)) (Result, error) {
	turn, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	defer context.AfterFunc(ctx, func() {
		cause := context.Cause(ctx)
		if errors.Is(cause, ash.ErrInterrupted) {
			cause = ErrInterrupted
		}
		cancel(cause)
	})()
	return RunTurn(turn, driver, request, observe, nil)
}

// Resume makes sure that the session can continue, and returns an error if neither this bridge nor
// the agent knows it. It runs no turn.
func (b *Bridge) Resume(ctx context.Context, resume ash.Resume, _ ash.Send) error {
	driver, err := b.driver(ctx, resume.SessionID, false)
	if err != nil {
		return err
	}
	return b.keep(ctx, resume.SessionID, driver)
}

// driver returns the session's driver. If mayBegin is set, a name that nobody knows begins a session:
// the host made it up. A session has one turn at a time.
func (b *Bridge) driver(ctx context.Context, name string, mayBegin bool) (Driver, error) {
	b.mu.Lock()
	id := b.ids[name]
	b.mu.Unlock()
	driver, err := b.pool.Get(ctx, name, cmp.Or(id, name), mayBegin && id == "")
	if errors.Is(err, ErrUnknownSession) {
		// The host knows now that the session is gone. Its next query may begin a new one.
		b.mu.Lock()
		delete(b.ids, name)
		b.mu.Unlock()
	}
	return driver, err
}

// drop stops a driver whose turn failed. The session's next turn gets a new one.
func (b *Bridge) drop(ctx context.Context, name string, driver Driver) error {
	b.remember(name, driver)
	return driver.Stop(context.WithoutCancel(ctx))
}

// keep keeps a driver for the session's next turn.
func (b *Bridge) keep(ctx context.Context, name string, driver Driver) error {
	b.remember(name, driver)
	return b.pool.Keep(ctx, name, driver)
}

// remember keeps the id that continues the session.
func (b *Bridge) remember(name string, driver Driver) {
	if id := driver.SessionID(); id != "" {
		b.mu.Lock()
		b.ids[name] = id
		b.mu.Unlock()
	}
}

// Stop stops the drivers of all sessions. Call it when the server has ended.
func (b *Bridge) Stop(ctx context.Context) error { return b.pool.Stop(ctx) }

func promptText(query ash.Query) (string, error) {
	if query.Blocks == nil {
		return query.Prompt, nil
	}
	var blocks []claudeBlock
	if err := json.Unmarshal(query.Blocks, &blocks); err != nil {
		return "", fmt.Errorf("reading the content blocks of the prompt: %w", err)
	}
	texts := make([]string, len(blocks))
	for i, block := range blocks {
		if block.Type != "text" {
			return "", fmt.Errorf("content block %d is of type %.40q: this agent accepts only text", i+1, block.Type)
		}
		texts[i] = block.Text
	}
	return strings.Join(texts, "\n"), nil
}
