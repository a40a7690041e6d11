package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/oacp-go/oacp/ash"
)

// Bridge is the handler with which an ash.Server serves any drivers. It passes messages of the
// Claude Code SDK on untouched. For other agents, it turns the lines of the answer into assistant
// messages as they come, and the whole answer into a result message, in the shape of that SDK.
//
// A session continues after a turn that failed, and after its driver was stopped to make room for
// others.
type Bridge struct {
	newDriver func(session string) Driver

	mu       sync.Mutex
	sessions map[string]*bridgeSession
	// idle are the sessions with a driver and no turn. The first has been idle longest.
	idle []*bridgeSession
}

// bridgeSession is a session by the host's name for it.
type bridgeSession struct {
	// driver is nil if none runs.
	driver Driver
	// id is the agent's own id of the session, if it has one.
	id string
}

// maxIdleDrivers bounds the drivers that run between turns. Hosts may choose a new session for each
// query.
const maxIdleDrivers = 8

// NewBridge returns a bridge that makes a driver when a session is first named. The driver should
// continue the session if it can.
func NewBridge(newDriver func(session string) Driver) *Bridge {
	return &Bridge{newDriver: newDriver, sessions: make(map[string]*bridgeSession)}
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
		return errors.Join(relay.finish(result), b.rest(ctx, query.SessionID))
	case errors.Is(err, ErrInterrupted):
		return errors.Join(context.Cause(ctx), b.rest(ctx, query.SessionID))
	}
	return errors.Join(err, b.drop(ctx, query.SessionID))
}

// runInterruptible runs a turn. If the host interrupts it, runInterruptible interrupts the driver,
// which keeps the agent's session alive. If ctx ends for another reason, it stops the agent.
func runInterruptible(ctx context.Context, driver Driver, request Request, observe func(Event)) (Result, error) {
	turn, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	over, forwarded := make(chan struct{}), make(chan struct{})
	forward := context.AfterFunc(ctx, func() {
		defer close(forwarded)
		cause := context.Cause(ctx)
		if errors.Is(cause, ash.ErrInterrupted) && driver.Interrupt(turn) == nil {
			select {
			case <-over:
			case <-time.After(interruptGrace):
			}
		}
		cancel(cause)
	})
	result, err := RunTurn(turn, driver, request, observe)
	close(over)
	if !forward() {
		<-forwarded
	}
	return result, err
}

// Resume makes sure that the session can continue, and returns an error if neither this bridge nor
// the agent knows it. It runs no turn.
func (b *Bridge) Resume(ctx context.Context, resume ash.Resume, send ash.Send) error {
	driver, err := b.driver(ctx, resume.SessionID, false)
	if err != nil {
		return err
	}
	if behind, ok := driver.(*Ash); ok { // only the other bridge knows
		if err := behind.resume(ctx, send); err != nil {
			return errors.Join(err, b.drop(ctx, resume.SessionID))
		}
	}
	return b.rest(ctx, resume.SessionID)
}

// driver returns the session's driver, started and busy. If mayBegin is set, a name that nobody
// knows begins a session. A session has one turn at a time, so only one goroutine starts its driver.
func (b *Bridge) driver(ctx context.Context, name string, mayBegin bool) (Driver, error) {
	b.mu.Lock()
	s := b.sessions[name]
	if s == nil {
		s = &bridgeSession{}
		b.sessions[name] = s
	}
	b.idle = slices.DeleteFunc(b.idle, func(idle *bridgeSession) bool { return idle == s })
	running, id := s.driver, s.id
	b.mu.Unlock()
	if running != nil {
		return running, nil
	}
	driver, err := b.start(ctx, cmp.Or(id, name))
	unknown := errors.Is(err, ErrUnknownSession)
	if unknown && id == "" && mayBegin {
		// The host made up a name that the agent does not know: the session begins here.
		driver, err = b.start(ctx, "")
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case err == nil:
		s.driver = driver
	case unknown: // the host knows now that the session is gone; its next query may begin a new one
		delete(b.sessions, name)
	}
	return driver, err
}

func (b *Bridge) start(ctx context.Context, session string) (Driver, error) {
	driver := b.newDriver(session)
	if err := driver.Start(ctx); err != nil {
		return nil, errors.Join(err, driver.Stop(context.WithoutCancel(ctx)))
	}
	return driver, nil
}

// drop stops a driver whose turn failed, because it may be broken. The session's next turn gets a
// new one.
func (b *Bridge) drop(ctx context.Context, name string) error {
	b.mu.Lock()
	driver := b.sessions[name].release()
	b.mu.Unlock()
	return driver.Stop(context.WithoutCancel(ctx))
}

// rest keeps a driver for the session's next turn. If too many are idle, it stops the one that has
// been idle longest.
func (b *Bridge) rest(ctx context.Context, name string) error {
	b.mu.Lock()
	b.idle = append(b.idle, b.sessions[name])
	var driver Driver
	if len(b.idle) > maxIdleDrivers {
		driver = b.idle[0].release()
		b.idle = b.idle[1:]
	}
	b.mu.Unlock()
	if driver == nil {
		return nil
	}
	return driver.Stop(context.WithoutCancel(ctx))
}

// release takes the driver from the session, and keeps the id that continues the session.
func (s *bridgeSession) release() Driver {
	driver := s.driver
	if id := driver.SessionID(); id != "" {
		s.id = id
	}
	s.driver = nil
	return driver
}

// Stop stops the drivers of all sessions. Call it when the server has ended.
func (b *Bridge) Stop(ctx context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	var err error
	for _, s := range b.sessions {
		if s.driver != nil {
			err = errors.Join(err, s.release().Stop(ctx))
		}
	}
	return err
}

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
