package agent

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// A resident is a driver whose program lives on between turns and speaks a protocol of its own:
// the drivers of claude and codex.
//
// A program that ended is started again, in its session, by the next turn. Variables of a request
// cannot reach a program that runs already, so the driver ignores them. An interrupt that comes
// after the turn has ended well changes nothing. Failures of the model's service are *APIErrors, and so is
// the error if the context ends while the program waits for the service.
type resident struct {
	options Options
	release release
	// newProtocol returns the protocol for a run of the program.
	newProtocol func(*resident) protocol
	// patience is how long the program may take to heed an interrupt.
	patience time.Duration
	// path is the program that Start found, "" if the driver is not started.
	path    string
	running atomic.Pointer[program]
	session string
	// established reports that the session outlives a program that dies: it was there before, or a
	// turn of it has ended.
	established bool
}

// A protocol is what the driver says to a running program, and what it makes of the answers. The
// methods after start are called with the program's lock.
type protocol interface {
	base() *program
	// start starts the program in a session, or in a new one if that is empty.
	start(ctx context.Context, session string) error
	// begin gives the program the prompt of a turn.
	begin(t *residentTurn)
	// interrupt asks the program to end the turn.
	interrupt()
	// receive handles a line of output. The turn is nil between turns.
	receive(t *residentTurn, line []byte)
	// result returns the outcome of a turn that is over, and an error if the program reports that it failed.
	result(t *residentTurn) (Result, error)
	// died says why the program ended on its own. The lock is not held.
	died() error
}

// A program is a running program of a resident.
type program struct {
	*child
	protocol protocol
	driver   *resident
	// answer receives the answer to a call.
	answer chan []byte
	// noise is the output of the program that is not messages.
	noise *output
	// turn is the running turn, nil if there is none. The child's lock guards it.
	turn *residentTurn
}

func newProgram(r *resident, protocol protocol) *program {
	p := &program{protocol: protocol, driver: r, answer: make(chan []byte, 1), noise: newOutput(nil)}
	p.child = newChild(r.options.Grace, func(line []byte, isError bool) {
		if isError {
			p.note(line, true)
		} else {
			protocol.receive(p.turn, line)
		}
	})
	return p
}

func (p *program) base() *program { return p }

