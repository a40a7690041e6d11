package bridge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/jsonl"
)

// Errors that callers match with errors.Is.
var (
	// ErrUnknownCursor reports a text that is not a cursor, or a cursor of another log.
	ErrUnknownCursor = failure.New("unknown_cursor", "cursor does not belong to this bridge log",
		"keep a cursor file for each log and agent; without its file, records are printed from the beginning")
	// ErrSharedID reports a record that was not sent because another one in the log has its ID.
	ErrSharedID = failure.New("duplicate_id", "not sent: another record in the bridge log has this id",
		"the id covers type, sender, receiver and content: change the content")
	// ErrNotSynced reports that a record is in the log but may not survive a power loss.
	ErrNotSynced = failure.New("not_durable", "written, but not known to be on disk", "")
)

var (
	// errClosed reports a call of a closed Log.
	errClosed = errors.New("bridge log is closed")
	// errReplaced reports a log that another program replaced or truncated while this one used it.
	errReplaced = errors.New("the log was replaced or truncated")
)

// Options are the settings of a Log; nil means the zero value.
type Options struct {
	// RunID is given to records that are sent without one.
	RunID int
	// NoSync omits the fsync at the end of every Send and SendAll, and nothing else.
	NoSync bool
	// Now returns the time of records that are sent without one; nil means time.Now.
	Now func() time.Time
	// Warn receives problems that do not stop a call: a partial last line that was ended (a
	// *LineError), or an index that was damaged or could not be written. It must not call methods
	// of the Log. Nil ignores them.
	Warn func(error)
}

// Log is a bridge log. Many goroutines may call its methods at once, and many processes may use the
// same file. A Log that only reads creates neither the log nor, beside a short one, an index.
type Log struct {
	path    string
	options Options

	sending chan struct{} // holds a token while a goroutine of this process appends
	writer  appendFile    // guarded by sending; nil until the first append

	// Seams for tests.
	open       func(path string) (appendFile, error)
	syncFolder func(path string) error
	pause      func(context.Context, time.Duration) error

	mu         sync.Mutex // guards what follows
	closed     bool       // written with sending also held
	file       *os.File   // for reading; nil while there is no log
	info       os.FileInfo
	index      index
	distrusted bool              // the index on disk does not match the log; cleared when a new one is written
	read       extent            // the complete lines that were read, or that the index covers
	recent     map[uint64][]cell // by key, in log order: the lines of read that index lacks
	partial    int64             // bytes behind the last newline
	unwritable bool              // the index could not be written
}

// appendFile is what Send needs of the log opened for appending.
type appendFile interface {
	jsonl.File
	Sync() error
	io.Closer
}

// Recent lines are indexed once there are so many of them, or so many bytes. A new process reads at most
// about this much of the log.
const (
	indexLines = 64
	indexBytes = 64 << 10
)

// Open opens the log at path, the file named bridge.jsonl of a run. The file need not exist: such a
// log is empty, and the first Send creates it. The folder must exist.
func Open(path string, options *Options) (*Log, error) {
	real, err := resolve(path)
	if err != nil {
		return nil, fmt.Errorf("open bridge log %s: %w", path, err)
	}
	l := &Log{
		path: real, options: *cmp.Or(options, &Options{}), sending: make(chan struct{}, 1),
		open: openAppend, syncFolder: durable.SyncFolder, pause: pause,
	}
	if l.options.Now == nil {
		l.options.Now = time.Now
	}
	return l, nil
}

// resolve returns the path without symbolic links, so that all users of a file share one lock and
// index.
func resolve(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	real, err := filepath.EvalSymlinks(path)
	if errors.Is(err, fs.ErrNotExist) {
		folder, err := filepath.EvalSymlinks(filepath.Dir(path))
		return filepath.Join(folder, filepath.Base(path)), err
	}
	if err != nil {
		return "", err
	}
	info, err := os.Stat(real)
	if err == nil && !info.Mode().IsRegular() {
		err = durable.ErrNotRegular
	}
	return real, err
}

// Path returns the log's file, absolute and without symbolic links.
func (l *Log) Path() string { return l.path }

func (l *Log) indexFolder() string { return l.path + ".index" }

// Close waits for the append in progress, if any, and releases the log's files. Iterators in
// progress go on to their end. Closing twice is allowed.
func (l *Log) Close() error {
	l.sending <- struct{}{}
	defer func() { <-l.sending }()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	l.forget()
	if l.writer == nil {
		return nil
	}
	err := l.writer.Close()
	l.writer = nil
	return err
}

// warn reports an error that does not stop the call.
func (l *Log) warn(err error) {
	if err != nil && l.options.Warn != nil {
		l.options.Warn(err)
	}
}

