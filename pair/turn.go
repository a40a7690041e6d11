package pair

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
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
		_, err := s.driver(ctx, name)
		switch {
		case err != nil && ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil && s.isOutside(ctx, err):
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
	m.TaskRecord, m.CurrentIteration, m.Turn = task, 1, &Turn{Agent: Agent(m.PrimaryAgent)}
	if err := s.moveTo(Working); err != nil {
		return err
	}
	return s.note(Entry{Type: EntryIteration})
}

// takeTurn gives the agent its turn and saves the answer.
func (s *Session) takeTurn(ctx context.Context) error {
	turn := s.manifest.Turn
	if err := s.exchange(ctx); err != nil {
		return err
	}
	messages, cursor, err := s.drain(ctx, turn.Agent)
	if err != nil {
		return err
	}
	repeated := turn.Begun
	if !turn.Begun {
		if turn.Since, err = s.log.End(ctx); err != nil {
			return err
		}
		turn.Begun = true
		if err := s.save(); err != nil {
			return err
		}
	}
	result, began, err := s.execute(ctx, prompt{manifest: &s.manifest, messages: messages, repeated: repeated})
	if err != nil {
		s.spent = result.Usage
		return s.turnFailed(ctx, err)
	}
	if turn.Answer, err = s.answer(ctx, result, began); err != nil {
		return err
	}
	s.manifest.Cursors[turn.Agent], s.manifest.WorktreeLost = cursor, false
	if err := s.save(); err != nil {
		return err
	}
	err = s.note(Entry{Type: EntryResult, Agent: turn.Agent, Content: result.Text, Duration: result.Duration, Usage: result.Usage})
	if turn.Answer.Signal != "" {
		err = errors.Join(err, s.note(Entry{Type: EntrySignal, Agent: turn.Agent, Signal: turn.Answer.Signal}))
	}
	return err
}

// turnFailed ends the run if the failure is the agent's own.
func (s *Session) turnFailed(ctx context.Context, err error) error {
	if s.isOutside(ctx, err) {
		return errors.Join(err, s.save())
	}
	return s.fail(fmt.Sprintf("%s: %v", s.manifest.Turn.Agent, err))
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
		case !entry.IsFor(string(name)) && !s.isOwnReview(entry.Record, name):
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
func (s *Session) isOwnReview(r bridge.Record, name Agent) bool {
	other := bridge.TypeReview
	if s.manifest.State == Reviewing {
		other = bridge.TypeResult
	}
	return r.From == string(name) && r.Type == other && r.Iteration > 0 && !isMail(r)
}

// execute gives the agent the prompt. If the agent fails, execute starts it once more, in a new
// session if the old one is gone. Began is the end of the bridge log at the start of the last attempt.
func (s *Session) execute(ctx context.Context, p prompt) (result agent.Result, began bridge.Cursor, err error) {
	name := s.manifest.Turn.Agent
	result, began, err = s.attempt(ctx, name, p.text())
	if err == nil || s.isOutside(ctx, err) {
		return result, began, err
	}
	if errors.Is(err, agent.ErrUnknownSession) {
		*s.manifest.session(name) = ""
	}
	if err := s.note(Entry{Type: EntryRestart, Agent: name, Error: err.Error(), Usage: result.Usage}); err != nil {
		return result, began, err
	}
	if err := s.stopDriver(context.WithoutCancel(ctx), name); err != nil {
		return result, began, err
	}
	p.repeated = true
	return s.attempt(ctx, name, p.text())
}

// isOutside reports whether the cause of an error lies outside the agent and its task, so that the
// turn may succeed another time.
func (s *Session) isOutside(ctx context.Context, err error) bool {
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

// attempt gives the agent one attempt at its turn. It notes each event before it takes the next, and
// stops the turn if that fails.
func (s *Session) attempt(ctx context.Context, name Agent, text string) (result agent.Result, began bridge.Cursor, err error) {
	driver, err := s.driver(ctx, name)
	if err != nil {
		return result, "", err
	}
	if began, err = s.log.End(ctx); err != nil {
		return result, "", &outsideError{err}
	}
	if err := s.note(Entry{Type: EntryExecute, Agent: name, State: s.manifest.State, Content: text}); err != nil {
		return result, began, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var unwritten error
	observe := func(e agent.Event) {
		entry := Entry{Type: EntryEvent, Agent: name, Raw: e.Raw, Content: e.Text, Stderr: e.Error}
		if err := errors.Join(s.keepSession(name, driver.SessionID()), s.note(entry)); err != nil && unwritten == nil {
			unwritten = err
			cancel(err)
		}
	}
	result, err = driver.Turn(ctx, agent.Request{Prompt: text, Env: s.environment(name)}, observe)
	if result.SessionID != "" {
		*s.manifest.session(name) = result.SessionID
	}
	switch {
	case unwritten != nil:
		err = unwritten
	case err != nil && s.stopComes(ctx):
		err = context.Cause(ctx)
	}
	return result, began, err
}

// stopDelay is how much later than its child processes this process may receive a stop signal: at a
// shutdown all receive one at about the same time.
const stopDelay = 250 * time.Millisecond

// stopComes reports whether the context ends within stopDelay. Callers ask it before they blame a
// process that failed.
func (s *Session) stopComes(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return true
	case <-time.After(s.stopDelay):
		return false
	}
}

// keepSession saves the agent's session as soon as it has one, so that a kill during the first turn
// does not lose it.
func (s *Session) keepSession(name Agent, id string) error {
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

// environment returns the variables that describe the turn to the agent's process.
func (s *Session) environment(name Agent) []string {
	role := "worker"
	if s.manifest.State == Reviewing {
		role = "reviewer"
	}
	return []string{
		"OACP_AGENT=" + string(name),
		"OACP_ROLE=" + role,
		"OACP_RUN_ID=" + strconv.Itoa(s.run.ID),
		"OACP_ITERATION=" + strconv.Itoa(s.manifest.CurrentIteration),
		"OACP_BRIDGE=" + s.run.BridgePath(),
	}
}

// driver returns the driver of an agent, and starts it first if necessary.
func (s *Session) driver(ctx context.Context, name Agent) (agent.Driver, error) {
	if driver := s.drivers[name]; driver != nil {
		return driver, nil
	}
	if err := s.ensureFolder(ctx); err != nil {
		return nil, &outsideError{err}
	}
	driver, err := s.startDriver(ctx, name)
	if errors.Is(err, agent.ErrUnknownSession) {
		*s.manifest.session(name) = ""
		driver, err = s.startDriver(ctx, name)
	}
	if err != nil {
		return nil, err
	}
	s.drivers[name] = driver
	return driver, nil
}

func (s *Session) startDriver(ctx context.Context, name Agent) (agent.Driver, error) {
	driver := s.options.NewDriver(name, s.manifest.Dir(), *s.manifest.session(name))
	if err := driver.Start(ctx); err != nil {
		return nil, errors.Join(err, driver.Stop(context.WithoutCancel(ctx)))
	}
	return driver, nil
}

func (s *Session) stopDriver(ctx context.Context, name Agent) error {
	driver := s.drivers[name]
	if driver == nil {
		return nil
	}
	delete(s.drivers, name)
	if err := driver.Stop(ctx); err != nil {
		return fmt.Errorf("stopping %s: %w", name, err)
	}
	return nil
}

func (s *Session) stopDrivers(ctx context.Context) error {
	return errors.Join(s.stopDriver(ctx, Claude), s.stopDriver(ctx, Codex))
}
