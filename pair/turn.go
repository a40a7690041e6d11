package pair

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/oacp-go/oacp/agent"
	"github.com/oacp-go/oacp/bridge"
)

// user is the sender of the task in the bridge.
const user = "user"

// begin starts the agents and sends the task. The first turns also get the records that the log has
// already.
func (s *Session) begin(ctx context.Context) error {
	m := &s.manifest
	if m.WorktreePath != "" {
		if err := s.beginWorktree(ctx); err != nil {
			return err
		}
	}
	for _, name := range m.settings().agents() {
		driver, err := s.driver(ctx, name)
		if err == nil {
			err = s.drivers.Keep(ctx, string(name), driver)
		}
		var fault *agentFault
		switch {
		case errors.As(err, &fault) && ctx.Err() == nil:
			return s.fail(fmt.Sprintf("%s: %v", name, err))
		case err != nil:
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	task, err := s.publish(ctx, *m.Cursors.at(Agent(m.PrimaryAgent)), bridge.Record{
		Type: bridge.TypeTask, From: user, To: m.PrimaryAgent, Content: m.Prompt,
	})
	if err != nil {
		return err
	}
	m.TaskRecord = task
	m.CurrentIteration = 1
	m.Round = newRound(Agent(m.PrimaryAgent))
	if err := s.moveTo(Working); err != nil {
		return err
	}
	return s.note(Entry{Type: EntryIteration})
}

// An attempt is one try at a turn, and its outcome.
type attempt struct {
	turn *Turn
	// messages are the bridge records in the prompt. Cursor is the place after them.
	messages []bridge.Record
	cursor   bridge.Cursor
	// repeated reports that the agent may have received the prompt before.
	repeated bool

	result agent.Result
	err    error
}

// runTurns runs the turns of the round that have no answer, all at the same time, and saves each
// answer as it comes. If a turn fails, runTurns stops the others.
func (s *Session) runTurns(ctx context.Context) error {
	var attempts []*attempt
	for _, turn := range s.manifest.Round.open() {
		a, err := s.prepare(ctx, turn)
		if err != nil {
			return err
		}
		attempts = append(attempts, a)
	}
	together, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	finished := make(chan *attempt)
	for _, a := range attempts {
		go func() {
			a.result, a.err = s.execute(together, a)
			if errors.Is(a.err, agent.ErrUnknownSession) {
				s.forgetSession(a.turn.Agent)
				a.result, a.err = s.execute(together, a)
			}
			finished <- a
		}()
	}
	var failed error
	for range attempts {
		a := <-finished
		err := a.err
		if err == nil {
			err = s.answered(ctx, a)
		} else {
			s.mu.Lock()
			s.spent = s.spent.Plus(a.result.Usage)
			s.manifest.Spent.Usage = s.manifest.Spent.Plus(a.result.Usage)
			s.mu.Unlock()
			err = fmt.Errorf("%s: %w", a.turn.Agent, err)
		}
		if err != nil && failed == nil {
			failed = err
			cancel(err)
		}
	}
	var fault *agentFault
	switch {
	case failed == nil:
		return nil
	case errors.As(failed, &fault) && ctx.Err() == nil:
		return s.fail(failed.Error())
	case ctx.Err() != nil:
		failed = context.Cause(ctx)
	}
	return errors.Join(failed, s.save())
}

// agentFault is an error that is the fault of the agent or its task, so that the run fails.
type agentFault struct{ error }

func (f *agentFault) Unwrap() error { return f.error }

// isFault reports whether an error of an agent is its fault. It is not if the agent cannot be reached
// now or has lost its session.
func isFault(err error) bool {
	return err != nil && !errors.Is(err, agent.ErrUnavailable) && !errors.Is(err, agent.ErrUnknownSession)
}

// prepare returns an attempt at a turn, after saving that the turn has begun.
func (s *Session) prepare(ctx context.Context, turn *Turn) (*attempt, error) {
	a := &attempt{turn: turn, repeated: turn.Begun}
	if err := s.drain(ctx, a); err != nil || turn.Begun {
		return a, err
	}
	var err error
	if turn.Since, err = s.log.End(ctx); err != nil {
		return nil, err
	}
	turn.Begun = true
	return a, s.save()
}

// answered saves the answer of a turn.
func (s *Session) answered(ctx context.Context, a *attempt) error {
	answer, err := s.answer(ctx, a)
	if err != nil {
		return err
	}
	m, name := &s.manifest, a.turn.Agent
	s.mu.Lock()
	a.turn.Answer = answer
	*m.Cursors.at(name) = a.cursor
	m.Spent.Turns++
	m.Spent.Duration += a.result.Duration
	m.Spent.Usage = m.Spent.Plus(a.result.Usage)
	err = s.save()
	s.mu.Unlock()
	if err != nil {
		return err
	}
	entry := Entry{
		Type: EntryResult, Agent: name, Content: a.result.Text,
		Duration: a.result.Duration, Usage: a.result.Usage, Refused: a.result.Refused,
	}
	for _, entry := range append([]Entry{entry}, m.verdict(name, answer)...) {
		err = errors.Join(err, s.note(entry))
	}
	return err
}

// drain adds the new bridge records for the agent to an attempt. It omits the task, which is in every
// prompt.
func (s *Session) drain(ctx context.Context, a *attempt) error {
	name := a.turn.Agent
	a.cursor = *s.manifest.Cursors.at(name)
	return s.eachRecord(ctx, a.cursor, func(entry bridge.Entry) {
		if !entry.IsFor(string(name)) && !s.manifest.isOwnReview(entry.Record, name) {
			return
		}
		a.cursor = entry.Cursor()
		if entry.ID != s.manifest.TaskRecord {
			a.messages = append(a.messages, entry.Record)
		}
	})
}

// eachRecord calls f for the records of the bridge after a cursor. It skips bad lines, which other
// programs may write and oacp bridge reports.
func (s *Session) eachRecord(ctx context.Context, after bridge.Cursor, f func(bridge.Entry)) error {
	for entry, err := range s.log.Records(ctx, after) {
		var bad *bridge.LineError
		switch {
		case err == nil:
			f(entry)
		case !errors.As(err, &bad):
			return fmt.Errorf("reading the bridge: %w", err)
		}
	}
	return nil
}

// isOwnReview reports whether an agent that reviews its own work wrote the record in its other role
// and needs it in the current one.
func (m *Manifest) isOwnReview(r bridge.Record, name Agent) bool {
	other := bridge.TypeReview
	if m.State == Reviewing {
		other = bridge.TypeResult
	}
	return r.From == string(name) && r.Type == other && r.Iteration > 0 && !isMail(r)
}

// execute runs the agent's turn, and restarts an agent that dies once. It notes each event before it
// takes the next, and stops the turn if noting fails. Turns of a round call it at the same time.
func (s *Session) execute(ctx context.Context, a *attempt) (result agent.Result, err error) {
	name := a.turn.Agent
	driver, err := s.driver(ctx, name)
	if err != nil {
		return result, err
	}
	defer func() {
		if err == nil {
			err = s.drivers.Keep(ctx, string(name), driver)
		} else {
			err = errors.Join(err, driver.Stop(context.WithoutCancel(ctx)))
		}
	}()
	s.mu.Lock()
	text := s.manifest.promptOf(a)
	s.mu.Unlock()
	if err := s.note(Entry{Type: EntryExecute, Agent: name, State: s.manifest.State, Content: text}); err != nil {
		return result, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var unwritten error
	shown := events{session: s, agent: name}
	observe := func(e agent.Event) {
		if err := errors.Join(s.keepSession(name, driver.SessionID()), shown.note(e)); err != nil && unwritten == nil {
			unwritten = err
			cancel(err)
		}
	}
	restarting := func(first agent.Result, died error) error {
		if stopComes(ctx, s.stopDelay) {
			return died
		}
		unwritten = s.note(Entry{Type: EntryRestart, Agent: name, Error: first.Explain(died)})
		return unwritten
	}
	result, err = agent.RunTurn(ctx, driver, agent.Request{Prompt: text, Env: s.manifest.environment(name, s.run.BridgePath())}, observe, restarting)
	switch {
	case unwritten != nil:
		err = unwritten
	case err != nil && stopComes(ctx, s.stopDelay):
		err = context.Cause(ctx)
	case isFault(err):
		err = &agentFault{errors.New(result.Explain(err))}
	}
	return result, errors.Join(err, s.keepSession(name, result.SessionID))
}

// driver returns the agent's driver, started.
func (s *Session) driver(ctx context.Context, name Agent) (agent.Driver, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.manifest.checkFolder(); err != nil {
		return nil, err
	}
	driver, err := s.drivers.Get(ctx, string(name), *s.manifest.session(name), true)
	if isFault(err) {
		err = &agentFault{err}
	}
	return driver, err
}

// stopDelay is how much later than its child processes this process may receive a stop signal. At a
// shutdown, all processes receive one at about the same time.
const stopDelay = 250 * time.Millisecond

// stopComes reports whether the context ends within the delay. Callers ask before they blame a process
// that failed.
func stopComes(ctx context.Context, delay time.Duration) bool {
	select {
	case <-ctx.Done():
		return true
	case <-time.After(delay):
		return false
	}
}

// keepSession saves the agent's session as soon as it has one, so that a kill during the first turn
// does not lose it.
func (s *Session) keepSession(name Agent, id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.manifest.session(name)
	if id == "" || id == *known {
		return nil
	}
	*known = id
	return s.save()
}

// forgetSession lets the agent's next turn begin a new session.
func (s *Session) forgetSession(name Agent) {
	s.mu.Lock()
	defer s.mu.Unlock()
	*s.manifest.session(name) = ""
}

// environment returns the variables that describe the turn to the agent's process.
func (m *Manifest) environment(name Agent, log string) []string {
	role := "worker"
	if m.State == Reviewing {
		role = "reviewer"
	}
	return []string{
		"OACP_AGENT=" + string(name),
		"OACP_ROLE=" + role,
		"OACP_RUN_ID=" + strconv.Itoa(m.ID),
		"OACP_ITERATION=" + strconv.Itoa(m.CurrentIteration),
		"OACP_BRIDGE=" + log,
	}
}
