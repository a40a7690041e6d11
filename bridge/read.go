package bridge

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"strings"

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

// newEntry returns the entry of a record whose line, given with its newline, ends at end.
func newEntry(r Record, line []byte, number, end int64) Entry {
	return Entry{r, int(number), position{end, number}, cursorSum(line)}
}

// LineError reports a line of a log that is not a record.
type LineError struct {
	Path string // the log
	Line int    // counted from 1
	Err  error  // what is wrong with it
}

func (e *LineError) Error() string { return fmt.Sprintf("%s:%d: %v", e.Path, e.Line, e.Err) }

func (e *LineError) Unwrap() error { return e.Err }

// errPartial reports bytes behind the last newline of a log.
var errPartial = errors.New("last line has no newline")

// Get returns the record with the given ID: the first one, if another program wrote the ID twice. If there
// is none the error matches ErrUnknownID.
func (l *Log) Get(ctx context.Context, id string) (Entry, error) {
	found, err := l.Find(ctx, id)
	if err != nil {
		return Entry{}, err
	}
	if len(found) == 0 {
		return Entry{}, fmt.Errorf("%w: %q in %s", ErrUnknownID, id, l.path)
	}
	return found[0], nil
}

// Find returns the records with the given ID, in log order. There is more than one if another program wrote
// the ID twice.
func (l *Log) Find(ctx context.Context, id string) ([]Entry, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.refresh(ctx, false); err != nil {
		return nil, err
	}
	return l.lookup(ctx, id, func(other string) bool { return other == id }, false)
}

// FindPrefix returns the records whose ID begins with prefix, in log order. The prefix must be at least 16
// lower-case hexadecimal digits, which is how many the index covers.
func (l *Log) FindPrefix(ctx context.Context, prefix string) ([]Entry, error) {
	if !hasKeyDigits(prefix) {
		return nil, fmt.Errorf("id prefix %q does not begin with %d lower-case hexadecimal digits", prefix, keyDigits)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.refresh(ctx, false); err != nil {
		return nil, err
	}
	return l.lookup(ctx, prefix, func(other string) bool { return strings.HasPrefix(other, prefix) }, false)
}

// lookup returns the entries with the key of id whose own ID matches, in log order. The caller holds mu,
// has called refresh, and says whether it holds the log's lock.
func (l *Log) lookup(ctx context.Context, id string, match func(string) bool, locked bool) (found []Entry, err error) {
	err = l.retry(ctx, locked, func() error {
		found = nil
		return l.visit(keyOf(id), func(c cell, line []byte) error {
			r, err := ParseRecord(trimLine(line, c.offset))
			if err != nil || keyOf(r.ID) != c.key {
				return fmt.Errorf("%w: another line at byte %d", errDamaged, c.offset)
			}
			if match(r.ID) {
				found = append(found, newEntry(r, line, c.line, c.offset+int64(len(line))))
			}
			return nil
		})
	})
	return found, err
}

// Skipped returns the lines that are not records, in log order, without reading the others.
func (l *Log) Skipped(ctx context.Context) (skipped []*LineError, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.refresh(ctx, false); err != nil {
		return nil, err
	}
	err = l.retry(ctx, false, func() error {
		skipped = nil
		return l.visit(skippedKey, func(c cell, line []byte) error {
			_, err := ParseRecord(trimLine(line, c.offset))
			if err == nil {
				return fmt.Errorf("%w: a record at byte %d", errDamaged, c.offset)
			}
			skipped = append(skipped, &LineError{l.path, int(c.line), err})
			return nil
		})
	})
	return skipped, err
}

// retry calls use, which compares the index with the log. If the index does not fit, retry reads the log
// again without it, and calls use once more.
func (l *Log) retry(ctx context.Context, locked bool, use func() error) error {
	err := use()
	if !errors.Is(err, errDamaged) {
		return err
	}
	l.warnOfIndex(err)
	l.distrust()
	if err := l.refresh(ctx, locked); err != nil {
		return err
	}
	return use()
}

// visit calls do with each cell that has the key, and its line, in log order.
func (l *Log) visit(key uint64, do func(c cell, line []byte) error) error {
	cells, err := l.index.find(key)
	if err != nil {
		return err
	}
	cells = append(cells, l.recent[key]...)
	if len(cells) == 0 {
		return nil
	}
	reader := jsonl.NewReader(io.NewSectionReader(l.file, 0, l.read.End), 0)
	for _, c := range cells {
		line, _, err := reader.Line(c.offset)
		if err == io.EOF {
			err = fmt.Errorf("%w: no line at byte %d", errDamaged, c.offset)
		}
		if err == nil {
			err = do(c, line)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Records yields all records behind the cursor, and a *LineError for each line between them that is not a
// record.
func (l *Log) Records(ctx context.Context, after Cursor) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) { l.each(ctx, "", after, yield) }
}

// Drain yields the records for agent behind the cursor, in log order: those addressed to it, and the
// broadcasts of others. The error matches ErrUnknownCursor if the cursor is one of another log.
func (l *Log) Drain(ctx context.Context, agent string, after Cursor) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		if agent == "" {
			yield(Entry{}, errors.New("drain: the agent's name is empty"))
			return
		}
		l.each(ctx, agent, after, yield)
	}
}

