package agent

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A resident is a driver whose program lives on between turns and speaks a protocol of its own:
// what the drivers of claude and codex share.
//
// A program that ended is started again, in its session, by the next turn. Variables of a request
// cannot reach a program that runs already, so the driver ignores them. An interrupt that comes
// after the turn has ended well changes nothing. Failures of the model's service are *APIErrors; if
// the context ends while the program waits for the service, the error is one, too.
type resident struct {
	options Options
	release release
	// launch starts the program in a session, or in a new one if that is empty.
	launch func(ctx context.Context, session string) (process, error)
	// patience is how long the program may take to heed an interrupt.
	patience time.Duration
	turns    turnSlot
	// launching is held while the program is started.
	launching sync.Mutex

	mu sync.Mutex
	// life lasts from Start to Stop. A program that is still starting at its end is given up.
	life    context.Context
	end     context.CancelFunc
	path    string
	process process
	session string
	// established reports that the session outlives a program that dies: it was there before, or a
	// turn of it has ended.
	established bool
}

// A process is a running program. Most of its methods are those of a child.
type process interface {
	done() <-chan struct{}
	hasEnded() bool
	finish(context.Context) error
	stop(context.Context) error
	// begin gives the program the prompt of a turn.
	begin(t *residentTurn) exchange
	// endError says why the program ended in the middle of a turn.
	endError() error
}

// An exchange is a turn in the terms of a program's protocol.
type exchange interface {
	// take handles what the program said and reports whether the turn is over.
	take(said) bool
	// accepted reports whether the program has taken the prompt.
	accepted() bool
	// interrupt asks the program to end the turn.
	interrupt()
	// result returns what the turn came to, and an error if the program says that it failed.
	result() (Result, error)
}

// A residentTurn is a turn of a resident.
type residentTurn struct {
	*ongoing
	driver  *resident
	request Request
	observe func(Event)
	retries serviceRetries
	// hopeless is why the program must be stopped in the middle of the turn.
	hopeless error
}

// retry adds to an event that the program asks the model's service again, unless that is hopeless.
func (t *residentTurn) retry(event *Event, failure *APIError) {
	act, err := t.retries.next(failure)
	if err != nil {
		t.hopeless = err
		return
	}
	event.Acts, event.Error = []Act{act}, true
	if event.Text == "" {
		event.Text = act.Text + "\n"
	}
}

func (t *residentTurn) show(e Event) {
	if e.Text != "" && !e.Error || len(e.Acts) > 0 && e.Acts[0].Kind == ToolCall {
		t.retries.failing = nil
	}
	if t.observe != nil {
		t.observe(e)
	}
}

// interruptGrace is how long an agent may take to heed an interrupt.
const interruptGrace = 5 * time.Second

func newResident(options Options, release release) resident {
	if len(options.Command) == 0 {
		options.Command = []string{release.program}
	}
	life, end := context.WithCancel(context.Background())
	end()
	return resident{
		options: options, release: release, patience: interruptGrace, life: life, end: end,
		session: options.Session, established: options.Session != "",
	}
}

// Start starts the program and checks that it understands the driver, is recent enough and is
// logged in.
func (r *resident) Start(ctx context.Context) error {
	path, err := findProgram(r.options.Dir, r.options.Command[0])
	if err != nil {
		return fmt.Errorf("%w; %s", err, r.release.install)
	}
	err = errors.Join(checkFolder(r.options.Dir), checkServers(r.options.MCP), checkSession(r.options.Session))
	if err != nil {
		return err
	}
	r.mu.Lock()
	r.path = path
	r.life, r.end = context.WithCancel(context.Background())
	r.mu.Unlock()
	_, err = r.running(ctx)
	return err
}

// errNotStarted is the error of a turn without a program to run it.
var errNotStarted = fmt.Errorf("%w: the driver was not started, or was stopped", ErrUnavailable)

// Turn runs one turn.
func (r *resident) Turn(ctx context.Context, request Request, observe func(Event)) (Result, error) {
	begin := time.Now()
	request.Prompt = safeText(request.Prompt)
	t := &residentTurn{
		ongoing: r.turns.begin(), driver: r, request: request, observe: observe,
		retries: serviceRetries{program: r.release.program},
	}
	defer r.turns.end()
	result, err := t.run(ctx)
	result.Duration = time.Since(begin)
	result.SessionID = r.SessionID()
	switch {
	case err != nil && ctx.Err() != nil:
		return result, errors.Join(context.Cause(ctx), t.retries.failing)
	case err != nil && t.isInterrupted():
		return result, ErrInterrupted
	}
	return result, err
}

func (t *residentTurn) run(ctx context.Context) (Result, error) {
	starting, done := endingWith(ctx, t.interrupted, ErrInterrupted)
	p, err := t.driver.running(starting)
	done()
	if err != nil {
		return Result{}, err
	}
	e := p.begin(t)
	broken := t.follow(ctx, p, e)
	result, err := e.result()
	if broken != nil {
		err = broken
	}
	return result, err
}

