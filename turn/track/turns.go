package track

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/internal/jsonl"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// Turns returns the turns of an agent that its journal still has, in the order in which they began. The time of the
// end is zero for one that runs. A compacted journal has only the last turn on each message.
func Turns(w *mailbox.Workspace, agent schema.AgentName) ([]Turn, error) {
	var turns []Turn
	dir, err := durable.OpenDir(w.Root(), w.Dir(), TurnsFolder)
	if err == nil {
		var file *os.File
		if file, err = dir.OpenFile(JournalName(agent), os.O_RDONLY, 0); err == nil {
			turns, err = readTurns(file)
			_ = file.Close() // nothing is written
		}
		err = errors.Join(err, dir.Close())
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("turns of %s: %w", agent, err)
	}
	return turns, nil
}

// readTurns reads the turns in a journal. It skips lines that are not facts.
func readTurns(journal io.ReaderAt) (turns []Turn, err error) {
	open := make(map[Key]int) // where the turns are that have not ended
	lines := jsonl.NewReader(journal)
	for at := int64(0); ; {
		line, next, err := lines.Line(at)
		if errors.Is(err, io.EOF) {
			return turns, nil
		}
		if err != nil {
			return turns, err
		}
		at = next
		// What else a Fact has can be long.
		var f struct {
			Fact
			Send   struct{} `json:"send"`
			Thread struct{} `json:"conversation"`
			Sender struct{} `json:"sender"`
		}
		if json.Unmarshal(line, &f) == nil {
			turns = appendTurn(turns, open, &f.Fact)
		}
	}
}

// appendTurn adds what a fact says about the turns.
func appendTurn(turns []Turn, open map[Key]int, f *Fact) []Turn {
	key := f.Key
	switch f.Kind {
	case snapshot:
		rec := f.Record
		if rec == nil || rec.Attempts == 0 || rec.Started.IsZero() {
			return turns
		}
		if rec.Running {
			open[rec.Key] = len(turns)
		}
		return append(turns, Turn{
			Envelope: rec.Envelope, Attempt: rec.Attempts, Started: rec.Started, Ended: rec.Ended,
			Succeeded: rec.Outcome == Succeeded, Reason: rec.Reason, Usage: rec.Usage,
		})
	case Started:
		open[key] = len(turns)
		return append(turns, Turn{Envelope: f.Envelope, Attempt: f.Attempt, Started: f.At})
	case Succeeded, Failed, Lost, Interrupted:
		if i, known := open[key]; known {
			t := &turns[i]
			t.Ended, t.Succeeded, t.Reason, t.Usage = f.At, f.Kind == Succeeded, f.Reason, f.Usage
			if t.Reason == "" && f.Kind != Succeeded {
				t.Reason = string(f.Kind)
			}
			delete(open, key)
		}
	}
	return turns
}
