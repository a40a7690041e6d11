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

// User is who the task comes from in the bridge.
const User = "user"

// senderProof reports that the proof has failed.
const senderProof = "proof"

// begin starts the agents and puts the task into the bridge. What stood there
// before is no message of this run.
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
		end, err := s.log.End(ctx)
		if err != nil {
			return err
		}
		m.Cursors = map[Agent]bridge.Cursor{Claude: end, Codex: end}
		m.Acknowledged = maps.Clone(m.Cursors)
		if err := s.save(); err != nil {
			return err
		}
	}
	task, err := s.publish(ctx, m.Cursors[m.PrimaryAgent], bridge.Record{
		Type: bridge.TypeTask, From: User, To: string(m.PrimaryAgent), Content: m.Prompt,
	})
	if err != nil {
		return err
	}
	m.TaskRecord, m.CurrentIteration, m.Turn = task, 1, &Turn{Agent: m.PrimaryAgent}
	if err := s.moveTo(Working); err != nil {
		return err
	}
	return s.note(Entry{Type: EntryIteration})
}

// takeTurn gives the agent its turn and writes down what it came to.
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
	s.manifest.setSession(turn.Agent, result.SessionID)
	if err != nil {
		s.spent = spent(result)
		return s.turnFailed(ctx, err)
	}
	if turn.Answer, err = s.answer(ctx, result, began); err != nil {
		return err
	}
	s.manifest.Cursors[turn.Agent], s.manifest.WorktreeLost = cursor, false
	if err := s.save(); err != nil {
		return err
	}
	usage := result.Usage
	err = s.note(Entry{Type: EntryResult, Agent: turn.Agent, Content: result.Text, Duration: result.Duration, Usage: &usage})
	if turn.Answer.Signal != "" {
		err = errors.Join(err, s.note(Entry{Type: EntrySignal, Agent: turn.Agent, Signal: turn.Answer.Signal}))
	}
	return err
}

// spent is what a turn that failed has used up, nil if nothing is known of it.
func spent(result agent.Result) *agent.Usage {
	if result.Usage == (agent.Usage{}) {
		return nil
	}
	return &result.Usage
}

// turnFailed ends the run, unless something else than the agent is to blame.
func (s *Session) turnFailed(ctx context.Context, err error) error {
	if s.isOutside(ctx, err) {
		return errors.Join(err, s.save())
	}
	return s.fail(fmt.Sprintf("%s: %v", s.manifest.Turn.Agent, err))
}

// drain returns what is new in the bridge for an agent, and the place behind.
// The task itself is left out: it is in every prompt.
func (s *Session) drain(ctx context.Context, name Agent) (messages []bridge.Record, cursor bridge.Cursor, err error) {
	cursor = s.manifest.Cursors[name]
	for entry, err := range s.log.Records(ctx, cursor) {
		var bad *bridge.LineError
		switch {
		case errors.As(err, &bad): // a foreign writer's; oacp bridge shows it
			continue
		case err != nil:
			return nil, "", fmt.Errorf("reading the bridge for %s: %w", name, err)
		case !entry.IsFor(string(name)) && !s.toldItself(entry.Record, name):
			continue
		}
		cursor = entry.Cursor()
		if entry.ID != s.manifest.TaskRecord {
			messages = append(messages, entry.Record)
		}
	}
	return messages, cursor, nil
}

// toldItself reports whether a record is what an agent that reviews its own
// work said in its other role, and has to know in this one.
func (s *Session) toldItself(r bridge.Record, name Agent) bool {
	role := bridge.TypeReview
	if s.manifest.State == Reviewing {
		role = bridge.TypeResult
	}
	return r.From == string(name) && r.Type == role && r.Iteration > 0 && !isMail(r)
}

