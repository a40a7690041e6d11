package bridge

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/oacp-go/oacp/internal/durable"
)

// Sentinels of this package, to be matched with errors.Is.
var (
	// ErrClosed is returned by every method of a closed Log.
	ErrClosed = errors.New("bridge log is closed")
	// ErrUnknownID says that no record of the log has the id asked for.
	ErrUnknownID = errors.New("no record with this id in the bridge log")
	// ErrUnknownCursor says that a cursor is none, or marks a place in another log.
	ErrUnknownCursor = errors.New("cursor does not belong to this bridge log")
	// ErrNotSynced says that a record stands in the log but may not survive a power loss.
	ErrNotSynced = errors.New("written, but not known to be on disk")
)

// Options are the settings of a Log; nil is as good as the zero value.
type Options struct {
	// RunID is given to records that are sent without one.
	RunID int
	// NoSync leaves out the fsync at the end of every Send and SendAll, and nothing else.
	NoSync bool
	// Now gives the time of records that are sent without one; nil is time.Now.
	Now func() time.Time
	// Warn is told what went wrong without keeping a call from doing its work: a torn last line that was
	// closed off (a *LineError), an index that was damaged, did not fit or could not be written. It must
	// not call methods of the Log. Nil ignores these.
	Warn func(error)
}

// Log is a bridge log. Its methods may be called by many goroutines at once, and by many processes on the
// same file. A Log that is used for reading only creates no log, and nothing else where the log is short.
type Log struct {
	path    string
	options Options

	sending chan struct{} // holds a token while a goroutine of this process appends
	writer  appendFile    // guarded by sending; nil until the first append
	open    func(path string) (appendFile, error)

	mu     sync.Mutex // guards what follows
	closed bool
	clock  clock
	index  index
	file   *sharedFile // for reading; nil while there is no log
	chain  chain       // what the index knows of the log
	tail   *tail       // the lines from the chain's end on
	end    int64       // of the last whole line that was read
	lines  int64       // lines before end
	last   []byte      // the bytes just before end, to notice a log that was rewritten
	torn   int64       // bytes behind the last newline
	later  int         // length of the tail from which on sealing is tried again after a failure
}

// appendFile is what Send needs of the log opened for appending.
type appendFile interface {
	io.WriteCloser
	Sync() error
	Stat() (os.FileInfo, error)
	Truncate(size int64) error
}

// Open opens the log at path, the file named bridge.jsonl of a run. The file need not exist: such a log is
// empty, and the first Send creates it. The folder must exist.
func Open(path string, options *Options) (*Log, error) {
	real, err := resolve(path)
	if err != nil {
		return nil, fmt.Errorf("open bridge log %s: %w", path, err)
	}
	l := &Log{
		path:    real,
		sending: make(chan struct{}, 1),
		open:    openAppend,
		clock:   clock{time.Now, pause},
		index:   index{folder: real + ".index"},
		tail:    newTail(),
	}
	if options != nil {
		l.options = *options
	}
	if l.options.Now == nil {
		l.options.Now = time.Now
	}
	return l, nil
}

// resolve returns the path without symbolic links, so that all users of a file share one lock and index.
func resolve(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	info, err := os.Stat(path)
	switch {
	case err == nil && info.IsDir():
		return "", errors.New("is a folder")
	case err == nil && !info.Mode().IsRegular():
		return "", errNotRegular
	case err == nil:
		return filepath.EvalSymlinks(path)
	case !errors.Is(err, fs.ErrNotExist):
		return "", err
	}
	folder, err := filepath.EvalSymlinks(filepath.Dir(path))
	return filepath.Join(folder, filepath.Base(path)), err
}

// Path is the log's file, absolute and without symbolic links.
func (l *Log) Path() string { return l.path }

// Close releases the log's files, after the append under way, if any. Iterators under way end as if the log
// were open. Closing twice is fine.
func (l *Log) Close() error {
	l.sending <- struct{}{}
	defer func() { <-l.sending }()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	failed := []error{l.forget()}
	if l.writer != nil {
		failed = append(failed, l.writer.Close())
		l.writer = nil
	}
	return errors.Join(failed...)
}

// warn passes on what does not stop the work at hand.
func (l *Log) warn(err error) {
	if l.options.Warn != nil {
		l.options.Warn(err)
	}
}

// lock takes the log's lock; the caller calls the function it returns.
func (l *Log) lock(ctx context.Context) (unlock func() error, err error) {
	const pause = 500 * time.Microsecond
	lock := durable.NewLock(l.path + ".lock")
	if _, err := lock.TryLockContext(ctx, pause); err != nil {
		return nil, err
	}
	return lock.Unlock, nil
}

// forget drops all that is known of the log.
func (l *Log) forget() error {
	failed := []error{l.chain.release()}
	if l.file != nil {
		failed = append(failed, l.file.release())
	}
	l.file, l.chain, l.torn, l.later = nil, nil, 0, 0
	l.restart(nil)
	return errors.Join(failed...)
}

// restart begins again behind what the chain indexes.
func (l *Log) restart(c chain) {
	l.chain, l.tail, l.end, l.lines, l.last = c, newTail(), c.end(), c.lines(), l.last[:0]
}

