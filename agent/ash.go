package agent

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/oacp-go/oacp/ash"
	"github.com/oacp-go/oacp/internal/orphans"
)

// silence is how long a bridge that has said ready before may say nothing.
const silence = 2 * time.Second

// Ash is the driver for an agent behind an Ash bridge. The events of a turn are the messages of the
// agent's SDK, byte for byte. If the SDK tells its own session id, SessionID returns that.
type Ash struct {
	options Options
	// stderr is the end of the error output of a bridge that the driver started.
	stderr *output

	mu     sync.Mutex
	client *ash.Client
	// name is what the bridge calls the session, session what SessionID returns.
	name, session        string
	running, interrupted bool
}

// NewAsh returns the driver. It connects when it is started.
func NewAsh(options Options) *Ash {
	a := &Ash{options: options, name: options.Session, session: options.Session, stderr: newOutput(nil)}
	if options.Greeted == nil {
		a.options.Greeted = new(atomic.Bool)
	}
	if a.name == "" {
		a.name = "oacp-" + strings.ToLower(rand.Text()[:16])
	}
	return a
}

// Start connects to the bridge. If the options have a command, Start runs the bridge first.
func (a *Ash) Start(ctx context.Context) error {
	client, err := a.connect(ctx)
	if err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.client = client
	return nil
}

func (a *Ash) connect(ctx context.Context) (client *ash.Client, err error) {
	switch {
	case len(a.options.Command) > 0:
		client, err = a.spawn(ctx)
	case a.options.Socket == "":
		err = errors.New("neither the socket of an Ash bridge nor a command is given")
	default:
		client, err = a.join(ctx)
	}
	if err != nil && !errors.Is(err, ErrUnavailable) {
		err = fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return client, err
}

// spawn runs the bridge and connects to it.
func (a *Ash) spawn(ctx context.Context) (*ash.Client, error) {
	path, err := findProgram(a.options.Dir, a.options.Command[0])
	if err == nil {
		err = checkFolder(a.options.Dir)
	}
	if err != nil {
		return nil, err
	}
	socket := a.options.Socket
	if socket == "" {
		socket = ash.NewSocketPath()
	}
	cmd := &exec.Cmd{
		Path: path, Args: a.options.Command, Dir: a.options.Dir, Env: environment(a.options.Env, orphans.Environ(ctx)),
		Stderr: a.stderr.stream(true),
	}
	client, err := ash.Spawn(ctx, cmd, socket, &ash.ClientOptions{StopTimeout: a.options.Grace})
	return client, a.explain(err)
}

// join connects to a bridge that runs already.
func (a *Ash) join(ctx context.Context) (*ash.Client, error) {
	var options ash.ClientOptions
	if a.options.Greeted.Load() {
		options.ReadyTimeout, options.AssumeReady = silence, true
	}
	client, err := ash.Connect(ctx, a.options.Socket, &options)
	if err == nil {
		a.options.Greeted.Store(true)
	}
	return client, err
}

// Turn sends the prompt as a query, without the variables of the request. If the connection turns
// out to be lost before the bridge has the query, the driver connects again, once. A bridge that is
// lost later may have died of the query, or done its work, so the turn fails.
func (a *Ash) Turn(ctx context.Context, request Request, observe func(Event)) (Result, error) {
	begin := time.Now()
	client := a.beginTurn(true)
	defer a.beginTurn(false)
	if client == nil {
		return Result{}, errNotStarted
	}
	fold, err := a.query(ctx, client, request, observe)
	if errors.Is(err, ash.ErrNotSent) && ctx.Err() == nil {
		if client, err = a.reconnect(ctx, client); err == nil {
			fold, err = a.query(ctx, client, request, observe)
		}
	}
	result, failure := fold.finish()
	result.Duration = time.Since(begin)
	result.Tail = joinTails(result.Tail, a.stderr.result().Tail)
	var interrupted bool
	result.SessionID, interrupted = a.adopt(result.SessionID, client)
	switch {
	case ctx.Err() != nil && err != nil:
		return result, context.Cause(ctx)
	case interrupted:
		return result, ErrInterrupted
	case err != nil:
		return result, a.bridgeError(err)
	}
	return result, failure
}

// beginTurn notes that a turn begins, or that it ends, and returns the connection.
func (a *Ash) beginTurn(running bool) *ash.Client {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.running, a.interrupted = running, false
	return a.client
}

func (a *Ash) query(ctx context.Context, client *ash.Client, request Request, observe func(Event)) (*sdkFold, error) {
	fold := newSDKFold()
	a.mu.Lock()
	query := ash.Query{Prompt: safeText(request.Prompt), SessionID: a.name}
	a.mu.Unlock()
	for raw, err := range client.Query(ctx, query) {
		if err != nil {
			return fold, err
		}
		text := fold.add(readClaude(raw))
		if observe != nil {
			observe(Event{Raw: raw, Text: text})
		}
	}
	return fold, nil
}

// reconnect replaces a lost connection, and with it a bridge that the driver started.
func (a *Ash) reconnect(ctx context.Context, lost *ash.Client) (*ash.Client, error) {
	_ = lost.Close() // only the new connection matters
	client, err := a.connect(ctx)
	if err != nil {
		return lost, err
	}
	a.mu.Lock()
	stopped := a.client != lost
	if !stopped {
		a.client = client
	}
	a.mu.Unlock()
	if stopped {
		return lost, errors.Join(errNotStarted, client.Close())
	}
	return client, nil
}

// adopt remembers the session ids that the agent and the bridge told in the turn. It returns the id
// that continues the session, and whether the turn was interrupted.
func (a *Ash) adopt(session string, client *ash.Client) (id string, interrupted bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if name := client.SessionID(); name != "" {
		a.name = name
	}
	a.session = session
	if session == "" {
		a.session = a.name
	}
	return a.session, a.interrupted
}

// bridgeError turns what the bridge reported into an error of this package.
func (a *Ash) bridgeError(err error) error {
	var reported ash.Error
	if errors.As(err, &reported) {
		return &ReportedError{Text: reported.Text}
	}
	return a.explain(err)
}

// explain adds to an error what a bridge of ours said last.
func (a *Ash) explain(err error) error {
	if said := lastLine(a.stderr.result().Tail); err != nil && said != "" {
		return fmt.Errorf("%w: %s", err, said)
	}
	return err
}

// Interrupt asks the bridge to end the running turn.
func (a *Ash) Interrupt(ctx context.Context) error {
	a.mu.Lock()
	client, running := a.client, a.running
	a.interrupted = a.interrupted || running
	a.mu.Unlock()
	if !running || client == nil {
		return nil
	}
	return client.Interrupt(ctx)
}

// SessionID returns the agent's own id of the session, or the bridge's name for it.
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
	switch {
	case client == nil:
		return nil
	case len(a.options.Command) == 0:
		return client.Close()
	}
	err := client.Shutdown(ctx)
	if errors.Is(err, ash.ErrNotSent) {
		return client.Close() // the turn has reported that the connection was lost
	}
	return err
}
