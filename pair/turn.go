package pair

import (
	"context"
	"errors"
	"fmt"
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

// given is a turn that is given to its agent, and its outcome.
type given struct {
	turn *Turn
	// messages are in the prompt. Cursor is the end of what it holds of the bridge.
	messages []bridge.Record
	cursor   bridge.Cursor
	// repeated reports that the agent may have received a prompt for this turn before.
	repeated bool

	result agent.Result
	err    error
}

// takeTurns gives the agents of the round that have not answered their turns, all at the same time,
// and saves each answer as it comes. If a turn fails, takeTurns stops the others.
func (s *Session) takeTurns(ctx context.Context) error {
	var turns []*given
	for _, turn := range s.manifest.Round.open() {
		g, err := s.give(ctx, turn)
		if err != nil {
			return err
		}
		turns = append(turns, g)
	}
	together, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	taken := make(chan *given)
	for _, g := range turns {
		go func() {
			g.result, g.err = s.execute(together, g)
			if errors.Is(g.err, agent.ErrUnknownSession) {
				s.forgetSession(g.turn.Agent)
				g.result, g.err = s.execute(together, g)
			}
			taken <- g
		}()
	}
	var failed error
	for range turns {
		g := <-taken
		err := g.err
		if err == nil {
			err = s.answered(ctx, g)
		} else {
			s.mu.Lock()
			s.spent = s.spent.Plus(g.result.Usage)
			s.manifest.Spent.Usage = s.manifest.Spent.Plus(g.result.Usage)
			s.mu.Unlock()
			err = fmt.Errorf("%s: %w", g.turn.Agent, err)
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

// agentFault is an error for which the agent or its task is to blame, so that the run fails.
type agentFault struct{ error }

func (f *agentFault) Unwrap() error { return f.error }

// blame returns an error of an agent as an *agentFault, unless the agent cannot be reached now or has
// lost its session.
func blame(err error) error {
	if err == nil || errors.Is(err, agent.ErrUnavailable) || errors.Is(err, agent.ErrUnknownSession) {
		return err
	}
	return &agentFault{err}
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
func (s *Session) give(ctx context.Context, turn *Turn) (*given, error) {
	g := &given{turn: turn, repeated: turn.Begun}
	if err := s.drain(ctx, g); err != nil || turn.Begun {
		return g, err
	}
	var err error
	if turn.Since, err = s.log.End(ctx); err != nil {
		return nil, err
	}
	turn.Begun = true
	return g, s.save()
}

// answered saves the answer of a turn.
func (s *Session) answered(ctx context.Context, g *given) error {
	answer, err := s.answer(ctx, g)
	if err != nil {
		return err
	}
	m, name := &s.manifest, g.turn.Agent
	s.mu.Lock()
	g.turn.Answer = answer
	*m.Cursors.at(name) = g.cursor
	m.Spent.Turns++
	m.Spent.Duration += g.result.Duration
	m.Spent.Usage = m.Spent.Plus(g.result.Usage)
	err = s.save()
	s.mu.Unlock()
	if err != nil {
		return err
	}
	entry := Entry{
		Type: EntryResult, Agent: name, Content: g.result.Text,
		Duration: g.result.Duration, Usage: g.result.Usage, Refused: g.result.Refused,
	}
	for _, entry := range append([]Entry{entry}, m.verdict(name, answer)...) {
		err = errors.Join(err, s.note(entry))
	}
	return err
}

// drain adds the new bridge records for the agent to a turn. It omits the task, which is in every
// prompt.
func (s *Session) drain(ctx context.Context, g *given) error {
	name := g.turn.Agent
	g.cursor = *s.manifest.Cursors.at(name)
	return s.eachRecord(ctx, g.cursor, func(entry bridge.Entry) {
		if !entry.IsFor(string(name)) && !s.manifest.isOwnReview(entry.Record, name) {
			return
		}
		g.cursor = entry.Cursor()
		if entry.ID != s.manifest.TaskRecord {
			g.messages = append(g.messages, entry.Record)
		}
	})
}

// eachRecord calls f for the records of the bridge after a cursor. It skips bad lines of another
// writer, which oacp bridge reports.
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

// execute gives the agent its turn. An agent that dies is restarted once. It notes each event before
// it takes the next, and stops the turn if that fails. The turns of a round are executed at the same
// time.
func (s *Session) execute(ctx context.Context, g *given) (result agent.Result, err error) {
	name := g.turn.Agent
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
	text := s.manifest.promptOf(g)
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
		unwritten = s.note(Entry{Type: EntryRestart, Agent: name, Error: why(died, first)})
		return unwritten
	}
	result, err = agent.RunTurn(ctx, driver, agent.Request{Prompt: text, Env: s.manifest.environment(name, s.run.BridgePath())}, observe, restarting)
	switch {
	case unwritten != nil:
		err = unwritten
	case err != nil && stopComes(ctx, s.stopDelay):
		err = context.Cause(ctx)
	case err != nil && blame(err) != err:
		err = &agentFault{errors.New(why(err, result))}
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
	return driver, blame(err)
}

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
