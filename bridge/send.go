package bridge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/internal/jsonl"
)

// Receipt is the outcome of sending a record.
type Receipt struct {
	// Entry is the record in the log: the one just written or, for a duplicate, the earlier one.
	Entry
	// Duplicate reports that nothing was written: the log already held a record with this ID.
	Duplicate bool
}

// Conflict returns an error that matches ErrSharedID unless the record in the log says the same as the
// one that was sent; see [Record.SaysTheSame].
func (r Receipt) Conflict(sent Record) error {
	if r.SaysTheSame(sent) {
		return nil
	}
	return fmt.Errorf("%w: line %d: type=%s from=%s to=%s signal=%s", ErrSharedID, r.Line, r.Type, r.From, r.To, r.Signal)
}

// Send appends a record unless the log already holds one with its ID. The receipt has the record that
// the log holds.
//
// Send fills in the ID, run ID and time of a record made by the caller and checks it with
// [Record.Validate]. It appends a record read from a log unchanged. Send returns when the record is
// on disk. After an error nothing of the record is in the log, unless the error matches ErrNotSynced.
func (l *Log) Send(ctx context.Context, r Record) (Receipt, error) {
	receipts, err := l.SendAll(ctx, []Record{r})
	if len(receipts) == 0 {
		return Receipt{}, err
	}
	return receipts[0], err
}

