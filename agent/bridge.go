package agent

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/oacp-go/oacp/ash"
)

// Bridge serves the Ash bridge protocol with any drivers: it is the handler for an ash.Server.
// Messages of the Claude Code SDK are passed on untouched; of others, the lines of the answer
// become assistant messages as they come, and the whole a result message, shaped as those of the
// Claude Code SDK.
//
// A session goes on after a turn that failed, with the id that its driver had for it. So do those
// whose drivers were stopped because others are in use.
type Bridge struct {
	newDriver func(session string) Driver

	mu       sync.Mutex
	sessions map[string]*bridgeSession
	// turns counts what was begun, to know which driver was idle longest.
	turns int
}

// bridgeSession is a session as its host names it.
type bridgeSession struct {
	// driver is nil when none runs, and busy while it has a turn.
	driver Driver
	busy   bool
	// used is the number of its last turn.
	used int
	// id is the agent's own id of the session, if it has one.
	id string
}

// maxIdleDrivers is how many drivers are kept running between turns. Hosts may make up a new
// session for each query.
const maxIdleDrivers = 8

// NewBridge returns a bridge that makes a driver for each session when it is first named. The
// driver is to continue the session if it can.
func NewBridge(newDriver func(session string) Driver) *Bridge {
	return &Bridge{newDriver: newDriver, sessions: make(map[string]*bridgeSession)}
}

var _ ash.Handler = (*Bridge)(nil)

// Query runs a turn of the query's session. Of a prompt in content blocks, only text can be given
// to a driver; fields that this package does not know are left out.
func (b *Bridge) Query(ctx context.Context, query ash.Query, send ash.Send) error {
	prompt, err := promptText(query)
	if err != nil {
		return err
	}
	driver, err := b.driver(ctx, query.SessionID)
	if err != nil {
		return err
	}
	relay := newSDKRelay(query.SessionID, driver, send)
	result, err := runInterruptible(ctx, driver, Request{Prompt: prompt}, relay.event)
	relay.say(len(relay.unsent))
	switch {
	case err == nil:
		return errors.Join(relay.finish(result), b.rest(ctx, query.SessionID))
	case errors.Is(err, ErrInterrupted):
		return errors.Join(context.Cause(ctx), b.rest(ctx, query.SessionID))
	}
	return errors.Join(err, b.drop(ctx, query.SessionID))
}

// runInterruptible runs a turn. An interrupt from the host becomes one of the driver, which leaves
// the agent's session alive; any other end of the context stops the agent.
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

// Resume makes sure that the session can go on, and runs no turn.
func (b *Bridge) Resume(ctx context.Context, resume ash.Resume, _ ash.Send) error {
	if _, err := b.driver(ctx, resume.SessionID); err != nil {
		return err
	}
	return b.rest(ctx, resume.SessionID)
}

// driver returns the session's driver, started and busy. A session has one turn at a time, so
// nobody else starts the same one meanwhile.
func (b *Bridge) driver(ctx context.Context, name string) (Driver, error) {
	b.mu.Lock()
	s := b.sessions[name]
	if s == nil {
		s = &bridgeSession{}
		b.sessions[name] = s
	}
	b.turns++
	s.used, s.busy = b.turns, s.driver != nil
	running, id := s.driver, s.id
	b.mu.Unlock()
	if running != nil {
		return running, nil
	}
	if id == "" {
		id = name
	}
	driver, err := b.start(ctx, id)
	if errors.Is(err, ErrUnknownSession) {
		// Hosts choose the names of their sessions. One that the agent has never heard of begins
		// here.
		driver, err = b.start(ctx, "")
	}
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	s.driver, s.busy = driver, true
	return driver, nil
}

func (b *Bridge) start(ctx context.Context, session string) (Driver, error) {
	driver := b.newDriver(session)
	if err := driver.Start(ctx); err != nil {
		return nil, errors.Join(err, driver.Stop(context.WithoutCancel(ctx)))
	}
	return driver, nil
}

// drop stops a driver whose turn failed, which may be broken. The session's next turn gets a new
// one.
func (b *Bridge) drop(ctx context.Context, name string) error {
	b.mu.Lock()
	driver := b.sessions[name].release()
	b.mu.Unlock()
	return driver.Stop(context.WithoutCancel(ctx))
}

// rest has a driver wait for the session's next turn. It stops the one that has been idle longest
// when there are too many.
func (b *Bridge) rest(ctx context.Context, name string) error {
	b.mu.Lock()
	b.sessions[name].busy = false
	idle := 0
	var oldest *bridgeSession
	for _, s := range b.sessions {
		if s.driver == nil || s.busy {
			continue
		}
		if idle++; oldest == nil || s.used < oldest.used {
			oldest = s
		}
	}
	var driver Driver
	if idle > maxIdleDrivers {
		driver = oldest.release()
	}
	b.mu.Unlock()
	if driver == nil {
		return nil
	}
	return driver.Stop(context.WithoutCancel(ctx))
}

// release returns the driver, which is the session's no more, and keeps what continues the session.
func (s *bridgeSession) release() Driver {
	driver := s.driver
	if id := driver.SessionID(); id != "" {
		s.id = id
	}
	s.driver, s.busy = nil, false
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
	var blocks []sdkBlock
	if err := json.Unmarshal(query.Blocks, &blocks); err != nil {
		return "", fmt.Errorf("reading the content blocks of the prompt: %w", err)
	}
	texts := make([]string, len(blocks))
	for i, block := range blocks {
		if block.Type != "text" {
			return "", fmt.Errorf("content block %d is of type %.40q: this agent takes text alone", i+1, block.Type)
		}
		texts[i] = block.Text
	}
	return strings.Join(texts, "\n"), nil
}

// newSessionName makes up a name for a session.
func newSessionName() string { return "oacp-" + strings.ToLower(rand.Text()[:16]) }