// call sends a request and waits for its answer.
func (p *program) call(ctx context.Context, request []byte) ([]byte, error) {
	p.send(request)
	select {
	case answer := <-p.answer:
		return answer, nil
	case <-p.ended:
		return nil, p.death()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// note records a line of the output, or of the error output, that is not a message. Programs that fail
// may say why in one.
func (p *program) note(line []byte, isError bool) {
	text := safeText(string(line)) + "\n"
	_, _ = p.noise.stream(isError).Write([]byte(text)) // never fails
	if p.turn != nil {
		p.turn.said.addStderr(text)
		p.turn.show(Event{Text: text, Error: true})
	}
}

// end ends the turn, if it is not over yet.
func (p *program) end(t *residentTurn, cause error) {
	if p.turn != t {
		return
	}
	p.turn = nil
	result, err := p.protocol.result(t)
	if cause != nil {
		err = cause
	}
	t.result, t.err = result, err
	close(t.over)
}

// lastWords returns the last line that is not a message, on the error output if there is any.
func (p *program) lastWords() string { return p.noise.result().LastLine }

// locked calls f with the lock.
func (p *program) locked(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
}

// A residentTurn is a turn of a resident.
type residentTurn struct {
	program *program
	prompt  string
	partial bool
	observe func(Event)
	said    *output
	// accepted reports that the program has taken the prompt. Before that, there may be nothing to
	// interrupt.
	accepted, interrupted bool
	// rejected counts how often in a row the service rejected the login.
	rejected int
	// failing is the last failure of the model's service, nil once the agent goes on.
	failing error
	// hopeless reports that the program must be stopped.
	hopeless bool

	// over is closed when the result is there.
	over   chan struct{}
	result Result
	err    error
}

// accept notes that the program has taken the prompt.
func (t *residentTurn) accept() {
	if !t.accepted {
		t.accepted = true
		if t.interrupted {
			t.program.protocol.interrupt()
		}
	}
}

// retry adds to an event that the program asks the model's service again. A program renews a login
// that has expired, so the first rejection may be the last, but after the second nobody is there to
// log in: retry ends the turn and returns false.
func (t *residentTurn) retry(event *Event, failure *APIError) bool {
	t.failing = failure
	if failure.Kind != NotLoggedIn {
		t.rejected = 0
	} else if t.rejected++; t.rejected > 1 {
		t.hopeless = true
		t.program.end(t, failure)
		return false
	}
	act := Act{Retry, fmt.Sprintf("the model's service failed (%s); %s tries again", failure.brief(), t.program.driver.release.program)}
	event.Acts, event.Error = []Act{act}, true
	if event.Text == "" {
		event.Text = act.Text + "\n"
	}
	return true
}

func (t *residentTurn) show(e Event) {
	if e.Text != "" && !e.Error || len(e.Acts) > 0 && e.Acts[0].Kind == ToolCall {
		t.failing = nil
	}
	if t.observe != nil {
		t.observe(e)
	}
}

// interruptGrace is how long an agent may take to heed an interrupt.
const interruptGrace = 5 * time.Second

func newResident(options Options, release release, newProtocol func(*resident) protocol) *resident {
	if len(options.Command) == 0 {
		options.Command = []string{release.program}
	}
	return &resident{
		options: options, release: release, newProtocol: newProtocol, patience: interruptGrace,
		session: options.Session, established: options.Session != "",
	}
}

// Start starts the program and checks that it understands the driver and is logged in.
func (r *resident) Start(ctx context.Context) error {
	path, err := findProgram(r.options.Dir, r.options.Command)
	if _, missing := errors.AsType[*exec.Error](err); missing {
		return fmt.Errorf("%w; %s", err, r.release.install)
	}
	if err = errors.Join(err, checkSession(r.options.Session)); err != nil {
		return err
	}
	r.path = path
	_, err = r.run(ctx)
	return err
}

// Turn runs one turn.
func (r *resident) Turn(ctx context.Context, request Request, observe func(Event)) (Result, error) {
	begin := time.Now()
	t := &residentTurn{
		prompt: safeText(request.Prompt), partial: request.Partial, observe: observe,
		said: newOutput(nil), over: make(chan struct{}),
	}
	p, err := r.run(ctx)
	if err == nil {
		t.program = p
		err = t.follow(ctx)
	}
	t.result.Duration, t.result.SessionID = time.Since(begin), r.session
	if err != nil && ctx.Err() != nil {
		err = errors.Join(context.Cause(ctx), t.failing)
	}
	return t.result, err
}

// follow begins the turn and waits for its end. It stops a program that does not end it.
func (t *residentTurn) follow(ctx context.Context) error {
	p := t.program
	p.locked(func() {
		p.turn = t
		p.protocol.begin(t)
	})
	halt := func(cause error) {
		p.locked(func() {
			t.hopeless = true
			p.end(t, cause)
		})
	}
	stopping, ended := ctx.Done(), (<-chan struct{})(p.ended)
	var overdue <-chan time.Time
	for {
		select {
		case <-t.over:
			if t.hopeless {
				return errors.Join(t.err, p.stop(context.WithoutCancel(ctx)))
			}
			return t.err
		case <-ended:
			err := p.protocol.died()
			if death, ok := errors.AsType[*DiedError](err); ok {
				death.accepted = t.accepted
			}
			p.locked(func() { p.end(t, err) })
			ended = nil
		case <-stopping:
			stopping = nil
			if !errors.Is(context.Cause(ctx), ErrInterrupted) {
				halt(context.Cause(ctx))
				continue
			}
			overdue = time.After(p.driver.patience)
			p.locked(func() {
				t.interrupted = true
				if t.accepted && p.turn == t {
					p.protocol.interrupt()
				}
			})
		case <-overdue:
			halt(ErrInterrupted)
		}
	}
}

// unattended denies requests that only a person could allow.
const unattended = "nobody is there to allow this: the session runs unattended, and only what its permissions allow beforehand can be done"

// denial returns why the program may not do what it asks permission for, "" if it may. Trusted
// reports that the request is about a tool of one of our MCP servers; command is what it would give
// to a shell, "" for other tools.
func (p *program) denial(trusted bool, command string) string {
	options := &p.driver.options
	switch {
	case p.turn != nil && p.turn.interrupted:
		return "the turn is being ended"
	case trusted || options.Allow == PermitAll:
		return ""
	case command != "" && slices.Contains(options.MayRun, strings.TrimSpace(command)):
		return ""
	}
	return unattended
}

// run returns the running program, and starts it if it does not run.
func (r *resident) run(ctx context.Context) (*program, error) {
	if r.path == "" {
		return nil, errNotStarted
	}
	if p := r.running.Load(); p != nil && !p.hasEnded() {
		return p, nil
	}
	err := r.start(ctx, r.session)
	if errors.Is(err, ErrUnknownSession) && !r.established {
		r.session = ""
		err = r.start(ctx, "") // the program has kept nothing of the session yet
	}
	return r.running.Load(), err
}

// startLimit is how long a program may take to answer for the first time.
const startLimit = time.Minute

func (r *resident) start(ctx context.Context, session string) error {
	limited, cancel := context.WithTimeoutCause(ctx, startLimit,
		fmt.Errorf("%w: %s did not answer within %v", ErrUnavailable, r.release.program, startLimit))
	defer cancel()
	p := r.newProtocol(r).base()
	if err := p.protocol.start(limited, session); err != nil {
		return errors.Join(err, p.stop(ctx))
	}
	r.running.Store(p)
	return nil
}

// adopt remembers the session that the program is in.
func (r *resident) adopt(session string, established bool) {
	r.session = session
	r.established = r.established || established
}

// SessionID returns the id of the session, "" before the first turn of a new one.
func (r *resident) SessionID() string { return r.session }

// Stop ends the program in stages: it closes the program's input, then sends SIGTERM, then SIGKILL.
func (r *resident) Stop(ctx context.Context) error {
	r.path = ""
	p := r.running.Swap(nil)
	if p == nil {
		return nil
	}
	return p.finish(ctx)
}
