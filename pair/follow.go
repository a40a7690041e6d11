package pair

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"time"

	"github.com/oacp-go/oacp/bridge"
)

// followInterval is how often a transcript that has been read to its end is
// looked at again.
const followInterval = 100 * time.Millisecond

// Follow yields the transcript of a run from its beginning, and then what is
// added to it: the entries of one agent and those of none. It ends when the
// transcript ends in an EntryEnd or no process drives the run any more, and
// with the context's cause when that ends. A line that a crash cut off is left
// out.
func Follow(ctx context.Context, run bridge.Run, name Agent) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		file, err := os.Open(run.TranscriptPath())
		if err != nil {
			yield(Entry{}, err)
			return
		}
		defer file.Close() // it is only read
		f := follower{reader: bufio.NewReader(file), name: name}
		tick := time.NewTicker(followInterval)
		defer tick.Stop()
		for {
			// What is written before a process leaves the run is there when it
			// has left: so this is asked first.
			driven, _, err := Driven(run)
			if err != nil {
				yield(Entry{}, err)
				return
			}
			switch more, err := f.read(yield); {
			case err != nil:
				yield(Entry{}, fmt.Errorf("reading the transcript of run %d: %w", run.ID, err))
				return
			case !more || f.ended || !driven:
				return
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				yield(Entry{}, context.Cause(ctx))
				return
			}
		}
	}
}

// A follower reads a transcript that grows.
type follower struct {
	reader *bufio.Reader
	name   Agent
	// line is the beginning of a line whose end has not come yet.
	line []byte
	// ended says that the last entry was an EntryEnd.
	ended bool
}

// read yields what is there, and reports whether more is wanted.
func (f *follower) read(yield func(Entry, error) bool) (more bool, err error) {
	for {
		part, err := f.reader.ReadBytes('\n')
		f.line = append(f.line, part...)
		if errors.Is(err, io.EOF) {
			f.ended = f.ended && len(f.line) == 0
			return true, nil
		}
		if err != nil {
			return false, err
		}
		var e Entry
		if json.Unmarshal(f.line, &e) == nil {
			f.ended = e.Type == EntryEnd
			if (e.Agent == "" || e.Agent == f.name) && !yield(e, nil) {
				return false, nil
			}
		}
		f.line = nil
	}
}
