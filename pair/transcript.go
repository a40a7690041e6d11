package pair

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/oacp-go/oacp/agent"
	"github.com/oacp-go/oacp/bridge"
)

// EntryType says what an Entry is about.
type EntryType string

// The types. All but EntryEvent, EntryProof, EntryRestart and EntryNotice are
// AgentPair's.
const (
	EntryStart     EntryType = "start"     // a process begins to drive the run; Content is the task
	EntryIteration EntryType = "iteration" // an iteration begins
	EntryExecute   EntryType = "execute"   // an agent is given a turn; Content is the prompt
	EntryEvent     EntryType = "event"     // something an agent showed: Raw, or Content where it is plain output
	EntryResult    EntryType = "result"    // a turn has ended; Content is the answer
	EntrySignal    EntryType = "signal"    // a turn ended in a signal
	EntryProof     EntryType = "proof"     // the proof was run; Error and Content say how it failed
	EntryRestart   EntryType = "restart"   // an agent died in its turn and is started again; Error says of what
	EntryState     EntryType = "state"     // the run's state changed; Content is what was said last in a run that failed
	EntryNotice    EntryType = "notice"    // Content is something to know that stops nothing
	EntryError     EntryType = "error"     // the run cannot go on
	EntryEnd       EntryType = "end"       // the process leaves the run, in this state
)

// Entry is a line of transcript.jsonl, and what Options.Observe is told. Its
// fields have AgentPair's names; raw, usage and stderr are ours.
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
	// Duration is in nanoseconds.
	Duration time.Duration `json:"duration,omitempty"`
	Usage    *agent.Usage  `json:"usage,omitempty"`
	// Stderr reports that Content came from the agent's error output.
	Stderr bool `json:"stderr,omitempty"`
	// Raw is the agent's own event, byte for byte, unless it stood on several
	// lines: then it is put on one.
	Raw json.RawMessage `json:"raw,omitempty"`
}

// Line returns the entry as one line of JSON, newline and all. The raw event is
// put in as it is: encoding/json would write it anew.
func (e Entry) Line() ([]byte, error) {
	raw := e.Raw
	e.Raw = nil
	var line bytes.Buffer
	encoder := json.NewEncoder(&line)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(e); err != nil {
		return nil, err
	}
	if raw == nil {
		return line.Bytes(), nil
	}
	line.Truncate(line.Len() - len("}\n"))
	line.WriteString(`,"raw":`)
	switch {
	case !json.Valid(raw):
		text, err := json.Marshal(string(raw))
		if err != nil {
			return nil, err
		}
		line.Write(text)
	case bytes.ContainsAny(raw, "\r\n"):
		if err := json.Compact(&line, raw); err != nil {
			return nil, err
		}
	default:
		line.Write(raw)
	}
	line.WriteString("}\n")
	return line.Bytes(), nil
}

// transcript is the open transcript.jsonl of a run, which one process writes.
type transcript struct {
	file *os.File
}

// openTranscript opens the file for appending. A line that a crash cut off is
// ended first.
func openTranscript(path string) (*transcript, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	if err := sealLine(file); err != nil {
		return nil, errors.Join(fmt.Errorf("transcript %s: %w", path, err), file.Close())
	}
	return &transcript{file: file}, nil
}

func sealLine(file *os.File) error {
	size, err := file.Seek(0, io.SeekEnd)
	if err != nil || size == 0 {
		return err
	}
	last := make([]byte, 1)
	if _, err := file.ReadAt(last, size-1); err != nil || last[0] == '\n' {
		return err
	}
	_, err = file.Write([]byte("\n"))
	return err
}

func (t *transcript) append(e Entry) error {
	line, err := e.Line()
	if err == nil {
		_, err = t.file.Write(line)
	}
	if err != nil {
		return &outsideError{fmt.Errorf("transcript: %w", err)}
	}
	return nil
}

func (t *transcript) close() error {
	return errors.Join(t.file.Sync(), t.file.Close())
}
