package dashboard

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/oacp-go/oacp/bridge"
)

// logReader reads the records of a run's bridge log, each once.
type logReader struct {
	run    bridge.Run
	mark   fileMark // of the log, when it was read to its end
	cursor bridge.Cursor
	line   int // the last one that was read
	held   backlog
}

func (r *logReader) read(ctx context.Context, _ []Message) reading {
	now := markOf(r.run.BridgePath())
	if now == r.mark && now != (fileMark{}) {
		return reading{}
	}
	err := r.readOn(ctx)
	if errors.Is(err, bridge.ErrUnknownCursor) { // another log has taken its place
		*r = logReader{run: r.run}
		err = r.readOn(ctx)
	}
	if err == nil {
		r.mark = now
	}
	return reading{changed: true, entries: slices.Clone(r.held.entries), omitted: r.held.omitted, err: err}
}

// readOn reads what is new.
func (r *logReader) readOn(ctx context.Context) (err error) {
	log, err := r.run.Open(nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	for e, err := range log.Records(ctx, r.cursor) {
		var bad *bridge.LineError
		switch {
		case errors.As(err, &bad):
			if bad.Line > r.line { // what ends in such lines is read with them again
				r.line = bad.Line
				r.held.add(&entry{id: strconv.Itoa(bad.Line), head: fmt.Sprintf("line %d is no record: %v", bad.Line, bad.Err)})
			}
		case err != nil:
			return err
		default:
			r.cursor, r.line = e.Cursor(), e.Line
			r.held.add(&entry{id: strconv.Itoa(e.Line), head: recordHead(e.Record), text: e.Content})
		}
	}
	return nil
}

// recordHead says when a record was made, who by and for whom, and what it
// is.
func recordHead(r bridge.Record) string {
	at := r.Timestamp
	if t, err := time.Parse(time.RFC3339Nano, at); err == nil {
		at = t.UTC().Format(time.DateTime)
	}
	to := r.To
	if to == "" {
		to = "all"
	}
	head := at + "  " + r.From + " -> " + to + "  " + string(r.Type)
	if r.Signal != "" {
		head += " " + string(r.Signal)
	}
	if r.Iteration > 0 {
		head += fmt.Sprintf("  iteration %d", r.Iteration)
	}
	return head
}
