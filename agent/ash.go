package agent

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/oacp-go/oacp/ash"
)

// silence is how long a bridge that has said ready before may say nothing.
const silence = 2 * time.Second

// Ash is the driver for an agent behind an Ash bridge. The events of a turn are the messages of the
// agent's SDK, byte for byte.
//
// Where the agent's SDK tells its own session id, SessionID is that one.
type Ash struct {
	options Options

	// complaints is the end of what bridges of ours printed as errors.
	complaints complaints

	mu          sync.Mutex
	client      *ash.Client
	session     string
	running     bool
	interrupted bool
}

// NewAsh returns the driver. It connects when it is started.
func NewAsh(options Options) *Ash {
	a := &Ash{options: options, session: options.Session}
	if options.Greeted == nil {
		a.options.Greeted = new(atomic.Bool)
	}
	if a.options.Session == "" {
		a.options.Session = newSessionName()
	}
	return a
}

// Start connects to the bridge, and starts it first if the driver has its command.
func (a *Ash) Start(ctx context.Context) error {
	client, err := a.connect(ctx)
	if err != nil {
		if !errors.Is(err, ErrUnavailable) {
			err = fmt.Errorf("%w: %w", ErrUnavailable, err)
		}
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.client = client
	return nil
}

// current returns the connection, nil without one.
func (a *Ash) current() *ash.Client {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.client
}

// Turn sends the prompt as a query. A bridge cannot be given variables, so those of the request are
// left out. When the connection is found lost before the bridge has the query, the driver connects
// again, once. A bridge that is lost later may have died of the query, or done its work: the turn
// fails.
func (a *Ash) Turn(ctx context.Context, request Request, observe func(Event)) (Result, error) {
	begin := time.Now()
	a.beginTurn()
	defer a.endTurn()
	fold, err := a.query(ctx, request, observe)
	if errors.Is(err, ash.ErrNotSent) && ctx.Err() == nil {
		if err = a.restore(ctx); err == nil {
			fold, err = a.query(ctx, request, observe)
		}
	}
	result, failure := fold.finish()
	result.Duration = time.Since(begin)
	result.Tail = a.tail(result.Tail)
	result.SessionID = a.adopt(result.SessionID)
	switch {
	case ctx.Err() != nil && err != nil:
		return result, context.Cause(ctx)
	case a.wasInterrupted():
		return result, ErrInterrupted
	case err != nil:
		return result, a.bridgeError(err)
	}
	return result, failure
}

func (a *Ash) query(ctx context.Context, request Request, observe func(Event)) (*sdkFold, error) {
	fold := newSDKFold()
	client := a.current()
	if client == nil {
		return fold, fmt.Errorf("%w: the driver was not started", ErrUnavailable)
	}
	query := ash.Query{Prompt: safeText(request.Prompt), SessionID: a.name()}
	for raw, err := range client.Query(ctx, query) {
		if err != nil {
			return fold, err
		}
		text := fold.add(raw)
		if observe != nil {
			observe(Event{Raw: raw, Text: text})
		}
	}
	if session := client.SessionID(); session != "" {
		a.rename(session)
	}
	return fold, nil
}

// restore brings a lost connection back, and a bridge of ours that has ended.
func (a *Ash) restore(ctx context.Context) error {
	client := a.current()
	err := client.Reconnect(ctx)
	if !errors.Is(err, ash.ErrBridgeExited) {
		if err != nil {
			err = fmt.Errorf("%w: %w", ErrUnavailable, err)
		}
		return err
	}
	// What a bridge that has ended says at its closing is known already.
	_ = client.Close()
	return a.Start(ctx)
}

// bridgeError turns what the bridge reported into an error of this package.
func (a *Ash) bridgeError(err error) error {
	var reported ash.Error
	if errors.As(err, &reported) {
		return &ReportedError{Text: reported.Text}
	}
	return a.explain(err)
}

func (a *Ash) beginTurn() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.running, a.interrupted = true, false
}

func (a *Ash) endTurn() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.running = false
}

func (a *Ash) wasInterrupted() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.interrupted
}

// adopt remembers the session id that the agent told, and returns the one that continues the
// session.
func (a *Ash) adopt(session string) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.session = session
	if session == "" {
		a.session = a.options.Session
	}
	return a.session
}

// name returns the name under which the bridge knows the session.
func (a *Ash) name() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.options.Session
}

// rename takes the name that the bridge has given to the session.
func (a *Ash) rename(session string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.options.Session = session
}

// Interrupt asks the bridge to end the running turn.
func (a *Ash) Interrupt(ctx context.Context) error {
	a.mu.Lock()
	running := a.running
	a.interrupted = a.interrupted || running
	client := a.client
	a.mu.Unlock()
	if !running || client == nil {
		return nil
	}
	return client.Interrupt(ctx)
}

// SessionID returns the agent's own id of the session, or the name under which the bridge knows it.
func (a *Ash) SessionID() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.session
}

// Stop ends the connection, and the bridge if the driver started it.
func (a *Ash) Stop(ctx context.Context) error {
	a.mu.Lock()
	client := a.client
	a.client = nil
	a.mu.Unlock()
	var err error
	switch {
	case client == nil:
	case len(a.options.Command) == 0:
		err = client.Close()
	default:
		err = client.Shutdown(ctx)
		if errors.Is(err, ash.ErrNotSent) {
			err = client.Close() // the connection was lost before, which the turn has told
		}
	}
	return err
}
