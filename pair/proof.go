package pair

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"strings"
	"time"

	"github.com/oacp-go/oacp/agent"
	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/internal/orphans"
	"github.com/oacp-go/oacp/internal/visible"
)

// needsProof reports whether the proof must run before the answer counts: after the worker's DONE,
// and after the last reviewer's PASS, because the reviewers may have changed files.
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

// maxProofOutput is how much of the end of a proof's output the worker gets, in bytes.
const maxProofOutput = 8 << 10

// prove runs the proof and saves its result. Processes that the proof left behind end before that,
// and those of an interrupted proof end before the next one starts.
func (s *Session) prove(ctx context.Context) error {
	if err := s.ensureFolder(ctx); err != nil {
		return err
	}
	if err := s.endProof(ctx); err != nil {
		return err
	}
	turn := s.manifest.Turn
	mark := orphans.NewMark()
	turn.ProofMark = string(mark)
	if err := s.save(); err != nil {
		return err
	}
	begin := time.Now()
	result, err := s.runCommands(orphans.WithMark(ctx, mark))
	if err := errors.Join(err, s.endProof(context.WithoutCancel(ctx))); err != nil {
		return err
	}
	turn.Proof, turn.ProofMark = result, ""
	if err := s.save(); err != nil {
		return err
	}
	entry := Entry{Type: EntryProof, Duration: time.Since(begin)}
	if !result.Passed {
		entry.Error, entry.Content, _ = strings.Cut(result.Report, "\n")
	}
	return s.note(entry)
}

// endProof ends the processes that a proof left behind.
func (s *Session) endProof(ctx context.Context) error {
	ended, err := orphans.End(ctx, orphans.Mark(s.manifest.Turn.ProofMark))
	if err != nil {
		return fmt.Errorf("ending what the proof left behind: %w", err)
	}
	if len(ended) == 0 {
		return nil
	}
	return s.note(Entry{Type: EntryNotice, Content: "ended what the proof left behind: " + strings.Join(ended, ", ")})
}

// runCommands runs the commands of the proof until one fails.
func (s *Session) runCommands(ctx context.Context) (*ProofResult, error) {
	commands, err := ParseCommands(s.manifest.ProofCommand)
	for _, command := range commands {
		if report, err := s.runProof(ctx, command); err != nil || report != "" {
			return &ProofResult{Report: report}, err
		}
	}
	return &ProofResult{Passed: true}, err
}

// runProof runs one command of the proof. The report says how the command failed. An error means that
// the session has to stop.
func (s *Session) runProof(ctx context.Context, command []string) (report string, err error) {
	timedOut := fmt.Errorf("stopped after %v", s.options.ProofTimeout)
	limited, cancel := context.WithTimeoutCause(ctx, s.options.ProofTimeout, timedOut)
	defer cancel()
	driver := agent.NewExec(agent.Options{Command: command, Dir: s.manifest.Dir()})
	err = driver.Start(limited)
	var result agent.Result
	if err == nil {
		result, err = driver.Turn(limited, agent.Request{}, nil)
	}
	if err == nil {
		return "", nil
	}
	if s.stopComes(ctx) {
		return "", context.Cause(ctx)
	}
	return fmt.Sprintf("the proof %s failed: %s\n%s", visible.Shell(command...), proofFailure(err), tail(result.Tail, maxProofOutput)), nil
}

// proofFailure says why a command of the proof failed, without the driver's words about agents.
func proofFailure(err error) string {
	var file *fs.PathError
	var program *exec.Error
	switch {
	case !errors.Is(err, agent.ErrUnavailable):
		return err.Error()
	case errors.As(err, &file):
		err = file.Err
	case errors.As(err, &program):
		err = program.Err
	}
	return "it cannot be run: " + err.Error()
}

// tail returns the end of a text in at most limit bytes, from the start of a line if possible.
func tail(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	text = text[len(text)-limit:]
	if _, lines, found := strings.Cut(text, "\n"); found && lines != "" {
		return lines
	}
	return strings.ToValidUTF8(text, "")
}