// refresh reads what was appended to the log since the last call. locked says that the caller holds the
// log's lock. The caller holds mu.
func (l *Log) refresh(ctx context.Context, locked bool) error {
	if l.closed {
		return ErrClosed
	}
	if err := l.reopen(); err != nil || l.file == nil {
		return err
	}
	info, err := l.file.Stat()
	if err != nil {
		return err
	}
	size := info.Size()
	if !locked && (l.due() || size-l.end >= sealBytes) {
		// Worth indexing, so that the next process need not read it all again. When another process holds
		// the lock, or the folder does not take a lock file, reading goes on without.
		lock := durable.NewLock(l.path + ".lock")
		if free, err := lock.TryLock(); err == nil && free {
			locked = true
			defer func() {
				if err := lock.Unlock(); err != nil {
					l.warn(err)
				}
			}()
		}
	}
	return l.scan(ctx, size, locked)
}

// reopen opens the log, or opens it again if it is no longer the file that was read.
func (l *Log) reopen() error {
	info, err := os.Stat(l.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return l.forget()
	case err != nil:
		return err
	case l.file != nil && os.SameFile(info, l.file.info) && info.Size() >= l.end && l.unchanged():
		return nil
	}
	if l.file != nil {
		l.warn(fmt.Errorf("%s: replaced or cut; reading it again", l.path))
	}
	if err := l.forget(); err != nil {
		return err
	}
	if l.file, err = openShared(l.path); err != nil {
		return err
	}
	l.restart(l.index.load(l.file, l.file.info.Size(), l.warn))
	return nil
}

// unchanged reports whether the bytes just before end are still those that were read.
func (l *Log) unchanged() bool {
	now := make([]byte, len(l.last))
	_, err := l.file.ReadAt(now, l.end-int64(len(now)))
	return err == nil && bytes.Equal(now, l.last)
}

// scan reads the lines up to size and, where the caller may, seals them.
func (l *Log) scan(ctx context.Context, size int64, maySeal bool) error {
	const rereads = 3 // another process may delete the index again and again
	reader := newLineReader(l.file, size)
	for reread := 0; ; {
		if err := l.scanLines(ctx, reader, maySeal); err != nil {
			return fmt.Errorf("read bridge log %s: %w", l.path, err)
		}
		whole := l.end+l.torn >= size
		if maySeal && l.due() && reread < rereads && l.seal() {
			reread++
			continue
		}
		if whole {
			return nil
		}
	}
}

// scanLines reads lines until there are no more, or enough for a large segment.
func (l *Log) scanLines(ctx context.Context, reader *lineReader, maySeal bool) error {
	l.torn = 0
	for l.end < reader.limit {
		line, end, err := reader.at(l.end)
		if errors.Is(err, errTorn) {
			l.torn = reader.limit - l.end
			break
		}
		if err != nil {
			return err
		}
		l.lines++
		l.tail.add(line, l.end, l.lines)
		l.end = end
		l.remember(reader.window[:end-reader.start])
		if maySeal && l.tail.len() >= max(bulkLines, l.later) {
			break
		}
		if l.lines%1024 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
	}
	if len(l.last) > 0 || l.end == 0 {
		return nil
	}
	known := make([]byte, min(lastBytes, l.end)) // of what the index alone has told
	_, err := l.file.ReadAt(known, l.end-int64(len(known)))
	l.remember(known)
	return err
}

// lastBytes is how much of the log before end is kept to notice that it was rewritten.
const lastBytes = 64

// remember keeps the last bytes before l.end, with which read ends.
func (l *Log) remember(read []byte) {
	l.last = append(l.last[:0], read[max(0, len(read)-lastBytes):]...)
}

// due reports whether the tail is worth a segment.
func (l *Log) due() bool {
	n := l.tail.len()
	return n > l.later && (n >= sealLines || n > 0 && l.end-l.chain.end() >= sealBytes)
}

// seal moves the tail into the index, and reports whether the log must be read again from an earlier place
// instead. The caller holds the log's lock. A failure costs nothing but time: the tail stays in memory.
func (l *Log) seal() (reread bool) {
	info, err := l.file.Stat()
	if err != nil {
		l.warn(err)
		return false
	}
	onDisk := l.index.load(l.file, info.Size(), l.warn)
	known := l.chain.end()
	if err := l.chain.release(); err != nil {
		l.warn(err)
	}
	l.chain = onDisk
	if onDisk.end() != known { // other processes went on with the index, or somebody deleted it
		l.restart(onDisk)
		return true
	}
	sealed, err := l.index.seal(l.file, onDisk, l.tail, l.end, l.lines, l.warn)
	switch {
	case errors.Is(err, errDamaged):
		l.warn(err)
		l.distrust()
		return true
	case err != nil:
		if !errors.Is(err, fs.ErrPermission) { // a folder that is not ours to write is nothing to report
			l.warn(fmt.Errorf("index of %s: %w", l.path, err))
		}
		l.later = 2 * l.tail.len()
		return false
	}
	l.chain, l.tail, l.later = sealed, newTail(), 0
	return false
}

// distrust makes the log be read again without the index that stands there.
func (l *Log) distrust() {
	l.index.distrusted = true
	if err := l.chain.release(); err != nil {
		l.warn(err)
	}
	l.restart(nil)
}