// execute gives the agent the prompt. An agent that fails in its turn is
// started again, once, in its session, unless its driver did that already. If
// there is no such session any more it gets a new one: a prompt stands by
// itself. Began is the end of the bridge log when the attempt began that the
// result is of.
func (s *Session) execute(ctx context.Context, p prompt) (result agent.Result, began bridge.Cursor, err error) {
	name := s.manifest.Turn.Agent
	result, began, err = s.attempt(ctx, name, p.text())
	s.manifest.setSession(name, result.SessionID)
	if err == nil || s.isOutside(ctx, err) || !canRestart(err) {
		return result, began, err
	}
	if errors.Is(err, agent.ErrUnknownSession) {
		s.manifest.forgetSession(name)
	}
	if err := s.note(Entry{Type: EntryRestart, Agent: name, Error: err.Error(), Usage: spent(result)}); err != nil {
		return result, began, err
	}
	if err := s.stopDriver(context.WithoutCancel(ctx), name); err != nil {
		return result, began, err
	}
	p.repeated = true
	return s.attempt(ctx, name, p.text())
}

// canRestart reports whether the agent has not been started again yet.
func canRestart(err error) bool {
	var died *agent.DiedError
	return !errors.As(err, &died) || !died.Again
}

// isOutside reports whether something else than the agent and its task is to
// blame, and may be better another time.
func (s *Session) isOutside(ctx context.Context, err error) bool {
	if errors.Is(err, agent.ErrUnknownSession) {
		return false
	}
	var outside *outsideError
	return ctx.Err() != nil || errors.Is(err, agent.ErrUnavailable) || errors.As(err, &outside)
}

// An outsideError says that a turn could not be given, or was stopped, because
// of something outside the run: what it came to could not be written down, or
// the folder of the work is not there. No agent is to blame for it.
type outsideError struct{ err error }

func (e *outsideError) Error() string { return e.err.Error() }
func (e *outsideError) Unwrap() error { return e.err }

// attempt is one try at a turn. Every event is in the transcript before the
// next is taken; when one cannot be written the turn is stopped.
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
		if err := errors.Join(s.keepSession(name, driver), s.note(entry)); err != nil && unwritten == nil {
			unwritten = err
			cancel(err)
		}
	}
	result, err = driver.Turn(ctx, agent.Request{Prompt: text, Env: s.environment(name)}, observe)
	switch {
	case unwritten != nil:
		err = unwritten
	case err != nil && s.stopComes(ctx):
		err = context.Cause(ctx)
	}
	return result, began, err
}

// stopDelay is how far a stop of this process may be behind that of the
// processes it has started. At a shutdown, and when a service is stopped, all
// are told at once, and theirs says nothing about their work.
const stopDelay = 250 * time.Millisecond

// stopComes reports whether the context has ended, or ends in a moment. It is
// asked when a process has failed, before that is held against it.
func (s *Session) stopComes(ctx context.Context) bool {
	timer := time.NewTimer(s.stopDelay)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return true
	case <-timer.C:
		return false
	}
}

// keepSession writes the agent's session down as soon as it has one, so that a
// process that is killed in the agent's first turn does not lose it.
func (s *Session) keepSession(name Agent, driver agent.Driver) error {
	id := driver.SessionID()
	if id == "" || id == s.manifest.SessionID(name) {
		return nil
	}
	s.manifest.setSession(name, id)
	if err := s.save(); err != nil {
		return &outsideError{err}
	}
	return nil
}

// environment tells a process that is started for a turn what it works on.
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

// publish appends a record, and returns its id. Words that had been said
// before the place since are said again under an id of their own: ids know
// nothing of time. What stands behind that place already was put there by a
// process that was cut off.
func (s *Session) publish(ctx context.Context, since bridge.Cursor, r bridge.Record) (string, error) {
	r.Iteration = s.manifest.CurrentIteration
	words := r.Content
	for again := 2; ; again++ {
		receipt, err := s.log.Send(ctx, r)
		if err != nil {
			return "", err
		}
		if !receipt.Duplicate || receipt.Line > since.Line() {
			return receipt.ID, nil
		}
		r.Content = fmt.Sprintf("%s\n\n(said for the %s time)", words, ordinal(again))
	}
}

func ordinal(n int) string {
	suffix := "th"
	if tens := n % 100 / 10; tens != 1 {
		switch n % 10 {
		case 1:
			suffix = "st"
		case 2:
			suffix = "nd"
		case 3:
			suffix = "rd"
		}
	}
	return strconv.Itoa(n) + suffix
}
