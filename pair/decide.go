package pair

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/internal/spelling"
)

// proofSender is the sender of records about failed proofs.
const proofSender = "proof"

// decide reports the finished turn in the bridge and chooses the next step.
func (s *Session) decide(ctx context.Context) error {
	m := &s.manifest
	for _, turn := range m.Round.Turns {
		for _, record := range m.records(turn) {
			if _, err := s.publish(ctx, turn.Since, record); err != nil {
				return err
			}
		}
	}
	if m.State == Working {
		return s.decideWork()
	}
	return s.decideReview()
}

func (s *Session) decideWork() error {
	m := &s.manifest
	reviewers := m.settings().reviewers()
	answer, proof := m.Round.Turns[0].Answer, m.Round.Proof
	if len(reviewers) == 0 {
		m.Verdict = &Verdict{m.Round.Turns[0].Agent, answer.Signal}
	}
	switch {
	case answer.Signal == bridge.SignalFail:
		return s.fail(fmt.Sprintf("%s gave up in iteration %d", m.PrimaryAgent, m.CurrentIteration))
	case proof != nil && !proof.Passed:
		return s.nextIteration()
	case len(reviewers) > 0:
		m.Round = newRound(reviewers...)
		m.Round.Proven = proof != nil
		return s.moveTo(Reviewing)
	case answer.Signal == bridge.SignalDone:
		return s.moveTo(Complete)
	}
	return s.nextIteration()
}

func (s *Session) decideReview() error {
	m := &s.manifest
	turn := m.Round.decisive(bridge.SignalPass)
	m.Verdict = &Verdict{turn.Agent, turn.Answer.Signal}
	if turn.Answer.Signal != bridge.SignalPass || m.Round.Proof != nil && !m.Round.Proof.Passed {
		return s.nextIteration()
	}
	return s.moveTo(Complete)
}

// nextIteration gives the worker another turn, or fails the run after the last one.
func (s *Session) nextIteration() error {
	m := &s.manifest
	if m.CurrentIteration >= m.MaxIterations {
		return s.fail("not done after " + spelling.Plural(m.CurrentIteration, "iteration"))
	}
	m.CurrentIteration++
	m.Round = newRound(Agent(m.PrimaryAgent))
	var err error
	if m.State == Working {
		err = s.save()
	} else {
		err = s.moveTo(Working)
	}
	return errors.Join(err, s.note(Entry{Type: EntryIteration}))
}

// records returns the records about a finished turn: the answer, its signal unless the agent sent
// that itself, and after the last turn of the round the failure of the proof.
func (m *Manifest) records(turn *Turn) []bridge.Record {
	kind, to := bridge.TypeReview, m.PrimaryAgent
	if m.State == Working {
		kind = bridge.TypeResult
	}
	// The worker's answer, even about its own work, goes to the other agent, or to the user in a run of
	// one agent. An agent that reviews its own work also gets it from drain.
	if string(turn.Agent) == m.PrimaryAgent {
		to = user
		if agents := m.settings().agents(); len(agents) > 1 {
			to = string(agents[1])
		}
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
	if proof := m.Round.Proof; proof != nil && !proof.Passed && turn == m.Round.Turns[len(m.Round.Turns)-1] {
		records = append(records, bridge.Record{
			Type: bridge.TypeResult, From: proofSender, To: m.PrimaryAgent, Content: proof.Report,
		})
	}
	return records
}

// publish appends a record and returns its id. A duplicate after the cursor is the same record, which a
// process appended before it died. A duplicate of an earlier record gets another last line, because the
// id of a record depends on its content and not on its time.
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
		r.Content = fmt.Sprintf("%s\n\n(said %d times)", words, again)
	}
}
