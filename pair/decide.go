package pair

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/oacp-go/oacp/agent"
	"github.com/oacp-go/oacp/bridge"
)

// needsProof reports whether the answer stands or falls with the proof, and
// the proof has not been run since: the work that is complete is that which
// the last reviewer has seen and left behind, whatever was proven before.
func (s *Session) needsProof() bool {
	m := &s.manifest
	if m.ProofCommand == "" || m.Turn.Proof != nil {
		return false
	}
	if m.State == Working {
		return m.Turn.Answer.Signal == bridge.SignalDone
	}
	last := m.Turn.Reviewer == len(m.settings().reviewers())-1
	return last && m.Turn.Answer.Signal == bridge.SignalPass
}

// maxProofOutput is how much of the end of a proof's output goes back to the
// worker, in bytes.
const maxProofOutput = 8 << 10

// prove runs the proof and writes down what it came to.
func (s *Session) prove(ctx context.Context) error {
	commands, err := ParseProof(s.manifest.ProofCommand)
	if err != nil {
		return err
	}
	result := &ProofResult{Passed: true}
	begin := time.Now()
	for _, command := range commands {
		report, err := s.runProof(ctx, command)
		if err != nil {
			return err
		}
		if report != "" {
			result = &ProofResult{Report: report}
			break
		}
	}
	s.manifest.Turn.Proof = result
	if err := s.save(); err != nil {
		return err
	}
	entry := Entry{Type: EntryProof, Duration: time.Since(begin)}
	if !result.Passed {
		entry.Error, entry.Content, _ = strings.Cut(result.Report, "\n")
	}
	return s.note(entry)
}

// runProof runs one command of the proof. A report says how it failed; an
// error, that it was not the command that did.
func (s *Session) runProof(ctx context.Context, command []string) (report string, err error) {
	tooLong := fmt.Errorf("it was stopped after %v", s.options.ProofTimeout)
	limited, cancel := context.WithTimeoutCause(ctx, s.options.ProofTimeout, tooLong)
	defer cancel()
	driver := agent.NewExec(command, &agent.ExecOptions{Dir: s.manifest.Dir()})
	err = driver.Start(limited)
	var result agent.Result
	if err == nil {
		result, err = driver.Turn(limited, agent.Request{}, nil)
	}
	if err == nil {
		return "", nil
	}
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	return fmt.Sprintf("the proof %s failed: %v\n%s", strings.Join(command, " "), err, tail(result.Tail, maxProofOutput)), nil
}

// tail returns the end of a text, whole characters and, if there are any,
// whole lines of it.
func tail(text string, most int) string {
	if len(text) <= most {
		return text
	}
	text = text[len(text)-most:]
	if _, lines, found := strings.Cut(text, "\n"); found && lines != "" {
		return lines
	}
	return strings.ToValidUTF8(text, "")
}

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
		return s.fail(fmt.Sprintf("it is not done after %d iterations", m.CurrentIteration))
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