// SendAll sends many records in order, with one lock, one write and one fsync. It returns one
// receipt for each record up to the first that failed; the later ones are not in the log. If a
// record is not valid, SendAll writes nothing.
func (l *Log) SendAll(ctx context.Context, records []Record) ([]Receipt, error) {
	if len(records) == 0 {
		return nil, ctx.Err()
	}
	prepared := make([]Record, len(records))
	for i, r := range records {
		var err error
		if prepared[i], err = l.prepare(r); err != nil {
			return nil, fmt.Errorf("record %d of %d: %w", i+1, len(records), err)
		}
	}
	select {
	case l.sending <- struct{}{}:
		defer func() { <-l.sending }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	receipts, err := l.lockAndAppend(ctx, prepared)
	// Duplicates are also synced: the process that wrote them may have been killed before its fsync.
	if len(receipts) > 0 && !l.options.NoSync {
		if syncErr := l.writer.Sync(); syncErr != nil {
			err = errors.Join(err, fmt.Errorf("%w: %s: %w", ErrNotSynced, l.path, syncErr))
		}
	}
	if err != nil {
		err = fmt.Errorf("append to bridge log %s: %w", l.path, err)
	}
	return receipts, err
}

// prepare completes and checks a record. The result is what every reader of its line will get.
func (l *Log) prepare(r Record) (Record, error) {
	if r.line == "" {
		if r.RunID == 0 {
			r.RunID = l.options.RunID
		}
		if r.Timestamp == "" {
			r.Timestamp = l.options.Now().UTC().Format(time.RFC3339Nano)
		}
		if r.ID == "" {
			r.ID = GenerateID(r.Type, r.From, r.To, r.Content)
		}
		if err := r.Validate(); err != nil {
			return Record{}, err
		}
	}
	line, err := r.Encode()
	if err != nil {
		return Record{}, err
	}
	return ParseRecord(line)
}

// lockAndAppend appends the records that the log lacks, under the log's lock. The caller holds sending.
func (l *Log) lockAndAppend(ctx context.Context, records []Record) (receipts []Receipt, err error) {
	if l.closed {
		return nil, errClosed
	}
	lock := durable.NewLock(l.path + ".lock")
	if _, err := lock.TryLockContext(ctx, lockPause); err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	defer func() { err = errors.Join(err, lock.Unlock()) }()
	if err := l.openWriter(); err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.awaitLastLine(ctx); err != nil {
		return nil, err
	}
	if have, err := l.writer.Stat(); err != nil || l.file == nil || !os.SameFile(have, l.info) {
		return nil, errors.Join(errReplaced, err)
	}
	if l.partial > 0 {
		if err := jsonl.Seal(l.writer); err != nil {
			return nil, err
		}
		l.warn(&LineError{l.path, int(l.read.Lines) + 1, errors.New("last line had no newline; added one")})
		if err := l.refresh(ctx, true); err != nil {
			return nil, err
		}
	}
	return l.append(ctx, records)
}

// append writes the records that the log lacks, with one write. The caller holds all locks.
func (l *Log) append(ctx context.Context, records []Record) ([]Receipt, error) {
	receipts := make([]Receipt, len(records))
	first := map[string]int{} // the index in records of the first one with the ID
	var lines []byte
	for i, r := range records {
		if _, repeated := first[r.ID]; repeated {
			receipts[i].Duplicate = true
			continue
		}
		first[r.ID] = i
		found, err := l.lookup(ctx, r.ID, true)
		switch {
		case err != nil:
			return nil, err
		case len(found) > 0:
			receipts[i] = Receipt{found[0], true}
		default:
			lines = append(append(lines, r.line...), '\n')
		}
	}
	var err error
	if len(lines) > 0 {
		err = jsonl.Append(l.writer, lines)
		// What was written is in the log, even if ctx has ended.
		err = errors.Join(err, l.readBack(context.WithoutCancel(ctx), func(e Entry) {
			if i, ours := first[e.ID]; ours && receipts[i].Line == 0 {
				receipts[i].Entry = e
			}
		}))
	}
	for i, r := range records {
		if receipts[i].Line == 0 {
			receipts[i].Entry = receipts[first[r.ID]].Entry
		}
		if receipts[i].Line == 0 {
			return receipts[:i], cmp.Or(err, errReplaced)
		}
	}
	return receipts, err
}

// readBack calls found for each line that this process, or one without the lock, appended since the log
// was read.
func (l *Log) readBack(ctx context.Context, found func(Entry)) error {
	info, err := l.writer.Stat()
	if err != nil {
		return err
	}
	for e, err := range l.readOn(ctx, info.Size()) {
		if err != nil {
			return err
		}
		found(e)
	}
	l.partial = info.Size() - l.read.End
	return nil
}

// openWriter opens the log's current file as writer. It syncs the folder even if the file exists, because
// the process that created the file may have been killed before it synced.
func (l *Log) openWriter() error {
	if l.writer != nil {
		now, err := os.Stat(l.path)
		have, haveErr := l.writer.Stat()
		if err == nil && haveErr == nil && os.SameFile(have, now) {
			return nil
		}
		err = l.writer.Close()
		l.writer = nil
		if err != nil {
			return err
		}
	}
	writer, err := l.open(l.path)
	if err != nil {
		return err
	}
	if !l.options.NoSync {
		if err := l.syncFolder(filepath.Dir(l.path)); err != nil {
			return errors.Join(err, writer.Close())
		}
	}
	l.writer = writer
	return nil
}

func openAppend(path string) (appendFile, error) {
	file, _, err := openRegular(path, os.O_CREATE|os.O_APPEND|os.O_RDWR)
	if err != nil {
		return nil, err // not (*os.File)(nil) in an interface
	}
	return file, nil
}

const (
	lockPause = 500 * time.Microsecond
	// A last line without a newline that has not grown for quietTime was left by a crash.
	quietTime  = 250 * time.Millisecond
	quietPause = 10 * time.Millisecond
)

// awaitLastLine reads the log to its end, and waits until the last line has its newline or no
// longer grows, because a writer without the lock may write it in pieces. The caller holds mu, which
// awaitLastLine releases while it waits.
func (l *Log) awaitLastLine(ctx context.Context) error {
	size := int64(-1)
	for quiet := time.Duration(0); ; quiet += quietPause {
		if err := l.refresh(ctx, true); err != nil || l.partial == 0 {
			return err
		}
		if grown := l.read.End + l.partial; grown != size {
			size, quiet = grown, 0
		}
		if quiet >= quietTime {
			return nil
		}
		l.mu.Unlock()
		err := l.pause(ctx, quietPause)
		l.mu.Lock()
		if err != nil {
			return err
		}
	}
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
