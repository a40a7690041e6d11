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

// Bridge serves the Ash bridge protocol with any drivers: it is the handler
// for an ash.Server. Drivers that tell raw events have them passed on
// untouched; of others, the lines of the answer become assistant messages as
// they come, and the whole a result message, shaped as those of the Claude Code
// SDK.
type Bridge struct {
	newDriver func(session string) Driver

	mu       sync.Mutex
	sessions map[string]Driver
}

// NewBridge returns a bridge that makes a driver for each session when it is
// first named. The driver is to continue the session if it can.
func NewBridge(newDriver func(session string) Driver) *Bridge {
	return &Bridge{newDriver: newDriver, sessions: make(map[string]Driver)}
}

var _ ash.Handler = (*Bridge)(nil)

// Query runs a turn of the query's session. Of a prompt in content blocks, only
// text can be given to a driver; fields that this package does not know are
// left out.
func (b *Bridge) Query(ctx context.Context, query ash.Query, send ash.Send) error {
	prompt, err := promptText(query)
	if err != nil {
		return err
	}
	driver, err := b.driver(ctx, query.SessionID)
	if err != nil {
		return err
	}
	relay := &sdkRelay{session: query.SessionID, send: send}
	result, err := runInterruptible(ctx, driver, Request{Prompt: prompt}, relay.event)
	relay.say(len(relay.unsent))
	switch {
	case err == nil:
		return relay.finish(result)
	case errors.Is(err, ErrInterrupted):
		return context.Cause(ctx)
	}
	return errors.Join(err, b.drop(ctx, query.SessionID))
}

// interruptGrace is how long a driver may take to heed an interrupt. One that
// came just before the turn began may be missed altogether.
const interruptGrace = 5 * time.Second

// runInterruptible runs a turn. An interrupt from the host becomes one of the
// driver, which leaves the agent's session alive; any other end of the context
// stops the agent.
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
	result, err := driver.Turn(turn, request, observe)
	close(over)
	if !forward() {
		<-forwarded
	}
	return result, err
}

// Resume makes sure that the session can go on, and runs no turn.
func (b *Bridge) Resume(ctx context.Context, resume ash.Resume, _ ash.Send) error {
	_, err := b.driver(ctx, resume.SessionID)
	return err
}

// driver returns the session's driver, started. A session has one turn at a
// time, so nobody else starts the same one meanwhile.
func (b *Bridge) driver(ctx context.Context, session string) (Driver, error) {
	b.mu.Lock()
	driver, ok := b.sessions[session]
	b.mu.Unlock()
	if ok {
		return driver, nil
	}
	driver, err := b.start(ctx, session)
	if errors.Is(err, ErrUnknownSession) {
		// Hosts choose the names of their sessions. One that the agent has
		// never heard of begins here.
		driver, err = b.start(ctx, "")
	}
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sessions[session] = driver
	return driver, nil
}

func (b *Bridge) start(ctx context.Context, session string) (Driver, error) {
	driver := b.newDriver(session)
	if err := driver.Start(ctx); err != nil {
		return nil, errors.Join(err, driver.Stop(context.WithoutCancel(ctx)))
	}
	return driver, nil
}

// drop stops a driver whose turn failed, which may be broken. The session's
// next turn gets a new one.
func (b *Bridge) drop(ctx context.Context, session string) error {
	b.mu.Lock()
	driver := b.sessions[session]
	delete(b.sessions, session)
	b.mu.Unlock()
	return driver.Stop(context.WithoutCancel(ctx))
}

// Stop stops the drivers of all sessions. Call it when the server has ended.
func (b *Bridge) Stop(ctx context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	var err error
	for session, driver := range b.sessions {
		err = errors.Join(err, driver.Stop(ctx))
		delete(b.sessions, session)
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

// maxUnsent is how much of an unfinished line is kept back, in bytes.
const maxUnsent = 64 << 10

// sdkRelay sends the events of one turn to the host.
type sdkRelay struct {
	session string
	send    ash.Send
	raw     bool
	// unsent is the beginning of a line whose end has not come yet: hosts take
	// a message for complete, and show each on lines of its own.
	unsent string
	err    error
}

func (r *sdkRelay) event(e Event) {
	switch {
	case r.err != nil || e.Raw == nil && e.Error:
	case e.Raw != nil:
		r.raw = true
		r.err = r.send(e.Raw)
	default:
		r.unsent += e.Text
		r.say(strings.LastIndexByte(r.unsent, '\n') + 1)
		if len(r.unsent) > maxUnsent {
			r.say(len(r.unsent))
		}
	}
}

// say sends the first bytes of what is unsent.
func (r *sdkRelay) say(length int) {
	if r.err != nil || length == 0 {
		return
	}
	text := r.unsent[:length]
	r.unsent = r.unsent[length:]
	r.err = r.message(sdkMessage{
		Type: "assistant", SessionID: r.session,
		Message: &sdkContent{Role: "assistant", Content: textContent(text)},
	})
}

func textContent(text string) json.RawMessage {
	content, err := json.Marshal([]sdkBlock{{Type: "text", Text: text}})
	if err != nil {
		panic(err) // strings always have a JSON form
	}
	return content
}

func (r *sdkRelay) message(m sdkMessage) error {
	data, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return r.send(data)
}

// finish sends the result message of an agent that has none of its own.
func (r *sdkRelay) finish(result Result) error {
	if r.err != nil || r.raw {
		return r.err
	}
	m := sdkMessage{
		Type: "result", Subtype: "success", SessionID: r.session,
		Result: result.Text, DurationMS: result.Duration.Milliseconds(), TotalCostUSD: result.Usage.CostUSD,
	}
	if u := result.Usage; u.InputTokens != 0 || u.OutputTokens != 0 {
		m.Usage = &sdkUsage{InputTokens: u.InputTokens, OutputTokens: u.OutputTokens}
	}
	return r.message(m)
}

// newSessionName makes up a name for a session.
func newSessionName() string { return "oacp-" + strings.ToLower(rand.Text()[:16]) }
