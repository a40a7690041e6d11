package bridge

import (
	"context"
	"errors"
	"fmt"
	"iter"
)

// Drain yields the records for agent, addressed to it or broadcast by another, whose ids are not in seen,
// in log order. It reads all of the agent's records; DrainSince and DrainAfter read the new ones only.
func (l *Log) Drain(ctx context.Context, agent string, seen map[string]bool) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		for e, err := range l.DrainAfter(ctx, agent, "") {
			if err == nil && seen[e.ID] {
				continue
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

// DrainSince yields the records for agent that stand behind the record with id since, which need not be one
// of the agent's; the empty id is the beginning of the log. If there is no such record the error matches
// ErrUnknownID.
func (l *Log) DrainSince(ctx context.Context, agent, since string) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		var after Cursor
		if since != "" {
			e, err := l.Get(ctx, since)
			if err != nil {
				yield(Entry{}, err)
				return
			}
			after = e.Cursor()
		}
		l.DrainAfter(ctx, agent, after)(yield)
	}
}

// DrainAfter yields the records for agent behind the cursor. A cursor of another log is ErrUnknownCursor.
func (l *Log) DrainAfter(ctx context.Context, agent string, after Cursor) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		if agent == "" {
			yield(Entry{}, errors.New("drain: the agent's name is empty"))
			return
		}
		pick := func(from int64) (nextCell, error) { return l.addressed(from, agent, "") }
		stopped := false
		err := l.walk(ctx, after, pick, func(reader *lineReader, c cell) (bool, error) {
			e, err := entryAt(reader, c)
			switch {
			case err != nil:
				return false, err
			case e.IsFor(agent):
				stopped = !yield(e, nil)
			case e.To != "": // else agent's own broadcast
				return false, fmt.Errorf("%w: a record to somebody else at byte %d", errDamaged, c.offset)
			}
			return !stopped, nil
		})
		if err != nil && !stopped {
			yield(Entry{}, err)
		}
	}
}

// Records yields all records behind the cursor, and a *LineError for each skipped line between them.
func (l *Log) Records(ctx context.Context, after Cursor) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		v, from, err := l.view(ctx, after, nil)
		if err != nil {
			yield(Entry{}, err)
			return
		}
		stopped, err := v.lines(ctx, from, func(line []byte, p position) bool {
			r, err := ParseRecord(trimLine(line[:len(line)-1], p.offset-int64(len(line))))
			if err != nil {
				return yield(Entry{}, &LineError{l.path, int(p.line), err})
			}
			return yield(newEntry(r, line, p.line, p.offset), nil)
		})
		if err = errors.Join(err, v.release()); err != nil && !stopped {
			yield(Entry{}, fmt.Errorf("read bridge log %s: %w", l.path, err))
		}
	}
}

// Skipped yields the lines that are no records, in log order, without reading the others.
func (l *Log) Skipped(ctx context.Context) iter.Seq2[*LineError, error] {
	return func(yield func(*LineError, error) bool) {
		stopped := false
		err := l.walk(ctx, "", l.unreadable, func(reader *lineReader, c cell) (bool, error) {
			line, _, err := reader.at(c.offset)
			if err != nil {
				return false, fmt.Errorf("%w: no line at byte %d: %w", errDamaged, c.offset, err)
			}
			if _, err = parse(trimLine(line, c.offset)); err == nil {
				return false, fmt.Errorf("%w: a record at byte %d", errDamaged, c.offset)
			}
			stopped = !yield(&LineError{l.path, int(c.line), err}, nil)
			return !stopped, nil
		})
		if err != nil && !stopped {
			yield(nil, err)
		}
	}
}

// End returns the cursor behind the last whole line.
func (l *Log) End(ctx context.Context) (Cursor, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.refresh(ctx, false); err != nil || l.end == 0 {
		return "", err
	}
	sample := make([]byte, min(cursorSample, l.end))
	if _, err := l.file.ReadAt(sample, l.end-int64(len(sample))); err != nil {
		return "", err
	}
	return formatCursor(position{l.end, l.lines}, cursorSum(lastLine(sample))), nil
}

