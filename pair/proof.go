package pair

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/oacp-go/oacp/agent"
	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/internal/orphans"
	"github.com/oacp-go/oacp/internal/visible"
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

// prove runs the proof and writes down what it came to. Nothing that the proof
// started is at work when that is known, and nothing that one started which
// was cut off when the next begins.
func (s *Session) prove(ctx context.Context) error {
	if err := s.makeSureOfFolder(ctx); err != nil {
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

// endProof ends what a proof has left behind.
func (s *Session) endProof(ctx context.Context) error {
	ended, err := orphans.End(ctx, orphans.Mark(s.manifest.Turn.ProofMark))
	if err != nil {
		return fmt.Errorf("ending what the proof left behind: %w", err)
	}
	if len(ended) == 0 {
		return nil
	}
	return s.note(Entry{Type: EntryNotice, Content: "what the proof had left behind was ended: " + orphans.List(ended)})
}

// runCommands runs the commands of the proof until one fails.
func (s *Session) runCommands(ctx context.Context) (*ProofResult, error) {
	commands, err := ParseCommands(s.manifest.ProofCommand)
	if err != nil {
		return nil, err
	}
	for _, command := range commands {
		report, err := s.runProof(ctx, command)
		if err != nil {
			return nil, err
		}
		if report != "" {
			return &ProofResult{Report: report}, nil
		}
	}
	return &ProofResult{Passed: true}, nil
}

// runProof runs one command of the proof. A report says how it failed; an
// error, that it was not the command that did.
func (s *Session) runProof(ctx context.Context, command []string) (report string, err error) {
	tooLong := fmt.Errorf("it was stopped after %v", s.options.ProofTimeout)
	limited, cancel := context.WithTimeoutCause(ctx, s.options.ProofTimeout, tooLong)
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
	return fmt.Sprintf("the proof %s failed: %s\n%s", visible.Shell(command...), howProofFailed(err), tail(result.Tail, maxProofOutput)), nil
}

// isBare reports whether a program is looked for in PATH.
func isBare(program string) bool { return filepath.Base(program) == program }

// howProofFailed says why a command of the proof did not succeed. The driver
// takes it for an agent.
func howProofFailed(err error) string {
	var file *fs.PathError
	var program *exec.Error
	switch {
	case !errors.Is(err, agent.ErrUnavailable):
		return err.Error()
	case errors.As(err, &file):
		return "it cannot be run: " + file.Err.Error()
	case errors.As(err, &program):
		return "it cannot be run: " + program.Err.Error()
	}
	return "it cannot be run"
}

// findProof looks for the programs of a proof that no worker will make: those
// that are looked for in PATH.
func findProof(text string) error {
	commands, err := ParseCommands(text)
	if err != nil {
		return err
	}
	for _, command := range commands {
		if _, err := exec.LookPath(command[0]); err != nil && isBare(command[0]) {
			return fmt.Errorf("there is no program %s in PATH", command[0])
		}
	}
	return nil
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
