package track

import (
	"encoding/json"
	"io"
	"slices"
	"time"

	"github.com/oacp-go/oacp/internal/jsonl"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// Turns returns the turns of an agent that its journal still has, in the order in which they began. Ended is zero for
// a turn that has not ended. A compacted journal has only the last turn on each message.
func Turns(w *mailbox.Workspace, agent schema.AgentName) (turns []Turn, err error) {
	open := make(map[Key]int) // where the turns are that have not ended
	err = readJournal(w, agent, func(journal io.ReaderAt) error {
		_, err := jsonl.Each(journal, 0, func(line []byte) {
			var f struct {
				Fact
				// These can be long, and are not needed.
				Send   struct{} `json:"send"`
				Thread struct{} `json:"conversation"`
				Sender struct{} `json:"sender"`
			}
			if json.Unmarshal(line, &f) == nil {
				turns = appendTurn(turns, open, &f.Fact)
			}
		})
		return err
	})
	return turns, err
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
		return append(turns, turnOf(rec))
	case Started:
		open[key] = len(turns)
		return append(turns, Turn{Envelope: f.Envelope, Attempt: f.Attempt, Started: f.At})
	case Succeeded, Asked, Failed, Lost, Interrupted:
		if i, known := open[key]; known {
			t := &turns[i]
			t.Ended = f.At
			t.Succeeded = f.Kind == Succeeded || f.Kind == Asked
			t.Reason = f.Reason
			t.Usage = f.Usage
			if t.Reason == "" && !t.Succeeded {
				t.Reason = string(f.Kind)
			}
			delete(open, key)
		}
	}
	return turns
}

// clockBack is how far in the future a turn may have begun and still count. A later one began before the clock was
// set back, and must not hold up others until the clock catches up.
const clockBack = time.Minute

// Within returns the turns that count at a time, in order.
func (s *senderState) Within(now time.Time) []time.Time {
	return slices.DeleteFunc(slices.Clone(s.Turns), func(began time.Time) bool {
		age := now.Sub(began)
		return age >= PairWindow || age < -clockBack
	})
}
