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
// transcript ends in an EntryEnd, and with the context's cause when that ends.
// A line that a crash cut off is left out.
func Follow(ctx context.Context, run bridge.Run, name Agent) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		file, err := os.Open(run.TranscriptPath())
		if err != nil {
			yield(Entry{}, err)
			return
		}
		defer file.Close() // it is only read
		tick := time.NewTicker(followInterval)
		defer tick.Stop()
		reader := bufio.NewReader(file)
		var line []byte
		ended := false
		for {
			part, err := reader.ReadBytes('\n')
			line = append(line, part...)
			switch {
			case err == nil:
				var e Entry
				if json.Unmarshal(line, &e) == nil {
					ended = e.Type == EntryEnd
					if (e.Agent == "" || e.Agent == name) && !yield(e, nil) {
						return
					}
				}
				line = nil
				continue
			case !errors.Is(err, io.EOF):
				yield(Entry{}, fmt.Errorf("reading the transcript of run %d: %w", run.ID, err))
				return
			case ended && len(line) == 0:
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
