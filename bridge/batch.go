package bridge

import (
	"bytes"
	"context"
	"errors"
	"time"
)

// batch is the records of one SendAll on their way into the log.
type batch struct {
	log      *Log
	records  []prepared
	receipts []Receipt
	sent     map[string]int // id to the receipt of this batch's record with that id
	repeats  map[int]int    // receipt of a second record with an id of this batch to that of the first
	chunk    []byte         // the lines to write next
	waiting  []prepared     // their records
}

// prepared is a record ready to be written.
type prepared struct {
	Record
	size    int // of its line, with the newline
	receipt int // number of its receipt
}

// prepare completes, checks and encodes a record.
func (b *batch) prepare(r Record) error {
	if r.line == nil {
		if r.RunID == 0 {
			r.RunID = b.log.options.RunID
		}
		if r.Timestamp == "" {
			r.Timestamp = b.log.options.Now().UTC().Format(time.RFC3339Nano)
		}
		if r.ID == "" {
			r.ID = GenerateID(r.Type, r.From, r.To, r.Content)
		}
		if err := r.Validate(); err != nil {
			return err
		}
	}
	line, err := r.Encode()
	if err != nil {
		return err
	}
	if r, err = parse(line); err != nil { // the receipt shows what any reader will see
		return err
	}
	b.records = append(b.records, prepared{Record: r})
	return nil
}

// append writes the records that are new. The caller holds all locks.
func (b *batch) append(ctx context.Context) error {
	const chunkSize = 1 << 20
	for _, p := range b.records {
		p.receipt = len(b.receipts)
		if first, ok := b.sent[p.ID]; ok {
			b.repeats[p.receipt] = first
			b.receipts = append(b.receipts, Receipt{Duplicate: true})
			continue
		}
		found, err := b.log.lookup(ctx, true, keyOf(p.ID), 1, func(r *Record) bool { return r.ID == p.ID })
		if err != nil {
			return errors.Join(err, b.flush(ctx))
		}
		b.sent[p.ID] = p.receipt
		if len(found) > 0 {
			b.receipts = append(b.receipts, Receipt{found[0], true})
			continue
		}
		b.receipts = append(b.receipts, Receipt{})
		b.chunk = append(append(b.chunk, p.line...), '\n')
		p.size = len(p.line) + 1
		if b.waiting = append(b.waiting, p); len(b.chunk) >= chunkSize {
			if err := b.flush(ctx); err != nil {
				return err
			}
		}
	}
	return b.flush(ctx)
}

// flush writes the chunk with one write(2) and fills in the receipts. If only a part can be written, the
// whole lines of that part stay and count, and the receipts from the first other record on are dropped.
func (b *batch) flush(ctx context.Context) error {
	if len(b.waiting) == 0 {
		return nil
	}
	start := b.log.end
	written, err := b.log.writer.Write(b.chunk)
	if err != nil {
		whole := bytes.LastIndexByte(b.chunk[:written], '\n') + 1
		err = errors.Join(err, b.log.cutBack(start+int64(written), start+int64(whole)))
		written = whole
	}
	// What was written is there, whatever becomes of ctx.
	err = errors.Join(err, b.account(context.WithoutCancel(ctx), start, int64(written)))
	b.chunk, b.waiting = b.chunk[:0], b.waiting[:0]
	return err
}

// cutBack removes the part of a line a failed write left, so that no reader has to skip it. Where another
// writer went on behind it, it stays, to be skipped as a torn line.
func (l *Log) cutBack(end, whole int64) error {
	if end == whole {
		return nil
	}
	info, err := l.writer.Stat()
	if err != nil || info.Size() != end {
		return err
	}
	return l.writer.Truncate(whole)
}

// account takes the records of the chunk's first written bytes into the tail and fills in their receipts.
func (b *batch) account(ctx context.Context, start, written int64) error {
	l := b.log
	info, err := l.writer.Stat()
	if err != nil {
		return err
	}
	alone := info.Size() == start+written // nobody without our lock wrote meanwhile
	if !alone {
		if err := l.refresh(ctx, true); err != nil {
			return err
		}
	}
	lines := b.chunk
	for _, p := range b.waiting {
		if written -= int64(p.size); written < 0 {
			b.receipts = b.receipts[:p.receipt]
			break
		}
		if alone {
			l.lines++
			l.tail.addRecord(&p.Record, l.end, l.lines)
			l.end += int64(p.size)
			l.remember(lines[:p.size])
			b.receipts[p.receipt].Entry = newEntry(p.Record, lines[:p.size], l.lines, l.end)
			lines = lines[p.size:]
			continue
		}
		found, err := l.lookup(ctx, true, keyOf(p.ID), 1, func(r *Record) bool { return r.ID == p.ID })
		if err != nil {
			return err
		}
		if len(found) == 0 {
			return errors.New("a record that was written is not in the log: somebody replaced or cut it")
		}
		b.receipts[p.receipt].Entry = found[0]
	}
	for repeat, first := range b.repeats {
		if repeat < len(b.receipts) {
			b.receipts[repeat].Entry = b.receipts[first].Entry
		}
	}
	return nil
}
