package bridge

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"maps"
	"os"

	"github.com/oacp-go/oacp/internal/jsonl"
)

// Entry is a record at its place in a log.
type Entry struct {
	Record
	// Line is the number of the record's line, from 1.
	Line   int
	behind position
	sum    uint32 // of the last bytes of the line
}

// Cursor returns the place behind the record.
func (e Entry) Cursor() Cursor { return formatCursor(e.behind, e.sum) }

// LineError reports a line of a log that is not a record.
type LineError struct {
	Path string // the log
	Line int    // counted from 1
	Err  error  // what is wrong with it
}

func (e *LineError) Error() string { return fmt.Sprintf("%s:%d: %v", e.Path, e.Line, e.Err) }

func (e *LineError) Unwrap() error { return e.Err }

// Find returns the records with the given ID, in log order. There is more than one if another
// program wrote the ID twice.
func (l *Log) Find(ctx context.Context, id string) ([]Entry, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.refresh(ctx, false); err != nil {
		return nil, err
	}
	return l.lookup(ctx, id, false)
}

// lookup returns the entries with the ID, in log order. The caller holds mu and has called refresh;
// locked reports whether it also holds the log's lock. If the index does not match the log, lookup reads
// the index again, which another process may have changed, and then the log without the index.
func (l *Log) lookup(ctx context.Context, id string, locked bool) ([]Entry, error) {
	for _, retry := range []func(){l.forget, l.distrust} {
		found, err := l.findIndexed(id)
		if !errors.Is(err, errDamaged) {
			return found, err
		}
		if !errors.Is(err, fs.ErrNotExist) {
			l.warnOfIndex(err)
		}
		retry()
		if err := l.refresh(ctx, locked); err != nil {
			return nil, err
		}
	}
	return l.findIndexed(id)
}

// findIndexed returns the entries with the ID, each compared with its line in the log.
func (l *Log) findIndexed(id string) (found []Entry, err error) {
	cells, err := l.index.find(keyOf(id))
	if err != nil {
		return nil, err
	}
	cells = append(cells, l.recent[keyOf(id)]...)
	reader := jsonl.NewReader(io.NewSectionReader(l.file, 0, l.read.End))
	for _, c := range cells {
		line, _, err := reader.Line(c.offset)
		if err != nil && err != io.EOF {
			return nil, err
		}
		r, parseErr := ParseRecord(trimLine(line, c.offset))
		if err == io.EOF || parseErr != nil || keyOf(r.ID) != c.key {
			return nil, fmt.Errorf("%w: another line at byte %d", errDamaged, c.offset)
		}
		if r.ID == id {
			behind := position{c.offset + int64(len(line)), c.line}
			found = append(found, Entry{r, int(c.line), behind, cursorSum(line, behind.line)})
		}
	}
	return found, nil
}

// Skipped returns the lines that are not records, in log order.
func (l *Log) Skipped(ctx context.Context) (skipped []*LineError, err error) {
	status, err := l.Status(ctx)
	if err != nil || status.SkippedLines == 0 {
		return nil, err
	}
	for _, err := range l.Records(ctx, "") {
		if line, ok := errors.AsType[*LineError](err); ok {
			skipped = append(skipped, line)
		} else if err != nil {
			return skipped, err
		}
	}
	return skipped, nil
}

// Records yields all records behind the cursor. For each line that is not a record it yields the line's
// place with a *LineError. The error matches ErrUnknownCursor if the cursor belongs to another log.
func (l *Log) Records(ctx context.Context, after Cursor) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		file, at, end, err := l.view(ctx, after)
		if err != nil {
			yield(Entry{}, err)
			return
		}
		if file == nil {
			return
		}
		defer func() { l.warn(file.Close()) }()
		for e, err := range scan(ctx, l.path, file, at, end) {
			if !yield(e, err) || e.Line == 0 {
				return
			}
			at = e.behind
		}
		if at.offset < end {
			yield(Entry{}, fmt.Errorf("read bridge log %s: %w", l.path, io.ErrUnexpectedEOF))
		}
	}
}

// Drain yields the records for agent behind the cursor, in log order: those addressed to it, and
// the broadcasts of others. It omits lines that are not records.
func (l *Log) Drain(ctx context.Context, agent string, after Cursor) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		for e, err := range l.Records(ctx, after) {
			_, skipped := errors.AsType[*LineError](err)
			if !skipped && (err != nil || e.IsFor(agent)) && !yield(e, err) {
				return
			}
		}
	}
}

