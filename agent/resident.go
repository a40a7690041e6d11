package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// A resident is a driver whose program keeps running between turns and speaks a protocol of its own:
// the driver of claude, codex or acp.
//
// If the program has ended, the next turn starts it again in its session. Variables of a request
// cannot reach a program that runs already, so the driver ignores them. Failures of the model's
// service are *APIErrors, and so is the error if the context ends while the program waits for the
// service.
type resident struct {
	options Options
	release release
	// newProgram returns a program, which start starts, with its protocol.
	newProgram func(*resident) *program
	// path is the program that Start found, "" if the driver is not started.
	path    string
	running atomic.Pointer[program]
	session string
	// established reports that the session outlives the program, because it is an earlier one or has
	// finished a turn.
	established bool
}

// A protocol tells a running program what to do and interprets its output. The caller holds the
// program's lock, except for start and died.
type protocol interface {
	// start starts the program in a session, or in a new one if that is empty.
	start(ctx context.Context, session string) error
	// begin gives the program the prompt of a turn.
	begin(t *residentTurn)
	// receive handles a line of output. The turn is nil between turns.
	receive(t *residentTurn, line []byte)
	// result returns the outcome of a turn that is over, and an error if the program reports that it failed.
	result(t *residentTurn) (Result, error)
	// died returns why the program ended on its own.
	died() error
}

// An interrupter is a protocol in which a program can be asked to end a turn.
type interrupter interface{ interrupt() }

// A program is a running program of a resident.
type program struct {
	*child
	protocol protocol
	driver   *resident
	// answer receives the answer to a call.
	answer chan []byte
	// noise is the program's output other than messages.
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

// answerLimit is how long a program may take to answer a request. Tests change it.
var answerLimit = time.Minute

// call sends a request and waits for its answer, at most until answerLimit or the end of ctx.
func (p *program) call(ctx context.Context, request []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, answerLimit,
		fmt.Errorf("%w: %s did not answer within %v", ErrUnavailable, p.driver.release.program, answerLimit))
	defer cancel()
	p.send(request)
	select {
	case answer := <-p.answer:
		return answer, nil
	case <-p.ended:
		if ctx.Err() != nil { // the caller's end is why the program ended
			return nil, context.Cause(ctx)
		}
		return nil, p.death()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// note records a line of the output, or of the error output, that is not a message. It may say why the
// program fails.
func (p *program) note(line []byte, isError bool) {
	text := safeText(string(line)) + "\n"
	if isError {
		p.noise.addStderr(text)
	} else {
		p.noise.add(text)
	}
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
	images  []json.RawMessage
	observe func(Event)
	said    *output
	// accepted reports that the program has taken the prompt. Added is what Steer added to it.
	accepted bool
	added    string
	// rejected counts how often in a row the service rejected the login.
	rejected int
	// failing is the last failure of the model's service, nil once the agent continues.
	failing error
	// mustStop reports that the program must be stopped after the turn.
	mustStop bool

	// over is closed when the result is there.
	over   chan struct{}
	result Result
	err    error
}

// retry adds to an event that the program asks the model's service again. After one rejected login
// the program may renew it and succeed. After the second in a row only a person could help, so retry
// ends the turn and returns false.
func (t *residentTurn) retry(event *Event, failure *APIError) bool {
	t.failing = failure
	if failure.Kind != NotLoggedIn {
		t.rejected = 0
	} else if t.rejected++; t.rejected > 1 {
		t.mustStop = true
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

// A release names a program and the oldest release of it that the driver works with.
type release struct {
	program, oldest string
	// install and login say how to install the program and how to log in.
	install, login string
}

// notStarted returns the error for a program that ended instead of answering. It names the oldest
// release, because older ones do not know the driver's protocol.
func (r *release) notStarted(err error, said string) error {
	return fmt.Errorf("%w: %s did not start: %w: %s; at least %s is needed; %s@latest",
		ErrUnavailable, r.program, err, reason(said), r.oldest, r.install)
}

func newResident(options Options, release release, newProgram func(*resident) *program) *resident {
	if len(options.Command) == 0 {
		options.Command = []string{release.program}
	}
	return &resident{
		options: options, release: release, newProgram: newProgram,
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

func (r *resident) Turn(ctx context.Context, request Request, observe func(Event)) (Result, error) {
	begin := time.Now()
	t := &residentTurn{
		prompt: safeText(request.Prompt), images: request.Images, observe: observe,
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

// follow begins the turn and waits for its end. It stops the program if ctx ends first.
func (t *residentTurn) follow(ctx context.Context) error {
	p := t.program
	p.locked(func() {
		p.turn = t
		p.protocol.begin(t)
	})
	select {
	case <-t.over:
	case <-p.ended:
		err := p.protocol.died()
		p.locked(func() {
			if death, ok := errors.AsType[*DiedError](err); ok {
				death.accepted, death.added = t.accepted, t.added
			}
			p.end(t, err)
		})
	case <-ctx.Done():
		t.interrupt()
		p.locked(func() {
			t.mustStop = true
			p.end(t, context.Cause(ctx))
		})
	}
	<-t.over
	if t.mustStop {
		return errors.Join(t.err, p.stop(context.WithoutCancel(ctx)))
	}
	return t.err
}

// interrupt asks the program to end the turn, if it can be asked, and gives it time to do so.
func (t *residentTurn) interrupt() {
	p := t.program
	asked, ok := p.protocol.(interrupter)
	if !ok {
		return
	}
	p.locked(asked.interrupt)
	select {
	case <-t.over:
	case <-p.ended:
	case <-time.After(p.grace):
	}
}

// errNoSteering is the error of Steer if there is no turn, or the protocol has no way to add to it.
var errNoSteering = errors.New("the agent takes nothing more in this turn")

// Steer adds a text to the running turn.
func (r *resident) Steer(ctx context.Context, text string) error {
	p := r.running.Load()
	if p == nil {
		return errNoSteering
	}
	steerer, can := p.protocol.(Steerer)
	if !can {
		return errNoSteering
	}
	text = safeText(text)
	p.locked(func() { // first, so that the text is not lost if the program dies of it
		if p.turn != nil {
			p.turn.added += "\n\n" + text
		}
	})
	return steerer.Steer(ctx, text)
}

// unattended denies requests that only a person could allow.
const unattended = "nobody is there to allow this: the session runs unattended and can do only what its permissions allow"

// denial returns why the program may not use the tool that it asks for, "" if it may. Trusted reports
// that the tool belongs to one of the driver's MCP servers; command is what the tool would give to a
// shell, if anything.
func (p *program) denial(trusted bool, command string) string {
	options := &p.driver.options
	switch {
	case trusted || options.Allow == PermitAll:
		return ""
	case command != "" && slices.Contains(options.MayRun, strings.TrimSpace(command)):
		return ""
	}
	return unattended
}

// run returns the running program. It starts the program if necessary.
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

func (r *resident) start(ctx context.Context, session string) error {
	p := r.newProgram(r)
	if err := p.protocol.start(ctx, session); err != nil {
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