// follow handles what the program says until the turn ends.
func (t *residentTurn) follow(ctx context.Context, p process, e exchange) error {
	interrupted := t.interrupted.Done()
	asked := true
	var overdue <-chan time.Time
	for {
		if !asked && e.accepted() { // before that, there may be nothing to interrupt
			e.interrupt()
			asked = true
		}
		select {
		case s := <-t.said:
			if e.take(s) {
				return nil
			}
			if t.hopeless != nil {
				return t.halt(ctx, p, t.hopeless)
			}
		case <-p.done():
			err := p.endError()
			var died *DiedError
			if errors.As(err, &died) {
				died.accepted = e.accepted()
			}
			return err
		case <-interrupted:
			interrupted, asked, overdue = nil, false, time.After(t.driver.patience)
		case <-overdue:
			return t.halt(ctx, p, ErrInterrupted)
		case <-ctx.Done():
			return t.halt(ctx, p, context.Cause(ctx))
		}
	}
}

// halt stops the program. The next turn starts it again.
func (t *residentTurn) halt(ctx context.Context, p process, cause error) error {
	t.driver.turns.end()
	return errors.Join(cause, p.stop(context.WithoutCancel(ctx)))
}

// denial returns why the program may not do what it asks permission for, "" if it may. Trusted
// reports that the request is about a tool of one of our MCP servers; command is what it would give
// to a shell, "" for other tools.
func (t *residentTurn) denial(trusted bool, command string) string {
	options := &t.driver.options
	switch {
	case t.isInterrupted():
		return "the turn is being ended"
	case trusted || options.Allow == PermitAll:
		return ""
	case command != "" && slices.Contains(options.MayRun, strings.TrimSpace(command)):
		return ""
	}
	return unattended
}

// unattended denies what nobody is there to allow.
const unattended = "nobody is there to allow this: the session runs unattended, and only what its permissions allow beforehand can be done"

// running returns the program, and starts it if it does not run.
func (r *resident) running(ctx context.Context) (process, error) {
	r.launching.Lock()
	defer r.launching.Unlock()
	r.mu.Lock()
	life, p, session, established := r.life, r.process, r.session, r.established
	r.mu.Unlock()
	switch {
	case life.Err() != nil:
		return nil, errNotStarted
	case p != nil && !p.hasEnded():
		return p, nil
	}
	ctx, release := endingWith(ctx, life, errNotStarted)
	defer release()
	p, err := r.launch(ctx, session)
	if errors.Is(err, ErrUnknownSession) && !established {
		r.adopt("", false)
		p, err = r.launch(ctx, "") // the program has kept nothing of the session yet
	}
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.process = p
	return p, nil
}

// programPath returns the path that Start found.
func (r *resident) programPath() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.path
}

// adopt remembers the session that the program is in.
func (r *resident) adopt(session string, established bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.session = session
	r.established = r.established || established
}

// Interrupt asks the program to end the running turn. If it does not within some seconds, the
// driver stops it; the session goes on with the next turn.
func (r *resident) Interrupt(context.Context) error {
	r.turns.interrupt()
	return nil
}

// SessionID returns the id of the session, "" before the first turn of a new one.
func (r *resident) SessionID() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.session
}

// Stop ends the program in stages: it closes the program's input, then sends SIGTERM, then SIGKILL.
// A running turn fails.
func (r *resident) Stop(ctx context.Context) error {
	r.mu.Lock()
	r.end()
	r.mu.Unlock()
	r.launching.Lock()
	defer r.launching.Unlock()
	r.mu.Lock()
	p := r.process
	r.process = nil
	r.mu.Unlock()
	if p == nil {
		return nil
	}
	return p.finish(ctx)
}

// version is the number of a release: major, minor, patch.
type version [3]int

func (v version) String() string { return fmt.Sprintf("%d.%d.%d", v[0], v[1], v[2]) }

func (v version) before(other version) bool { return slices.Compare(v[:], other[:]) < 0 }

var versionPattern = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`\b(\d{1,6})\.(\d{1,6})\.(\d{1,6})`)
})

// parseVersion finds a version in what a program says about itself.
func parseVersion(text string) (version, bool) {
	match := versionPattern().FindStringSubmatch(text)
	if match == nil {
		return version{}, false
	}
	var v version
	for i := range v {
		v[i], _ = strconv.Atoi(match[i+1]) // the pattern matches only short numbers
	}
	return v, true
}

// A release says which releases of a program a driver works with.
type release struct {
	program string
	oldest  version
	// install and login tell people how to install the program and how to log in.
	install, login string
}

// check returns an error if a program that tells its version is too old.
func (r *release) check(told string) error {
	if v, ok := parseVersion(told); ok && v != (version{}) && v.before(r.oldest) { // zero was built from source
		return fmt.Errorf("%w: this is %s %v, and %s", ErrUnavailable, r.program, v, r.needed())
	}
	return nil
}

func (r *release) needed() string {
	return fmt.Sprintf("at least %v is needed; %s@latest", r.oldest, r.install)
}

// notStarted says why a program ended instead of answering. Releases that are too old do not know
// the driver's protocol.
func (r *release) notStarted(err error, said string) error {
	return fmt.Errorf("%w: %s did not start: %w: %s; %s", ErrUnavailable, r.program, err, reason(said), r.needed())
}
