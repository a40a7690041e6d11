package pair

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/oacp-go/oacp/agent"
	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/internal/jsonl"
)

// PastTurn is a turn of a run as the transcript tells it.
type PastTurn struct {
	Iteration int
	Agent     Agent
	// Began is when the agent first got its prompt.
	Began time.Time
	// Ended reports whether the turn has ended. Duration and Usage are zero before.
	Ended    bool
	Duration time.Duration
	Usage    agent.Usage
	// Signal is empty if the agent gave none.
	Signal bridge.Signal
}

// PastTurns returns the turns of a run, in the order in which they began. It also reads AgentPair's transcripts, and
// skips lines that are not entries. A run without a transcript has none.
func PastTurns(run bridge.Run) ([]PastTurn, error) {
	file, err := durable.OpenRegular(run.TranscriptPath(), os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("turns of run %d: %w", run.ID, err)
	}
	defer file.Close() // nothing is written
	var turns pastTurns
	_, err = jsonl.Each(file, 0, func(line []byte) {
		var e Entry
		if isTurn(line) && json.Unmarshal(line, &e) == nil {
			turns.add(&e)
		}
	})
	if err != nil {
		return turns, fmt.Errorf("turns of run %d: %w", run.ID, err)
	}
	return turns, nil
}

// isTurn reports whether a line may be about a turn. Most others are output of agents, and long.
func isTurn(line []byte) bool {
	begin := line[:min(len(line), 200)]
	return bytes.Contains(begin, []byte(EntryExecute)) || bytes.Contains(begin, []byte(EntryResult)) || bytes.Contains(begin, []byte(EntrySignal))
}

type pastTurns []PastTurn

func (turns *pastTurns) add(e *Entry) {
	last := turns.last(e.Agent)
	switch e.Type {
	case EntryExecute:
		if last == nil || last.Ended {
			*turns = append(*turns, PastTurn{Iteration: e.Iteration, Agent: e.Agent, Began: e.Timestamp})
		}
	case EntryResult:
		if last == nil || last.Ended {
			*turns = append(*turns, PastTurn{Iteration: e.Iteration, Agent: e.Agent, Began: e.Timestamp.Add(-e.Duration)})
			last = &(*turns)[len(*turns)-1]
		}
		last.Ended = true
		last.Duration = cmp.Or(e.Duration, e.Timestamp.Sub(last.Began))
		last.Usage = e.Usage
	case EntrySignal:
		if last != nil && last.Iteration == e.Iteration {
			last.Signal = e.Signal
		}
	}
}

// last returns the agent's last turn so far, or nil.
func (turns pastTurns) last(name Agent) *PastTurn {
	for i := range turns {
		if t := &turns[len(turns)-1-i]; t.Agent == name {
			return t
		}
	}
	return nil
}
