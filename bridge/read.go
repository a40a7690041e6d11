package bridge

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// Entry is a record at its place in a log.
type Entry struct {
	Record
	// Line is the number of the record's line, from 1.
	Line   int
	behind position
	sum    uint32 // of the last bytes of the line
}

// Cursor is the place behind the record.
func (e Entry) Cursor() Cursor { return formatCursor(e.behind, e.sum) }

// newEntry is the entry of a record whose line, with its newline, ends at end.
func newEntry(r Record, line []byte, number, end int64) Entry {
	return Entry{r, int(number), position{end, number}, cursorSum(line)}
}

// Get returns the record with the given id: the first, where a foreign writer wrote it twice. If there is
// none the error matches ErrUnknownID.
func (l *Log) Get(ctx context.Context, id string) (Entry, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.refresh(ctx, false); err != nil {
		return Entry{}, err
	}
	found, err := l.lookup(ctx, false, keyOf(id), 1, func(r *Record) bool { return r.ID == id })
	if err != nil {
		return Entry{}, err
	}
	if len(found) == 0 {
		return Entry{}, fmt.Errorf("%w: %q in %s", ErrUnknownID, id, l.path)
	}
	return found[0], nil
}

// Find returns the records with the given id, in log order: more than one, where a foreign writer wrote it
// twice.
func (l *Log) Find(ctx context.Context, id string) ([]Entry, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.refresh(ctx, false); err != nil {
		return nil, err
	}
	return l.lookup(ctx, false, keyOf(id), 0, func(r *Record) bool { return r.ID == id })
}

// FindPrefix returns the records whose id begins with prefix, in log order. The prefix must be at least 16
// lower-case hexadecimal digits: so many are indexed.
func (l *Log) FindPrefix(ctx context.Context, prefix string) ([]Entry, error) {
	key, ok := keyOfPrefix(prefix)
	if !ok {
		return nil, fmt.Errorf("id prefix %q does not begin with %d lower-case hexadecimal digits", prefix, keyDigits)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.refresh(ctx, false); err != nil {
		return nil, err
	}
	return l.lookup(ctx, false, key, 0, func(r *Record) bool { return strings.HasPrefix(r.ID, prefix) })
}

// lookup returns the entries with key that match, at most limit of them (0: all), in log order. What the
// index says is compared with the log; if they differ the index is dropped and the log read again. The
// caller holds mu and has called refresh.
func (l *Log) lookup(ctx context.Context, locked bool, key uint64, limit int, match func(*Record) bool) ([]Entry, error) {
	found, err := l.lookupOnce(key, limit, match)
	if !errors.Is(err, errDamaged) {
		return found, err
	}
	l.warn(err)
	l.distrust()
	if err := l.refresh(ctx, locked); err != nil {
		return nil, err
	}
	return l.lookupOnce(key, limit, match)
}

func (l *Log) lookupOnce(key uint64, limit int, match func(*Record) bool) ([]Entry, error) {
	var found []Entry
	var reader *lineReader
	check := func(cells []cell) error {
		for _, c := range cells {
			if limit > 0 && len(found) == limit {
				return nil
			}
			if reader == nil {
				reader = newLineReader(l.file, l.end)
			}
			e, err := entryAt(reader, c)
			if err != nil {
				return err
			}
			if match(&e.Record) {
				found = append(found, e)
			}
		}
		return nil
	}
	for _, s := range l.chain {
		cells, err := s.find(key)
		if err != nil {
			return nil, err
		}
		if err := check(cells); err != nil {
			return nil, err
		}
	}
	return found, check(l.tail.find(key))
}

// entryAt reads the record a cell speaks of. A line that is not the cell's is errDamaged.
func entryAt(reader *lineReader, c cell) (Entry, error) {
	line, end, err := reader.at(c.offset)
	if errors.Is(err, errTorn) {
		return Entry{}, fmt.Errorf("%w: no line at byte %d", errDamaged, c.offset)
	}
	if err != nil {
		return Entry{}, err
	}
	r, err := ParseRecord(trimLine(line, c.offset))
	if err != nil || keyOf(r.ID) != c.key {
		return Entry{}, fmt.Errorf("%w: another line at byte %d", errDamaged, c.offset)
	}
	return newEntry(r, reader.window[c.offset-reader.start:end-reader.start], c.line, end), nil
}

// Status is what a log holds, in numbers.
type Status struct {
	// TotalMessages counts the records.
	TotalMessages int `json:"total_messages"`
	// ByAgent counts the records each agent sent.
	ByAgent map[string]int `json:"by_agent"`
	// ByType counts the records of each type, undocumented types included.
	ByType map[Type]int `json:"by_type"`
	// HasDoneSignal says that there is a record of type signal with signal DONE.
	HasDoneSignal bool `json:"has_done_signal"`
	// PassCount and FailCount count the records of type signal with signals PASS and FAIL.
	PassCount int `json:"pass_count"`
	FailCount int `json:"fail_count"`
	// SkippedLines counts the lines that are no records; see [Log.Skipped].
	SkippedLines int `json:"skipped_lines"`
	// TornBytes is the size of a last line without a newline: a write under way, or cut off by a crash. It
	// counts nowhere else.
	TornBytes int64 `json:"torn_bytes"`
}

// Status counts what the log holds.
func (l *Log) Status(ctx context.Context) (Status, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.refresh(ctx, false); err != nil {
		return Status{}, err
	}
	base, err := l.chain.counts()
	if errors.Is(err, errDamaged) {
		l.warn(err)
		l.distrust()
		if err := l.refresh(ctx, false); err != nil {
			return Status{}, err
		}
		base, err = l.chain.counts()
	}
	if err != nil {
		return Status{}, err
	}
	sum := base.plus(l.tail.counts)
	return Status{
		TotalMessages: sum.Total,
		ByAgent:       sum.ByAgent,
		ByType:        sum.ByType,
		HasDoneSignal: sum.Done > 0,
		PassCount:     sum.Pass,
		FailCount:     sum.Fail,
		SkippedLines:  sum.Skipped,
		TornBytes:     l.torn,
	}, nil
}
