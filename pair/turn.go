package pair

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/oacp-go/oacp/agent"
	"github.com/oacp-go/oacp/bridge"
)

// User is the sender of the task in the bridge.
const User = "user"

// begin starts the agents and sends the task. The first turns include what the log has already.
func (s *Session) begin(ctx context.Context) error {
	m := &s.manifest
	if m.WorktreePath != "" {
		if err := s.beginWorktree(ctx); err != nil {
			return err
		}
	}
	for _, name := range m.Agents() {
		driver, _, err := s.prepare(ctx, name, prompt{manifest: m, agent: name})
		if err == nil {
			err = s.rest(ctx, name, driver, nil)
		}
		switch {
		case err != nil && ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil && isOutside(ctx, err):
			return fmt.Errorf("%s: %w", name, err)
		case err != nil:
			return s.fail(fmt.Sprintf("%s: %v", name, err))
		}
	}
	if err := s.exchange(ctx); err != nil {
		return err
	}
	if m.Cursors == nil {
		// From the first record on: mail may arrive while the agents start.
		m.Cursors = map[Agent]bridge.Cursor{Claude: "", Codex: ""}
		m.Acknowledged = maps.Clone(m.Cursors)
		if err := s.save(); err != nil {
			return err
		}
	}
	task, err := s.publish(ctx, m.Cursors[Agent(m.PrimaryAgent)], bridge.Record{
		Type: bridge.TypeTask, From: User, To: m.PrimaryAgent, Content: m.Prompt,
	})
	if err != nil {
		return err
	}
	m.TaskRecord, m.CurrentIteration, m.Round = task, 1, newRound(Agent(m.PrimaryAgent))
	if err := s.moveTo(Working); err != nil {
		return err
	}
	return s.note(Entry{Type: EntryIteration})
}

// given is a turn that is given to its agent.
type given struct {
	turn   *Turn
	prompt prompt
	// cursor is the end of what the prompt holds of the bridge.
	cursor bridge.Cursor
}

// outcome is what a turn came to. Began is the end of the bridge log at the start of its last
// attempt.
type outcome struct {
	given
	result agent.Result
	began  bridge.Cursor
	err    error
}

// takeTurns gives the agents of the round that have not answered their turns, all at the same time,
// and saves each answer as it comes. If a turn fails, takeTurns stops the others.
func (s *Session) takeTurns(ctx context.Context) error {
	if err := s.exchange(ctx); err != nil {
		return err
	}
	var turns []given
	for _, turn := range s.manifest.Round.open() {
		g, err := s.give(ctx, turn)
		if err != nil {
			return err
		}
		turns = append(turns, g)
	}
	together, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	outcomes := make(chan outcome)
	for _, g := range turns {
		go func() {
			o := outcome{given: g}
			o.result, o.began, o.err = s.execute(together, g)
			if errors.Is(o.err, agent.ErrUnknownSession) {
				s.forgetSession(g.turn.Agent)
				o.result, o.began, o.err = s.execute(together, g)
			}
			outcomes <- o
		}()
	}
	var failed error
	for range turns {
		o := <-outcomes
		err := o.err
		if err == nil {
			err = s.answered(ctx, o)
		} else {
			err = s.turnFailed(together, o)
		}
		if err != nil && failed == nil {
			failed = err
			cancel(err)
		}
	}
	var fatal *fatalError
	if errors.As(failed, &fatal) {
		return s.fail(fatal.Error())
	}
	if failed != nil {
		return errors.Join(failed, s.save())
	}
	return nil
}

// fatalError is the reason for which a run fails.
type fatalError struct{ error }

// turnFailed counts what a turn used up that failed. It returns a *fatalError if the agent is to
// blame.
func (s *Session) turnFailed(ctx context.Context, o outcome) error {
	s.mu.Lock()
	s.spent = s.spent.Plus(o.result.Usage)
	s.manifest.Spent.Usage = s.manifest.Spent.Plus(o.result.Usage)
	s.mu.Unlock()
	switch {
	case ctx.Err() != nil:
		return o.err
	case isOutside(ctx, o.err):
		return fmt.Errorf("%s: %w", o.turn.Agent, o.err)
	}
	return &fatalError{fmt.Errorf("%s: %s", o.turn.Agent, why(o.err, o.result))}
}

// why returns an error with the line of the output that is most likely to explain it.
func why(err error, result agent.Result) string {
	text := err.Error()
	if result.LastLine == "" || strings.Contains(text, result.LastLine) {
		return text
	}
	return text + ": " + result.LastLine
}

// give prepares a turn, and saves that it has begun.
func (s *Session) give(ctx context.Context, turn *Turn) (given, error) {
	messages, cursor, err := s.drain(ctx, turn.Agent)
	if err != nil {
		return given{}, err
	}
	g := given{turn, prompt{manifest: &s.manifest, agent: turn.Agent, messages: messages, repeated: turn.Begun}, cursor}
	if turn.Begun {
		return g, nil
	}
	if turn.Since, err = s.log.End(ctx); err != nil {
		return given{}, err
	}
	turn.Begun = true
	return g, s.save()
}

