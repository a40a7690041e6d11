package pair

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/oacp-go/oacp/agent"
	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/internal/jsonl"
)

// EntryType is the type of an Entry.
type EntryType string

// The types. Resume, Event, Unclear to Restart, and Notice are ours; the others are AgentPair's.
const (
	EntryStart     EntryType = "start"     // a process begins to drive the run; Content is the task
	EntryResume    EntryType = "resume"    // a run continues; Content says which turns are repeated
	EntryIteration EntryType = "iteration" // an iteration begins
	EntryExecute   EntryType = "execute"   // an agent's turn begins; Content is the prompt
	EntryEvent     EntryType = "event"     // output of an agent: Raw, or Content if it is plain text
	EntryTool      EntryType = "tool"      // an agent calls the tool in Content
	EntryRetry     EntryType = "retry"     // the model's service failed; Content says what the program does about it
	EntryResult    EntryType = "result"    // a turn has ended; Content is the answer
	EntrySignal    EntryType = "signal"    // a turn ended in a signal; Reason is the beginning of a FAIL
	EntryUnclear   EntryType = "unclear"   // a turn ended without a signal; Content says what follows, Reason is the beginning of the answer
	EntryProving   EntryType = "proving"   // the proof in Content begins
	EntryProof     EntryType = "proof"     // the proof ran; Error, Reason and Content say how it failed
	EntryRestart   EntryType = "restart"   // an agent died in its turn and starts again; Error says why
	EntryState     EntryType = "state"     // the run's state changed; Content is the output of a proof with which it failed
	EntryNotice    EntryType = "notice"    // Content is a warning
	EntryError     EntryType = "error"     // the run cannot go on
	EntryEnd       EntryType = "end"       // the process leaves the run, in this state
)

// Detail reports whether entries of the type are shown only to users who ask for details.
func (t EntryType) Detail() bool { return t == EntryEvent || t == EntryTool }

// Entry is a line of transcript.jsonl. Its fields have AgentPair's names; reason, raw, usage, refused,
// stderr and summary are ours.
type Entry struct {
	Type      EntryType     `json:"type"`
	Timestamp time.Time     `json:"timestamp"`
	RunID     int           `json:"run_id"`
	Iteration int           `json:"iteration,omitempty"`
	Agent     Agent         `json:"agent,omitempty"`
	State     State         `json:"state,omitempty"`
	Content   string        `json:"content,omitempty"`
	Signal    bridge.Signal `json:"signal,omitempty"`
	Error     string        `json:"error,omitempty"`
	// Reason is the beginning of what an agent said about its work, or the line of a proof's output
	// that is most likely to say why it failed.
	Reason string `json:"reason,omitempty"`
	// Duration is in nanoseconds.
	Duration time.Duration `json:"duration,omitempty"`
	Usage    agent.Usage   `json:"usage,omitzero"`
	// Refused lists the actions that the agent was not permitted in the turn.
	Refused []agent.Refusal `json:"refused,omitempty"`
	// Stderr reports that Content is from the agent's standard error.
	Stderr bool `json:"stderr,omitempty"`
	// Raw is the agent's own event, without white space between tokens.
	Raw json.RawMessage `json:"raw,omitempty"`
	// Summary is the summary of the run, at its end.
	Summary *Summary `json:"summary,omitempty"`
}

// Line returns the entry as a line of JSON with its newline.
func (e Entry) Line() ([]byte, error) { return jsonl.Encode(e) }

// openTranscript opens a transcript for appending and ends a partial last line.
func openTranscript(path string) (*os.File, error) {
	file, err := durable.OpenRegular(path, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	if err := jsonl.Seal(file); err != nil {
		return nil, errors.Join(fmt.Errorf("transcript %s: %w", path, err), file.Close())
	}
	return file, nil
}

// note appends an entry to the transcript and passes it to the observer.
func (s *Session) note(e Entry) error {
	s.noting.Lock()
	defer s.noting.Unlock()
	e.Timestamp, e.RunID, e.Iteration = s.options.Now().UTC(), s.run.ID, s.manifest.CurrentIteration
	line, err := e.Line()
	if err == nil {
		err = jsonl.Append(s.transcript, line)
	}
	if err != nil {
		return fmt.Errorf("transcript: %w", err)
	}
	if s.options.Observe != nil {
		s.options.Observe(e)
	}
	return nil
}