// each yields the records for agent, or for the empty agent all records and *LineErrors.
func (l *Log) each(ctx context.Context, agent string, after Cursor, yield func(Entry, error) bool) {
	file, at, end, err := l.view(ctx, after)
	if err != nil {
		yield(Entry{}, err)
		return
	}
	if file == nil {
		return
	}
	defer func() { l.warn(file.release()) }()
	reader := jsonl.NewReader(io.NewSectionReader(file, 0, end), 0)
	for at.offset < end {
		line, next, err := reader.Line(at.offset)
		if err = cmp.Or(ctx.Err(), err); err != nil {
			yield(Entry{}, fmt.Errorf("read bridge log %s: %w", l.path, err))
			return
		}
		text := trimLine(line, at.offset)
		at = position{next, at.line + 1}
		var r Record
		wanted := true
		if agent != "" {
			r, wanted = parseFor(text, agent)
		} else if r, err = ParseRecord(text); err != nil {
			err = &LineError{l.path, int(at.line), err}
		}
		if wanted && !yield(newEntry(r, line, at.line, next), err) {
			return
		}
	}
}

// view reads what is new, and returns the log as it is now, which stays readable while the log goes on:
// the file, which the caller releases, the cursor's place in it, and its end. The file is nil if there is
// no log.
func (l *Log) view(ctx context.Context, after Cursor) (file *sharedFile, at position, end int64, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.refresh(ctx, false); err != nil {
		return nil, at, 0, err
	}
	if at, err = l.find(after); err != nil || l.file == nil {
		return nil, at, 0, err
	}
	l.file.users.Add(1)
	return l.file, at, l.read.End, nil
}

// trimLine removes what is not part of a line's JSON: a byte order mark at the start of the log.
func trimLine(line []byte, offset int64) []byte {
	if offset == 0 {
		line = bytes.TrimPrefix(line, []byte("\xef\xbb\xbf"))
	}
	return line
}

// ReadRecords yields the records of a log that comes as a stream, and a *LineError for each line that is
// not a record; name is the stream's name in errors. A last line without a newline counts if it is a
// record, since nothing more can come. Any other error is the reader's and ends the records. The cursors of
// these records belong to no log.
func ReadRecords(r io.Reader, name string) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		lines := bufio.NewReader(r)
		offset := int64(0)
		for number := int64(1); ; number++ {
			line, err := lines.ReadBytes('\n')
			if err != nil && err != io.EOF {
				yield(Entry{}, fmt.Errorf("read %s: %w", name, err))
				return
			}
			atEnd := err == io.EOF
			if atEnd && len(bytes.TrimSpace(line)) == 0 {
				return
			}
			r, err := ParseRecord(trimLine(line, offset))
			offset += int64(len(line))
			if err != nil && atEnd {
				err = fmt.Errorf("%w: %w", errPartial, err)
			}
			if err != nil {
				err = &LineError{name, int(number), err}
			}
			if !yield(newEntry(r, line, number, offset), err) || atEnd {
				return
			}
		}
	}
}

// Status is what a log holds, in numbers.
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
	// TornBytes is the size of a last line without a newline: a write in progress, or cut off by a crash.
	// It counts nowhere else.
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

// count adds a record or, if r is nil, a line that is not one.
func (s *Status) count(r *Record) {
	if r == nil {
		s.SkippedLines++
		return
	}
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