// forget drops everything that is known of the log.
func (l *Log) forget() {
	if l.file != nil {
		l.warn(l.file.Close())
	}
	l.file = nil
	l.partial = 0
	l.use(index{})
}

// use replaces the index. The next lines to read are those behind it.
func (l *Log) use(x index) {
	l.warn(l.index.close())
	l.index = x
	l.read = x.extent
	l.recent = map[uint64][]cell{}
	l.read.Status = x.Status.clone()
}

// refresh reads the lines appended to the log since the last call. The caller holds mu; locked reports
// whether it also holds the log's lock.
func (l *Log) refresh(ctx context.Context, locked bool) error {
	if l.closed {
		return errClosed
	}
	size, err := l.reopen()
	if err != nil || l.file == nil {
		return err
	}
	if err := l.catchUp(ctx, size, locked); err != nil {
		return fmt.Errorf("read bridge log %s: %w", l.path, err)
	}
	return nil
}

// reopen opens the log, or opens it again if it is no longer the file that was read, and returns
// its size.
func (l *Log) reopen() (size int64, err error) {
	info, err := os.Stat(l.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		l.forget()
		return 0, nil
	case err != nil:
		return 0, err
	case l.file != nil && os.SameFile(info, l.info) && info.Size() >= l.read.End:
		return info.Size(), nil
	}
	if l.file != nil {
		l.warn(fmt.Errorf("%s: replaced or truncated; reading it again", l.path))
	}
	l.forget()
	if l.file, l.info, err = openRegular(l.path, os.O_RDONLY); err != nil {
		return 0, err
	}
	size = l.info.Size()
	if !l.distrusted {
		x, err := loadIndex(l.indexFolder(), l.file, size)
		l.warnOfIndex(err)
		l.use(x)
	}
	return size, nil
}

// catchUp reads the lines up to size and, with the lock, indexes them when that is due.
func (l *Log) catchUp(ctx context.Context, size int64, locked bool) error {
	for again := true; again; {
		for _, err := range l.readOn(ctx, size) {
			if err != nil {
				return err
			}
		}
		again = locked && l.isDue() && l.extendIndex()
	}
	l.partial = size - l.read.End
	return nil
}

// readOn yields the lines that were not read yet, up to size, and takes account of them. It yields no
// *LineError.
func (l *Log) readOn(ctx context.Context, size int64) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		for e, err := range scan(ctx, l.path, l.file, position{l.read.End, l.read.Lines}, size) {
			if _, skipped := errors.AsType[*LineError](err); skipped || err == nil {
				l.account(e, skipped)
				err = nil
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

// account adds the next line to what is known of the log.
func (l *Log) account(e Entry, skipped bool) {
	if skipped {
		l.read.Status.SkippedLines++
	} else {
		key := keyOf(e.ID)
		l.recent[key] = append(l.recent[key], cell{key: key, offset: l.read.End, line: e.behind.line})
		l.read.Status.count(e.Record)
	}
	l.read.End, l.read.Lines = e.behind.offset, e.behind.line
}

func (l *Log) isDue() bool {
	return !l.unwritable && (l.read.Lines-l.index.Lines >= indexLines || l.read.End-l.index.End >= indexBytes)
}

// extendIndex moves the recent lines into the index on disk. It reports whether the log must be
// read again from the end of the index. The caller holds the log's lock. After a failure the lines
// stay in memory.
func (l *Log) extendIndex() (readAgain bool) {
	var onDisk index
	var err error
	if !l.distrusted {
		onDisk, err = loadIndex(l.indexFolder(), l.file, l.read.End)
	}
	if onDisk.End != l.index.End { // another process extended the index, or it was deleted
		l.warnOfIndex(err)
		l.use(onDisk)
		return true
	}
	cells := slices.Concat(slices.Collect(maps.Values(l.recent))...)
	extended, err := onDisk.extend(l.indexFolder(), l.file, cells, l.read)
	if err != nil {
		l.warnOfIndex(err)
		if errors.Is(err, errDamaged) {
			l.distrust()
			return true
		}
		l.unwritable = true
		return false
	}
	l.use(extended)
	l.distrusted = false
	return false
}

// warnOfIndex reports an index that cannot be used. An index that this process may not write is ignored
// silently.
func (l *Log) warnOfIndex(err error) {
	if err != nil && !errors.Is(err, fs.ErrPermission) {
		l.warn(fmt.Errorf("index of %s: %w", l.path, err))
	}
}

// distrust makes the next refresh read the whole log, without the index on disk.
func (l *Log) distrust() {
	l.distrusted = true
	l.use(index{})
}
