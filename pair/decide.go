package pair

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/oacp-go/oacp/bridge"
)

// decide tells the others what the turn came to, and what comes next.
func (s *Session) decide(ctx context.Context) error {
	if err := s.report(ctx); err != nil {
		return err
	}
	if s.manifest.State == Working {
		return s.decideWork()
	}
	return s.decideReview()
}

func (s *Session) decideWork() error {
	m := &s.manifest
	answer, proof := m.Turn.Answer, m.Turn.Proof
	reviewers := m.settings().reviewers()
	switch {
	case answer.Signal == bridge.SignalFail:
		return s.fail(fmt.Sprintf("%s gave up in iteration %d", m.PrimaryAgent, m.CurrentIteration))
	case proof != nil && !proof.Passed:
		return s.nextIteration()
	case len(reviewers) > 0:
		m.Turn = &Turn{Agent: reviewers[0], Proven: proof != nil}
		return s.moveTo(Reviewing)
	case answer.Signal == bridge.SignalDone:
		return s.moveTo(Complete)
	}
	return s.nextIteration()
}

func (s *Session) decideReview() error {
	m := &s.manifest
	turn, reviewers := m.Turn, m.settings().reviewers()
	switch next := turn.Reviewer + 1; {
	case turn.Answer.Signal != bridge.SignalPass, turn.Proof != nil && !turn.Proof.Passed:
		return s.nextIteration()
	case next < len(reviewers):
		m.Turn = &Turn{Agent: reviewers[next], Reviewer: next, Proven: turn.Proven}
		return s.save()
	}
	return s.moveTo(Complete)
}

// nextIteration gives the worker another turn, if there may be one.
func (s *Session) nextIteration() error {
	m := &s.manifest
	if m.CurrentIteration >= m.MaxIterations {
		iterations := "iterations"
		if m.CurrentIteration == 1 {
			iterations = "iteration"
		}
		return s.fail(fmt.Sprintf("it is not done after %d %s", m.CurrentIteration, iterations))
	}
	m.CurrentIteration++
	m.Turn = &Turn{Agent: m.PrimaryAgent}
	var err error
	if m.State == Working {
		err = s.save()
	} else {
		err = s.moveTo(Working)
	}
	return errors.Join(err, s.note(Entry{Type: EntryIteration}))
}

// report puts into the bridge what the turn came to. Doing it again changes
// nothing.
func (s *Session) report(ctx context.Context) error {
	turn := s.manifest.Turn
	for _, record := range s.records() {
		if _, err := s.publish(ctx, turn.Since, record); err != nil {
			return err
		}
	}
	return nil
}

// records lists what there is to tell: the answer, its signal unless the agent
// sent that itself, and the proof's failure. An answer to oneself goes to the
// partner; drain gives it back where it is needed.
func (s *Session) records() []bridge.Record {
	m := &s.manifest
	turn := m.Turn
	kind, to := bridge.TypeReview, string(m.PrimaryAgent)
	if m.State == Working {
		kind = bridge.TypeResult
	}
	if turn.Agent == m.PrimaryAgent {
		to = m.partner()
	}
	text := turn.Answer.Text
	if strings.TrimSpace(text) == "" {
		text = "(nothing was said)"
	}
	records := []bridge.Record{{Type: kind, From: string(turn.Agent), To: to, Content: text}}
	if turn.Answer.Signal != "" && !turn.Answer.InBridge {
		records = append(records, bridge.Record{
			Type: bridge.TypeSignal, From: string(turn.Agent), To: to, Signal: turn.Answer.Signal,
			Content: fmt.Sprintf("%s in iteration %d", turn.Answer.Signal, m.CurrentIteration),
		})
	}
	if turn.Proof != nil && !turn.Proof.Passed {
		records = append(records, bridge.Record{
			Type: bridge.TypeResult, From: senderProof, To: string(m.PrimaryAgent), Content: turn.Proof.Report,
		})
	}
	return records
}
