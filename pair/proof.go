package pair

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/oacp-go/oacp/agent"
	"github.com/oacp-go/oacp/internal/orphans"
	"github.com/oacp-go/oacp/internal/visible"
)

// needsProof reports whether the proof must run before the answers count: after the worker's DONE,
// and after the PASS of all reviewers, because they may have changed files.
func (m *Manifest) needsProof() bool {
	if m.ProofCommand == "" || m.Round.Proof != nil {
		return false
	}
	return m.Round.decisive(m.expected()).Answer.Signal == m.expected()
}

// maxProofOutput is how much of the end of a proof's output the worker gets, in bytes.
const maxProofOutput = 8 << 10

// prove runs the proof and saves its result. Before it starts, it ends the processes of an interrupted
// proof, and before it saves, those that the proof left behind.
func (s *Session) prove(ctx context.Context) error {
	if err := s.manifest.checkFolder(); err != nil {
		return err // not a failure of the proof
	}
	if err := s.endProof(ctx); err != nil {
		return err
	}
	round := s.manifest.Round
	mark := s.proofs().NewMark()
	round.ProofMark = string(mark)
	if err := errors.Join(s.save(), s.note(Entry{Type: EntryProving, Content: s.manifest.settings().proofText()})); err != nil {
		return err
	}
	begin := time.Now()
	result, err := s.runProof(orphans.WithMark(ctx, mark))
	if err := errors.Join(err, s.endProof(context.WithoutCancel(ctx))); err != nil {
		return err
	}
	round.Proof, round.ProofMark = result, ""
	if err := s.save(); err != nil {
		return err
	}
	entry := Entry{Type: EntryProof, Duration: time.Since(begin)}
	if !result.Passed {
		entry.Error, entry.Content, _ = strings.Cut(result.Report, "\n")
		entry.Reason = result.LastLine
	}
	return s.note(entry)
}

// proofs is the owner of the processes of proofs.
func (s *Session) proofs() orphans.Owner { return orphans.OwnerOf(s.run.Folder, "proof") }

// endProof ends the processes that a proof left behind.
func (s *Session) endProof(ctx context.Context) error {
	ended, err := s.proofs().End(ctx, orphans.Mark(s.manifest.Round.ProofMark))
	if err != nil {
		return fmt.Errorf("killing the processes that the proof left behind: %w", err)
	}
	if len(ended) == 0 {
		return nil
	}
	return s.note(Entry{Type: EntryNotice, Content: "ended what the proof left behind: " + strings.Join(ended, ", ")})
}

// runProof runs the commands of the proof until one fails.
func (s *Session) runProof(ctx context.Context) (*ProofResult, error) {
	commands, err := ParseCommands(s.manifest.ProofCommand)
	for _, command := range commands {
		if failure, err := s.runCommand(ctx, command); err != nil || failure != nil {
			return failure, err
		}
	}
	return &ProofResult{Passed: true}, err
}

// runCommand runs a command of the proof for a limited time, and returns a result only if it failed. It
// returns an error if the session has to stop.
func (s *Session) runCommand(ctx context.Context, command []string) (*ProofResult, error) {
	timedOut := fmt.Errorf("stopped after %v", s.options.ProofTimeout)
	limited, cancel := context.WithTimeoutCause(ctx, s.options.ProofTimeout, timedOut)
	defer cancel()
	driver := agent.NewExec(agent.Options{Command: command, Dir: s.manifest.Dir(), Inherit: s.options.Inherit})
	err := driver.Start(limited)
	var result agent.Result
	if err == nil {
		result, err = driver.Turn(limited, agent.Request{}, nil)
	}
	if err == nil {
		return nil, nil
	}
	if stopComes(ctx, s.stopDelay) {
		return nil, context.Cause(ctx)
	}
	cause := strings.Replace(err.Error(), agent.ErrUnavailable.Error(), "it cannot be run", 1) // a proof is not an agent
	report := fmt.Sprintf("the proof %s failed: %s\n%s", visible.ShellCommand(command...), cause, tail(result.Tail, maxProofOutput))
	return &ProofResult{Report: report, LastLine: result.LastLine}, nil
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