// view reads what is new and opens the log. It returns the file, which the caller closes, the cursor's
// place in it, and its end. The file is nil if there is nothing behind the cursor.
func (l *Log) view(ctx context.Context, after Cursor) (file *os.File, at position, end int64, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.refresh(ctx, false); err != nil {
		return nil, at, 0, err
	}
	if at, err = l.find(after); err != nil || at.offset == l.read.End {
		return nil, at, 0, err
	}
	file, info, err := openRegular(l.path, os.O_RDONLY)
	if err == nil && !os.SameFile(info, l.info) {
		err = errors.Join(fmt.Errorf("bridge log %s: %w", l.path, errReplaced), file.Close())
	}
	return file, at, l.read.End, err
}

// scan yields the lines of a log between a place and an offset: an Entry, and a *LineError with it
// if the line is not a record. Any other error ends the lines.
func scan(ctx context.Context, path string, log io.ReaderAt, at position, end int64) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		reader := jsonl.NewReader(io.NewSectionReader(log, 0, end))
		for {
			line, next, err := reader.Line(at.offset)
			if err == io.EOF {
				return
			}
			if err = cmp.Or(ctx.Err(), err); err != nil {
				yield(Entry{}, fmt.Errorf("read bridge log %s: %w", path, err))
				return
			}
			r, err := ParseRecord(trimLine(line, at.offset))
			at = position{next, at.line + 1}
			if err != nil {
				err = &LineError{path, int(at.line), err}
			}
			if !yield(Entry{r, int(at.line), at, cursorSum(line, at.line)}, err) {
				return
			}
		}
	}
}

// trimLine removes a byte order mark at the start of the log.
func trimLine(line []byte, offset int64) []byte {
	if offset == 0 {
		line = bytes.TrimPrefix(line, []byte("\xef\xbb\xbf"))
	}
	return line
}

// ReadRecords yields the records of a log that comes as a stream, and a *LineError for each line
// that is not a record; name is the stream's name in errors. A last line without a newline also counts,
// since nothing more can follow. An error of the reader ends the iteration. The entries have no cursors.
func ReadRecords(r io.Reader, name string) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		lines := bufio.NewReader(r)
		for number := 1; ; number++ {
			line, readErr := lines.ReadBytes('\n')
			if readErr != nil && readErr != io.EOF {
				yield(Entry{}, fmt.Errorf("read %s: %w", name, readErr))
				return
			}
			if readErr == io.EOF && len(bytes.TrimSpace(line)) == 0 {
				return
			}
			r, err := ParseRecord(trimLine(line, int64(number-1)))
			if err != nil {
				err = &LineError{name, number, err}
			}
			if !yield(Entry{Record: r, Line: number}, err) || readErr == io.EOF {
				return
			}
		}
	}
}

// Status counts what a log holds.
type Status struct {
	// TotalMessages counts the records.
	TotalMessages int `json:"total_messages"`
	// ByAgent counts the records that each agent sent.
	ByAgent map[string]int `json:"by_agent"`
	// ByType counts the records of each type, undocumented types included.
	ByType map[Type]int `json:"by_type"`
	// HasDoneSignal reports whether there is a record of type signal with signal DONE.
	HasDoneSignal bool `json:"has_done_signal"`
	// PassCount and FailCount count the records of type signal with signals PASS and FAIL.
	PassCount int `json:"pass_count"`
	FailCount int `json:"fail_count"`
	// SkippedLines counts the lines that are not records; see [Log.Skipped].
	SkippedLines int `json:"skipped_lines"`
	// TornBytes is the size of a last line without a newline: a write in progress, or cut off by a
	// crash. It counts nowhere else.
	TornBytes int64 `json:"torn_bytes"`
}

// Status counts what the log holds.
func (l *Log) Status(ctx context.Context) (Status, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.refresh(ctx, false); err != nil {
		return Status{}, err
	}
	status := l.read.Status.clone()
	status.TornBytes = l.partial
	return status, nil
}

// clone returns a copy with maps of its own, which are not nil.
func (s Status) clone() Status {
	if s.ByAgent, s.ByType = maps.Clone(s.ByAgent), maps.Clone(s.ByType); s.ByAgent == nil {
		s.ByAgent, s.ByType = map[string]int{}, map[Type]int{}
	}
	return s
}

func (s *Status) count(r Record) {
	s.TotalMessages++
	s.ByAgent[r.From]++
	s.ByType[r.Type]++
	if r.Type != TypeSignal {
		return
	}
	switch r.Signal {
	case SignalDone:
		s.HasDoneSignal = true
	case SignalPass:
		s.PassCount++
	case SignalFail:
		s.FailCount++
	}
}
