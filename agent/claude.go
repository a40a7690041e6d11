package agent

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Claude is the driver for Claude Code: the claude program in print mode, kept
// running between turns, with its streaming JSON on both ends. The events of a
// turn are the program's messages, byte for byte; control messages between
// program and driver are left out.
//
// A program that dies in the middle of a turn is started again once, with the
// same session, and given the prompt again with a note that says so. Failures
// of the model's service are *APIErrors. An Interrupt that comes too late,
// when the turn has ended well, changes nothing. What the program does between
// turns, for commands that run in the background, is told and counted with the
// next turn. Variables of a request do not
// reach a program that runs already, so they are left out.
//
// The driver changes no settings of the user's. What the program may do
// without asking is for its permission mode and settings to say.
type Claude struct {
	options Options
	// patience is how long an interrupt may take.
	patience time.Duration
	turns    turnSlot
	life     lifetime
	// background is what the program did between turns.
	background background

	mu      sync.Mutex
	path    string
	process *claudeProcess
	session string
	// established says that the session outlives a program that dies: it was
	// there before, or a turn of it has ended.
	established bool
}

// NewClaude returns the driver.
func NewClaude(options Options) *Claude {
	c := &Claude{options: options, patience: interruptGrace}
	c.options.permitClaude()
	if len(c.options.Command) == 0 {
		c.options.Command = []string{"claude"}
	}
	c.session = c.options.Session
	c.established = c.session != ""
	return c
}

const (
	claudeInstall = "install Claude Code with: npm install -g @anthropic-ai/claude-code"
	claudeLogin   = "log in once with: claude /login (or set ANTHROPIC_API_KEY)"
)

// oldestClaude is the first release that the driver is known to work with.
var oldestClaude = version{2, 1, 0}

// Start starts the program and makes sure that it understands the driver, is
// new enough, and is logged in.
func (c *Claude) Start(ctx context.Context) error {
	path, err := findProgram(c.options.Dir, c.options.Command[0])
	if err != nil {
		return fmt.Errorf("%w; %s", err, claudeInstall)
	}
	if err := errors.Join(checkFolder(c.options.Dir), checkServers(c.options.MCP), checkSession(c.options.Session)); err != nil {
		return err
	}
	c.mu.Lock()
	c.path = path
	c.mu.Unlock()
	c.life.begin()
	_, err = c.running(ctx)
	return err
}

// Turn runs one turn. Its prompt is a message of the user.
func (c *Claude) Turn(ctx context.Context, request Request, observe func(Event)) (Result, error) {
	if c.life.hasEnded() {
		return Result{}, errNotStarted
	}
	begin := time.Now()
	t := &claudeTurn{claude: c, ongoing: c.turns.begin(), observe: observe, fold: newSDKFold()}
	defer c.turns.end()
	t.catchUp()
	err := t.run(ctx, safeText(request.Prompt))
	result, failure := t.result()
	result.Duration = time.Since(begin)
	result.SessionID = c.SessionID()
	switch {
	case ctx.Err() != nil && err != nil:
		return result, context.Cause(ctx)
	case t.isInterrupted() && (err != nil || failure != nil):
		return result, ErrInterrupted
	case err != nil:
		return result, err
	}
	return result, failure
}

// errNotStarted is the error of a turn without a program to run it.
var errNotStarted = fmt.Errorf("%w: the driver was not started, or was stopped", ErrUnavailable)

// running returns the program, and starts it where it does not run.
func (c *Claude) running(ctx context.Context) (*claudeProcess, error) {
	ctx, leave, err := c.life.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	c.mu.Lock()
	p, session := c.process, c.session
	c.mu.Unlock()
	if p != nil && !p.hasEnded() {
		return p, nil
	}
	p, err = c.launch(ctx, session)
	if errors.Is(err, ErrUnknownSession) && c.forget() {
		p, err = c.launch(ctx, "")
	}
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.process = p // to be stopped, also if that is to be now
	return p, nil
}

// adopt remembers the session that the program says it is in.
func (c *Claude) adopt(session string, established bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if session != "" {
		c.session = session
		c.established = c.established || established
	}
}

// forget gives a session up of which the program has kept nothing yet. It
// reports false if that is another one.
func (c *Claude) forget() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.established {
		c.session = ""
	}
	return !c.established
}

// Interrupt asks the program to end the running turn. One that does not within
// some seconds is stopped; the session goes on with the next turn.
func (c *Claude) Interrupt(context.Context) error {
	c.turns.interrupt()
	return nil
}

// SessionID returns the id of the session, "" before the first turn of a new
// one.
func (c *Claude) SessionID() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.session
}

// Stop has the program end, in stages: its input ends, then SIGTERM, then
// SIGKILL. A turn that is running fails.
func (c *Claude) Stop(ctx context.Context) error {
	c.life.end()
	c.mu.Lock()
	p := c.process
	c.process = nil
	c.mu.Unlock()
	if p == nil {
		return nil
	}
	return p.finish(ctx)
}
