package pair

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/oacp-go/oacp/agent"
	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/internal/exclusive"
)

// Options are what a session needs besides its run.
type Options struct {
	// NewDriver makes the driver of an agent that works in a folder, and
	// continues a session where it is not empty.
	NewDriver func(name Agent, dir, session string) agent.Driver
	// Exchange, if not nil, is called before the bridge is drained for a turn
	// and when the session ends. It is the place to carry messages between the
	// bridge and elsewhere.
	Exchange func(ctx context.Context) error
	// Acknowledge, if not nil, is told which records of the bridge an agent was
	// given in turns that it ended, after the Exchange that follows. It may be
	// told the same records again.
	Acknowledge func(ctx context.Context, name Agent, records []bridge.Record) error
	// Observe, if not nil, is told each entry when the transcript has it. It
	// must not call the session.
	Observe func(Entry)
	// Warn, if not nil, is told what the bridge log had to repair.
	Warn func(error)
	// Timeout bounds a call of Run, and ProofTimeout a proof command. Zero
	// means the defaults.
	Timeout      time.Duration
	ProofTimeout time.Duration
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

func (o *Options) fill() {
	if o.Timeout <= 0 {
		o.Timeout = DefaultTimeout
	}
	if o.ProofTimeout <= 0 {
		o.ProofTimeout = DefaultProofTimeout
	}
	if o.Now == nil {
		o.Now = time.Now
	}
}

// ErrTimeout says that a session took longer than it may. Its run can be
// resumed.
var ErrTimeout = errors.New("the session took longer than it may")

// FailedError says that a run has failed.
type FailedError struct {
	Run    int
	Reason string
}

// Error names the run and says why.
func (e *FailedError) Error() string { return fmt.Sprintf("run %d failed: %s", e.Run, e.Reason) }

// A Session drives a run. There is one for a run at a time, among all
// processes. It is not for use by several goroutines.
type Session struct {
	run        bridge.Run
	options    Options
	manifest   Manifest
	log        *bridge.Log
	transcript *transcript
	hold       *exclusive.Hold
	// spent is what the agent told to have used up in a turn that failed, as
	// long as the transcript does not say so.
	spent *agent.Usage
	// stopDelay is stopDelay, but in tests in which no stop comes.
	stopDelay time.Duration
	drivers   map[Agent]agent.Driver
}

// Place is the run's place among the others.
func (s *Session) Place() bridge.Run { return s.run }

// Log is the run's bridge log, which is open as long as the session.
func (s *Session) Log() *bridge.Log { return s.log }

// Manifest tells where the run stands.
func (s *Session) Manifest() Manifest { return s.manifest }

// SetMaxIterations changes how long a run may go on, unless it is over.
func (s *Session) SetMaxIterations(most int) error {
	if state := s.manifest.State; state.Final() {
		return fmt.Errorf("max_iterations: run %d is %s, and a run that is over stays over", s.run.ID, state)
	}
	settings := s.manifest.settings()
	settings.MaxIterations = most
	if err := settings.check(); err != nil {
		return err
	}
	s.manifest.MaxIterations = most
	return s.save()
}

// Run drives the run until it is complete, which is no error, or has failed,
// which is a *FailedError. If the context ends first the error is its cause,
// and if something outside the run stands in the way, such as a full disk or
// an agent that cannot be started, it is that: then the run is as it was after
// its last step, and can be resumed.
func (s *Session) Run(ctx context.Context) (err error) {
	outer := ctx
	ctx = s.hold.Context(ctx)
	ctx, cancel := context.WithTimeoutCause(ctx, s.options.Timeout, fmt.Errorf("%w: %v", ErrTimeout, s.options.Timeout))
	defer cancel()
	begin := time.Now()
	for err == nil && !s.manifest.State.Final() {
		if err = context.Cause(ctx); err == nil {
			err = s.step(ctx)
		}
	}
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		err = context.Cause(ctx)
	}
	err = errors.Join(err, s.stopDrivers(context.WithoutCancel(outer)))
	if err == nil {
		err = s.finish(ctx)
	}
	end := Entry{Type: EntryEnd, State: s.manifest.State, Duration: time.Since(begin), Error: s.manifest.Error, Usage: s.spent}
	s.spent = nil
	if err != nil {
		noted := s.note(Entry{Type: EntryError, Error: err.Error()})
		end.Error = err.Error()
		return errors.Join(err, noted, s.note(end))
	}
	if err := s.note(end); err != nil {
		return err
	}
	if s.manifest.State == Failed {
		return &FailedError{Run: s.run.ID, Reason: s.manifest.Error}
	}
	return nil
}

// step does what comes next and writes down that it is done.
func (s *Session) step(ctx context.Context) error {
	switch {
	case s.manifest.State == Init:
		return s.begin(ctx)
	case s.manifest.Turn.Answer == nil:
		return s.takeTurn(ctx)
	case s.needsProof():
		return s.prove(ctx)
	}
	return s.decide(ctx)
}

// finish does what is left when a run is over.
func (s *Session) finish(ctx context.Context) error {
	if err := s.exchange(ctx); err != nil {
		return err
	}
	if s.manifest.WorktreePath == "" {
		return nil
	}
	kept, err := tidyWorktree(ctx, &s.manifest)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		// What the run came to stands, whatever has become of the worktree.
		kept = fmt.Sprintf("the worktree %s could not be removed and is kept: %v", s.manifest.WorktreePath, err)
		return s.note(Entry{Type: EntryNotice, Content: kept})
	case kept != "":
		return s.note(Entry{Type: EntryNotice, Content: kept + " holds changes and is kept"})
	}
	s.manifest.WorktreePath = ""
	return s.save()
}

// Close lets go of the run. It may be called more than once.
func (s *Session) Close() error {
	err := s.stopDrivers(context.Background())
	if s.log != nil {
		err = errors.Join(err, s.log.Close())
	}
	if s.transcript != nil {
		err = errors.Join(err, s.transcript.close())
		s.transcript = nil
	}
	if s.hold != nil {
		err = errors.Join(err, s.hold.Release())
		s.hold = nil
	}
	return err
}

// save writes the manifest down.
func (s *Session) save() error {
	s.manifest.UpdatedAt = s.options.Now().UTC()
	return s.manifest.write(s.run)
}

// moveTo changes the state and says so in the transcript once it is on disk.
func (s *Session) moveTo(next State) error {
	state, err := s.manifest.State.To(next)
	if err != nil {
		return err
	}
	s.manifest.State = state
	entry := Entry{Type: EntryState, State: next, Error: s.manifest.Error}
	if next == Failed {
		entry.Content = s.manifest.Turn.lastWords()
	}
	if next.Final() {
		now := s.options.Now().UTC()
		s.manifest.CompletedAt, s.manifest.Turn = &now, nil
	}
	if err := s.save(); err != nil {
		return err
	}
	return s.note(entry)
}

// fail ends the run.
func (s *Session) fail(reason string) error {
	s.manifest.Error = reason
	return s.moveTo(Failed)
}

// note puts an entry into the transcript and tells the observer.
func (s *Session) note(e Entry) error {
	e.Timestamp, e.RunID, e.Iteration = s.options.Now().UTC(), s.run.ID, s.manifest.CurrentIteration
	if err := s.transcript.append(e); err != nil {
		return err
	}
	if s.options.Observe != nil {
		s.options.Observe(e)
	}
	return nil
}