// addressed gives the cells of the records to the named receivers from byte from on. The caller holds mu.
func (l *Log) addressed(from int64, names ...string) (nextCell, error) {
	var sources []nextCell
	for _, name := range names {
		for _, s := range l.chain {
			if s.To <= from {
				continue
			}
			next, err := s.receiver(name, from)
			if err != nil {
				return nil, err
			}
			sources = append(sources, next)
		}
		sources = append(sources, cellsOf(cellsFrom(l.tail.lists[name], from)))
	}
	return mergeCells(byOffset, sources...), nil
}

// unreadable gives the cells of the skipped lines from byte from on. The caller holds mu.
func (l *Log) unreadable(from int64) (nextCell, error) {
	var sources []nextCell
	for _, s := range l.chain {
		next, err := s.skipped(from)
		if err != nil {
			return nil, err
		}
		sources = append(sources, next)
	}
	return concatCells(append(sources, cellsOf(cellsFrom(l.tail.skipped, from)))), nil
}

// view is a log as it was at one moment. It stays readable while the log goes on.
type view struct {
	file  *sharedFile // nil where there is no log
	chain chain
	next  nextCell // of what pick picked
	end   int64
}

// view reads what is new in the log and returns it as it is now, and the place of the cursor.
func (l *Log) view(ctx context.Context, after Cursor, pick func(from int64) (nextCell, error)) (*view, position, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.refresh(ctx, false); err != nil {
		return nil, position{}, err
	}
	from, err := after.find(l.file, l.end)
	if err != nil {
		return nil, position{}, err
	}
	v := &view{file: l.file, chain: l.chain, end: l.end}
	if pick != nil {
		if v.next, err = pick(from.offset); err != nil {
			return nil, position{}, err
		}
	}
	v.chain.acquire()
	if v.file != nil {
		v.file.acquire()
	}
	return v, from, nil
}

func (v *view) release() error {
	err := v.chain.release()
	if v.file != nil {
		err = errors.Join(err, v.file.release())
	}
	return err
}

// walk visits the cells pick picks, behind the cursor, until visit returns false. If the index turns out
// wrong on the way the log is read again without it, and the walk goes on behind the last cell visited.
func (l *Log) walk(ctx context.Context, after Cursor, pick func(from int64) (nextCell, error),
	visit func(*lineReader, cell) (more bool, err error)) error {
	visited := int64(-1)
	for attempt := 1; ; attempt++ {
		v, _, err := l.view(ctx, after, func(from int64) (nextCell, error) { return pick(max(from, visited+1)) })
		if err == nil {
			err = v.each(ctx, func(reader *lineReader, c cell) (bool, error) {
				more, err := visit(reader, c)
				if err == nil {
					visited = c.offset
				}
				return more, err
			})
			err = errors.Join(err, v.release())
		}
		if !errors.Is(err, errDamaged) || attempt > 1 {
			return err
		}
		l.mu.Lock()
		l.warn(err)
		l.distrust()
		l.mu.Unlock()
	}
}

func (v *view) each(ctx context.Context, visit func(*lineReader, cell) (bool, error)) error {
	reader := newLineReader(v.file, v.end)
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		c, ok, err := v.next()
		if err != nil || !ok {
			return err
		}
		if more, err := visit(reader, c); err != nil || !more {
			return err
		}
	}
}

// lines calls use for each line, with its newline, from a position on, with the position behind it, until
// use returns false.
func (v *view) lines(ctx context.Context, at position, use func(line []byte, behind position) bool) (stopped bool, err error) {
	reader := newLineReader(v.file, v.end)
	for at.offset < v.end {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		_, end, err := reader.at(at.offset)
		if err != nil {
			return false, err
		}
		line := reader.window[at.offset-reader.start : end-reader.start]
		at = position{end, at.line + 1}
		if !use(line, at) {
			return true, nil
		}
	}
	return false, nil
}
