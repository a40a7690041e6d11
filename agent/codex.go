package agent

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Codex is the driver for the codex program: its app server, kept running
// between turns, spoken to in JSON-RPC. The events of a turn are the server's
// notifications, byte for byte. Where the program is too old for that, has
// nothing but CODEX_API_KEY to log in with, or the options say so, its exec
// command is run for each turn; the events are then the lines that it prints.
//
// Deaths of the program, failures of the model's service, late interrupts and
// variables of a request are dealt with as by Claude.
//
// The driver changes no settings of the user's.
type Codex struct {
	options Options
	// patience is how long an interrupt may take.
	patience time.Duration
	turns    turnSlot
	life     lifetime

	mu     sync.Mutex
	path   string
	env    []string
	exec   bool
	server *codexServer
	// command is the exec command of the turn that runs.
	command *child
	session string
	// established says that the session outlives a program that dies.
	established bool
	// used is what the session used up so far, as the exec command counts it,
	// and usedKnown whether the driver has seen all of it.
	used      Usage
	usedKnown bool
}

// NewCodex returns the driver.
func NewCodex(options Options) *Codex {
	c := &Codex{options: options, patience: interruptGrace}
	c.options.permitCodex()
	if len(c.options.Command) == 0 {
		c.options.Command = []string{"codex"}
	}
	c.session = c.options.Session
	c.established = c.session != ""
	c.usedKnown = !c.established
	return c
}

const (
	codexInstall = "install codex with: npm install -g @openai/codex"
	codexLogin   = "log in once with: codex login (or set CODEX_API_KEY)"
)

// Releases of codex. The app server of those before oldestCodexServer speaks
// another protocol.
var (
	oldestCodex       = version{0, 80, 0}
	oldestCodexServer = version{0, 100, 0}
)

// Start starts the program's app server and makes sure that it is new enough
// and logged in. Where the exec command is used, nothing is started.
func (c *Codex) Start(ctx context.Context) error {
	path, err := findProgram(c.options.Dir, c.options.Command[0])
	if err != nil {
		return fmt.Errorf("%w; %s", err, codexInstall)
	}
	env, err := c.environ()
	if err := errors.Join(err, checkFolder(c.options.Dir), checkServers(c.options.MCP), checkSession(c.options.Session)); err != nil {
		return err
	}
	c.mu.Lock()
	c.path, c.env, c.exec = path, env, c.options.exec
	c.mu.Unlock()
	c.life.begin()
	ctx, leave, err := c.life.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	if !c.options.exec {
		_, err := c.running(ctx)
		if !errors.Is(err, errNoServer) {
			return err
		}
	}
	c.mu.Lock()
	c.exec = true
	c.mu.Unlock()
	return c.checkVersion(ctx)
}

// errNoServer says that the program has no app server that can be used.
var errNoServer = fmt.Errorf("%w: codex has no app server that can be used", ErrUnavailable)

// checkVersion makes sure that the program is not too old. One that does not
// tell its version was built from source.
func (c *Codex) checkVersion(ctx context.Context) error {
	v, ok := askVersion(ctx, c.path, c.options.Command, c.options.Env)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case ok && v != (version{}) && v.before(oldestCodex):
		return tooOld("codex", v, oldestCodex, codexInstall+"@latest")
	}
	return nil
}

// Turn runs one turn.
func (c *Codex) Turn(ctx context.Context, request Request, observe func(Event)) (Result, error) {
	if c.life.hasEnded() {
		return Result{}, errNotStarted
	}
	c.mu.Lock()
	useExec := c.exec
	c.mu.Unlock()
	begin := time.Now()
	t := &codexTurn{codex: c, ongoing: c.turns.begin(), observe: observe, spoken: newOutput(nil), items: make(map[string]*codexItem)}
	defer c.turns.end()
	attempt := t.attempt
	if useExec {
		attempt = t.attemptExec
	}
	err := t.run(ctx, safeText(request.Prompt), attempt)
	result := t.result()
	result.Duration = time.Since(begin)
	result.SessionID = c.SessionID()
	switch {
	case ctx.Err() != nil && err != nil:
		return result, context.Cause(ctx)
	case t.isInterrupted() && err != nil:
		return result, ErrInterrupted
	}
	return result, err
}

// running returns the app server, and starts it where it does not run.
func (c *Codex) running(ctx context.Context) (*codexServer, error) {
	ctx, leave, err := c.life.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	c.mu.Lock()
	s, session, established := c.server, c.session, c.established
	c.mu.Unlock()
	if s != nil && !s.hasEnded() {
		return s, nil
	}
	s, err = c.launch(ctx, session)
	if errors.Is(err, ErrUnknownSession) && !established {
		s, err = c.launch(ctx, "") // the program has kept nothing of it yet
	}
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.server = s // to be stopped, also if that is to be now
	return s, nil
}

// adopt remembers the session that a turn was run in.
func (c *Codex) adopt(session string, established bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.session = session
	c.established = c.established || established
}

// Interrupt asks the program to end the running turn. One that does not within
// some seconds is stopped; the session goes on with the next turn.
func (c *Codex) Interrupt(context.Context) error {
	c.turns.interrupt()
	return nil
}

// SessionID returns the id of the session, "" before the first turn of a new
// one.
func (c *Codex) SessionID() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.session
}

// Stop has the program end, in stages: its input ends, then SIGTERM (the
// exec command: SIGINT), then SIGKILL. A turn that is running fails.
func (c *Codex) Stop(ctx context.Context) error {
	c.life.end()
	c.mu.Lock()
	s, command := c.server, c.command
	c.server, c.command = nil, nil
	c.mu.Unlock()
	var err error
	if s != nil {
		err = s.finish(ctx)
	}
	if command != nil {
		err = errors.Join(err, command.stop(ctx))
	}
	return err
}
