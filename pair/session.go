package pair

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/oacp-go/oacp/agent"
	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/internal/exclusive"
	"github.com/oacp-go/oacp/internal/failure"
)

// Options configure a session.
type Options struct {
	// NewDriver returns the driver of an agent that works in dir. The driver continues the session if
	// there is one.
	NewDriver func(name Agent, dir, session string) agent.Driver
	// Observe, if not nil, receives each entry after the transcript has it. It must not call the
	// session.
	Observe func(Entry)
	// Warn, if not nil, receives reports about repairs of the bridge log.
	Warn func(error)
	// Timeout bounds a call of Run, and ProofTimeout a proof command. Zero means the defaults.
	Timeout      time.Duration
	ProofTimeout time.Duration
	// Inherit says which variables proofs have.
	Inherit agent.Inherit
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

func (o *Options) fill() {
	o.Timeout = cmp.Or(o.Timeout, DefaultTimeout)
	o.ProofTimeout = cmp.Or(o.ProofTimeout, DefaultProofTimeout)
	if o.Now == nil {
		o.Now = time.Now
	}
}

// ErrTimeout reports that Run exceeded Options.Timeout. The run can be resumed.
var ErrTimeout = failure.New("timeout", "the session timed out", "")

// FailedError is returned if a run has failed.
type FailedError struct {
	Run    int
	Reason string
}

func (e *FailedError) Error() string { return fmt.Sprintf("run %d failed: %s", e.Run, e.Reason) }

// Session drives a run. A run has one session at a time, among all processes. A Session is not safe
// for concurrent use.
type Session struct {
	run        bridge.Run
	options    Options
	manifest   Manifest
	log        *bridge.Log
	transcript *os.File
	hold       *exclusive.Hold
	// spent is the usage of failed turns until the transcript has it.
	spent agent.Usage
	// mu guards manifest while turns run. Noting guards the transcript.
	mu, noting sync.Mutex
	// stopDelay is the constant, or 0 in tests without signals.
	stopDelay time.Duration
	drivers   agent.Pool
}

// Place returns the run's id and folder.
func (s *Session) Place() bridge.Run { return s.run }

// Manifest returns the state of the run.
func (s *Session) Manifest() Manifest { return s.manifest }

// SetMaxIterations changes the number of iterations after which the run fails. It returns an error if
// the run is over.
func (s *Session) SetMaxIterations(n int) error {
	if state := s.manifest.State; state.Final() {
		return fmt.Errorf("max_iterations: run %d is already %s", s.run.ID, state)
	}
	settings := s.manifest.settings()
	settings.MaxIterations = n
	if err := settings.check(); err != nil {
		return err
	}
	s.manifest.MaxIterations = n
	return s.save()
}

// Run drives the run until it is complete. If the run fails, Run returns a *FailedError. After any other
// error, Resume continues the run after its last step: the context's cause if the context ends,
// ErrTimeout, or an obstacle outside the run, such as a full disk or an agent that cannot be started.
func (s *Session) Run(ctx context.Context) (err error) {
	outer := ctx
	ctx = s.hold.Context(ctx)
	ctx, cancel := context.WithTimeoutCause(ctx, s.options.Timeout, fmt.Errorf("%w after %v", ErrTimeout, s.options.Timeout))
	defer cancel()
	begin, old := time.Now(), s.manifest.State.Final()
	err = s.noteStart()
	for err == nil && !s.manifest.State.Final() {
		if err = context.Cause(ctx); err == nil {
			err = s.step(ctx)
		}
	}
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		err = context.Cause(ctx)
	}
	err = errors.Join(err, s.drivers.Stop(context.WithoutCancel(outer)))
	summary := s.manifest.summarize(context.WithoutCancel(outer), old)
	if err == nil {
		summary.Worktree, err = s.finishWorktree(ctx)
	}
	end := Entry{
		Type: EntryEnd, State: s.manifest.State, Duration: time.Since(begin), Error: s.manifest.Error,
		Usage: s.spent, Summary: summary,
	}
	s.spent = agent.Usage{}
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

// step does the next step and saves that it is done.
func (s *Session) step(ctx context.Context) error {
	switch {
	case s.manifest.State == Init:
		return s.begin(ctx)
	case len(s.manifest.Round.open()) > 0:
		return s.runTurns(ctx)
	case s.manifest.needsProof():
		return s.prove(ctx)
	}
	return s.decide(ctx)
}

// Close releases the run. A second call does nothing.
func (s *Session) Close() error {
	err := s.drivers.Stop(context.Background())
	if s.log != nil {
		err = errors.Join(err, s.log.Close())
		s.log = nil
	}
	if s.transcript != nil {
		err = errors.Join(err, s.transcript.Sync(), s.transcript.Close())
		s.transcript = nil
	}
	if s.hold != nil {
		err = errors.Join(err, s.hold.Release())
		s.hold = nil
	}
	return err
}

func (s *Session) save() error {
	s.manifest.UpdatedAt = s.options.Now().UTC()
	return s.run.WriteManifest(&s.manifest)
}

// moveTo changes the state, and notes that once it is on disk.
func (s *Session) moveTo(next State) error {
	state, err := s.manifest.State.to(next)
	if err != nil {
		return err
	}
	s.manifest.State = state
	entry := Entry{Type: EntryState, State: next, Error: s.manifest.Error}
	if next == Failed {
		entry.Content = s.manifest.Round.proofOutput()
	}
	if next.Final() {
		now := s.options.Now().UTC()
		s.manifest.CompletedAt, s.manifest.Round = &now, nil
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