// answered saves the answer of a turn.
func (s *Session) answered(ctx context.Context, o outcome) error {
	answer, err := s.answer(ctx, o)
	if err != nil {
		return err
	}
	m, name := &s.manifest, o.turn.Agent
	s.mu.Lock()
	o.turn.Answer = answer
	m.Cursors[name], m.WorktreeLost = o.cursor, false
	m.Spent.Turns++
	m.Spent.Duration += o.result.Duration
	m.Spent.Usage = m.Spent.Plus(o.result.Usage)
	err = s.save()
	s.mu.Unlock()
	if err != nil {
		return err
	}
	entry := Entry{
		Type: EntryResult, Agent: name, Content: o.result.Text,
		Duration: o.result.Duration, Usage: o.result.Usage, Refused: o.result.Refused,
	}
	for _, entry := range append([]Entry{entry}, m.verdict(name, answer)...) {
		err = errors.Join(err, s.note(entry))
	}
	return err
}

// drain returns the new bridge records for an agent, and the cursor behind them. It omits the task,
// which is in every prompt.
func (s *Session) drain(ctx context.Context, name Agent) (messages []bridge.Record, cursor bridge.Cursor, err error) {
	cursor = s.manifest.Cursors[name]
	for entry, err := range s.log.Records(ctx, cursor) {
		var bad *bridge.LineError
		switch {
		case errors.As(err, &bad): // from another writer; oacp bridge reports it
			continue
		case err != nil:
			return nil, "", fmt.Errorf("reading the bridge for %s: %w", name, err)
		case !entry.IsFor(string(name)) && !s.manifest.isOwnReview(entry.Record, name):
			continue
		}
		cursor = entry.Cursor()
		if entry.ID != s.manifest.TaskRecord {
			messages = append(messages, entry.Record)
		}
	}
	return messages, cursor, nil
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

// execute gives the agent its turn. An agent that dies is restarted once. It notes each event before
// it takes the next, and stops the turn if that fails. Began is the end of the bridge log at the
// start of the last attempt. The turns of a round are executed at the same time.
func (s *Session) execute(ctx context.Context, g given) (result agent.Result, began bridge.Cursor, err error) {
	name := g.turn.Agent
	driver, text, err := s.prepare(ctx, name, g.prompt)
	if err != nil {
		return result, "", err
	}
	defer func() { err = errors.Join(err, s.rest(ctx, name, driver, err)) }()
	if began, err = s.log.End(ctx); err != nil {
		return result, "", &outsideError{err}
	}
	if err := s.note(Entry{Type: EntryExecute, Agent: name, State: s.manifest.State, Content: text}); err != nil {
		return result, began, err
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
	restarting := func(first agent.Result, died error) (err error) {
		if stopComes(ctx, s.stopDelay) {
			return died
		}
		if began, err = s.log.End(ctx); err != nil {
			return &outsideError{err}
		}
		return s.note(Entry{Type: EntryRestart, Agent: name, Error: why(died, first)})
	}
	result, err = agent.RunTurn(ctx, driver, agent.Request{Prompt: text, Env: s.manifest.environment(name, s.run.BridgePath())}, observe, restarting)
	switch {
	case unwritten != nil:
		err = unwritten
	case err != nil && stopComes(ctx, s.stopDelay):
		err = context.Cause(ctx)
	}
	return result, began, errors.Join(err, s.keepSession(name, result.SessionID))
}

// prepare returns the agent's driver, started, and the text of its prompt.
func (s *Session) prepare(ctx context.Context, name Agent, p prompt) (agent.Driver, string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.ensureFolder(ctx); err != nil {
		return nil, "", &outsideError{err}
	}
	driver, err := s.drivers.Get(ctx, string(name), *s.manifest.session(name), true)
	return driver, p.text(), err
}

// rest keeps a driver for the agent's next turn, or stops it if the turn failed.
func (s *Session) rest(ctx context.Context, name Agent, driver agent.Driver, failed error) error {
	if failed == nil {
		return s.drivers.Keep(ctx, string(name), driver)
	}
	if err := driver.Stop(context.WithoutCancel(ctx)); err != nil {
		return fmt.Errorf("stopping %s: %w", name, err)
	}
	return nil
}

// isOutside reports whether the cause of an error lies outside the agent and its task, so that the
// turn may succeed another time.
func isOutside(ctx context.Context, err error) bool {
	if errors.Is(err, agent.ErrUnknownSession) {
		return false
	}
	var outside *outsideError
	return ctx.Err() != nil || errors.Is(err, agent.ErrUnavailable) || errors.As(err, &outside)
}

// outsideError marks an error that is not the agent's fault, such as a transcript that cannot be
// written or a missing working folder.
type outsideError struct{ err error }

func (e *outsideError) Error() string { return e.err.Error() }
func (e *outsideError) Unwrap() error { return e.err }

// stopDelay is how much later than its child processes this process may receive a stop signal: at a
// shutdown all receive one at about the same time.
const stopDelay = 250 * time.Millisecond

// stopComes reports whether the context ends within the delay, stopDelay but in tests. Callers ask it
// before they blame a process that failed.
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
	if err := s.save(); err != nil {
		return &outsideError{err}
	}
	return nil
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
