package bridge

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// Receipt says what became of a record that was sent.
type Receipt struct {
	// Entry is the record as it stands in the log: the one just written or, of a duplicate, the one that
	// was there before.
	Entry
	// Duplicate says that the log already held a record with this id, so that nothing was written.
	Duplicate bool
}

// Send appends a record unless one with its id is there already; the receipt says which record that is.
//
// A record made by the caller is completed (id as documented, run id of the Options, time) and checked with
// [Record.Validate]; a record read from a log is appended as it stands. Send returns when the record is on
// disk. After an error nothing of the record is in the log, with one exception: ErrNotSynced.
func (l *Log) Send(ctx context.Context, r Record) (Receipt, error) {
	receipts, err := l.SendAll(ctx, []Record{r})
	if len(receipts) == 0 {
		return Receipt{}, err
	}
	return receipts[0], err
}

// SendAll is Send for many records in order, with one lock and one fsync. It returns one receipt for each
// record until the first that failed; later ones are not in the log. A record that is not valid fails the
// whole call before anything is written.
func (l *Log) SendAll(ctx context.Context, records []Record) ([]Receipt, error) {
	b := batch{log: l, sent: map[string]int{}, repeats: map[int]int{}}
	if len(records) == 0 {
		return nil, ctx.Err()
	}
	for i, r := range records {
		if err := b.prepare(r); err != nil {
			return nil, fmt.Errorf("record %d of %d: %w", i+1, len(records), err)
		}
	}
	select {
	case l.sending <- struct{}{}:
		defer func() { <-l.sending }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	err := l.locked(ctx, func() error { return b.append(ctx) })
	// Synced also when all were duplicates: whoever hears that a record is there may rely on it as much as
	// the one who wrote it, who may have been killed before the fsync.
	if len(b.receipts) > 0 && !l.options.NoSync && l.writer != nil {
		if failed := l.writer.Sync(); failed != nil {
			err = errors.Join(err, fmt.Errorf("%w: %s: %w", ErrNotSynced, l.path, failed))
		}
	}
	if err != nil {
		err = fmt.Errorf("append to bridge log %s: %w", l.path, err)
	}
	return b.receipts, err
}

// locked runs do with the log's lock held and the log read to its end. The caller holds sending.
func (l *Log) locked(ctx context.Context, do func() error) (err error) {
	l.mu.Lock()
	closed := l.closed
	l.mu.Unlock()
	if closed {
		return ErrClosed
	}
	unlock, err := l.lock(ctx)
	if err != nil {
		return fmt.Errorf("lock: %w", err)
	}
	defer func() { err = errors.Join(err, unlock()) }()
	if err := l.openWriter(); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.awaitTornLine(ctx); err != nil {
		return err
	}
	if have, err := l.writer.Stat(); err != nil || l.file == nil || !os.SameFile(have, l.file.info) {
		return errors.Join(errors.New("replaced while it was being opened"), err)
	}
	if err := l.closeTornLine(ctx); err != nil {
		return err
	}
	return do()
}

// openWriter makes writer the log's present file. Opening it syncs the folder, whoever made the file: its
// maker may have been killed before doing so.
func (l *Log) openWriter() error {
	now, err := os.Stat(l.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if l.writer != nil && err == nil {
		if have, err := l.writer.Stat(); err == nil && os.SameFile(have, now) {
			return nil
		}
	}
	if l.writer != nil {
		if err := l.writer.Close(); err != nil {
			return err
		}
		l.writer = nil
	}
	if l.writer, err = l.open(l.path); err != nil {
		l.writer = nil
		return err
	}
	if l.options.NoSync {
		return nil
	}
	if err := syncFolder(filepath.Dir(l.path)); err != nil {
		err = errors.Join(err, l.writer.Close())
		l.writer = nil
		return err
	}
	return nil
}

func openAppend(path string) (appendFile, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY|openNonblock, 0o600)
	if err != nil {
		return nil, err // not (*os.File)(nil) in an interface
	}
	if err := checkRegular(file); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// tornAge is how long a log must have been left alone for a last line without a newline to be what a crash left.
// Until then it may be a line that somebody without our lock writes piece by piece.
const tornAge = 2 * time.Second

// tornPause is how often a log with such a line is looked at.
const tornPause = 10 * time.Millisecond

// awaitTornLine reads the log to its end, and waits for a last line without a newline to become whole or old. A
// file system may tell the time differently, so it is also old when it was seen not to grow for as long. Others
// read on meanwhile: the caller holds mu, but not while waiting.
func (l *Log) awaitTornLine(ctx context.Context) error {
	var size int64
	var since time.Time
	for {
		if err := l.refresh(ctx, true); err != nil || l.torn == 0 {
			return err
		}
		info, err := l.file.Stat()
		if err != nil {
			return err
		}
		now := l.clock.now()
		if grown := l.end + l.torn; grown != size {
			size, since = grown, now
		}
		if now.Sub(info.ModTime()) >= tornAge || now.Sub(since) >= tornAge {
			return nil
		}
		l.mu.Unlock()
		err = l.clock.pause(ctx, tornPause)
		l.mu.Lock()
		if err != nil {
			return err
		}
	}
}

// clock is the time that waiting takes; tests have their own.
type clock struct {
	now   func() time.Time
	pause func(context.Context, time.Duration) error
}

// pause waits, unless the context ends.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// closeTornLine ends a last line that has no newline, so that what follows is a line of its own.
func (l *Log) closeTornLine(ctx context.Context) error {
	if l.torn == 0 {
		return nil
	}
	fragment := make([]byte, l.torn)
	if _, err := l.file.ReadAt(fragment, l.end); err != nil {
		return err
	}
	number := l.lines + 1
	_, whole := parse(trimLine(fragment, l.end))
	if whole == nil {
		whole = errors.New("it holds a whole record, which is kept")
	}
	if _, err := l.writer.Write([]byte("\n")); err != nil {
		return err
	}
	if err := l.refresh(ctx, true); err != nil {
		return err
	}
	l.warn(&LineError{l.path, int(number), fmt.Errorf("%w; closed off: %w", errTorn, whole)})
	return nil
}
