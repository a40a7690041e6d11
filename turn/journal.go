package turn

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gofrs/flock"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// turnsFolder holds the journals.
const turnsFolder = "state/turns"

// compactAbove is the size from which a journal is written anew, in bytes. It
// stays readable in one look, and is read in a fraction of a second.
const compactAbove = 8 << 20

// journal is the file in which a Runner writes down what it does, and the
// history that the file adds up to. Only the Runner that works the inbox, and
// Resume, append to it, each under the journal's own lock; only the Runner
// writes it anew.
type journal struct {
	path string
	lock *flock.Flock
	now  func() time.Time
	// mayWrite, which is nil for Resume, returns an error when the inbox is
	// no longer worked by this process alone.
	mayWrite func() error

	// access is a token for whoever works with the file, which the fields up
	// to bad go with. Nobody else waits for the disk: who looks at the history
	// does not need it, and who appends can be served by another.
	access chan struct{}
	file   *os.File
	// read is how much of the file is in the history; anew says that the
	// history is of a file before this one.
	read atomic.Int64
	anew bool
	// compactAt is the size at which the file is written anew.
	compactAt int64
	// bad counts lines that are no facts.
	bad int

	mu      sync.Mutex
	history *history
	// waiting are the lines to be written by whoever gets access next.
	waiting []*waitingLine
}

// waitingLine is a fact that is to be written.
type waitingLine struct {
	line    []byte
	durable bool
	// written gets what came of it.
	written chan error
}

func journalPath(w *mailbox.Workspace, name schema.AgentName) string {
	return filepath.Join(w.Dir(), turnsFolder, string(name)+".jsonl")
}

// openJournal opens the journal of an agent to write, which is made if there
// is none, and reads it.
func openJournal(w *mailbox.Workspace, name schema.AgentName, now func() time.Time) (*journal, error) {
	if err := w.MakeStateFolder(turnsFolder); err != nil {
		return nil, err
	}
	path := journalPath(w, name)
	j := &journal{path: path, lock: durable.NewLock(path + ".lock"), now: now, history: newHistory(), compactAt: compactAbove}
	j.access = make(chan struct{}, 1)
	j.history.changed = newChanges()
	err := j.locked(func() error {
		if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
			// The name must survive a crash before anything is appended.
			if err := durable.Replace(path, nil, 0o644); err != nil {
				return err
			}
		}
		if err := j.open(); err != nil {
			return err
		}
		return j.catchUp()
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("opening journal: %w", err), j.close())
	}
	return j, nil
}

func (j *journal) open() (err error) {
	j.file, err = os.OpenFile(j.path, os.O_RDWR|os.O_APPEND, 0)
	return err
}

// locked calls do while no other process appends.
func (j *journal) locked(do func() error) error {
	err := j.lock.Lock()
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %s", ErrStateLost, filepath.Dir(j.path))
	}
	if err != nil {
		return fmt.Errorf("locking %s: %w", j.lock.Path(), err)
	}
	return errors.Join(do(), j.lock.Unlock())
}

// upToDate makes sure that the file is the journal still, and takes what others
// appended into the history.
func (j *journal) upToDate() error {
	if j.mayWrite != nil {
		if err := j.mayWrite(); err != nil {
			return err
		}
	}
	if err := j.follow(); err != nil {
		return err
	}
	return j.catchUp()
}

func (j *journal) close() error {
	j.access <- struct{}{}
	defer func() { <-j.access }()
	if j.file == nil {
		return nil
	}
	file := j.file
	j.file = nil
	return file.Close()
}

// append writes a fact down and takes it into the history. If it is to be
// durable, it is on disk when append returns, and in no history before.
//
// Facts that are to be written at the same time share one write and one sync:
// whoever gets access to the file writes for all who wait.
func (j *journal) append(f fact, isDurable bool) error {
	f.At = j.now().UTC()
	line, err := json.Marshal(&f)
	if err != nil {
		return fmt.Errorf("writing %s: %w", j.path, err)
	}
	mine := &waitingLine{line: append(line, '\n'), durable: isDurable, written: make(chan error, 1)}
	j.mu.Lock()
	j.waiting = append(j.waiting, mine)
	j.mu.Unlock()
	select {
	case err := <-mine.written:
		return err
	case j.access <- struct{}{}:
	}
	j.writeWaiting()
	<-j.access
	return <-mine.written
}

// writeWaiting writes the lines that wait, all or none.
func (j *journal) writeWaiting() {
	j.mu.Lock()
	waiting := j.waiting
	j.waiting = nil
	j.mu.Unlock()
	if len(waiting) == 0 {
		return
	}
	var lines []byte
	isDurable := false
	for _, w := range waiting {
		lines = append(lines, w.line...)
		isDurable = isDurable || w.durable
	}
	err := j.locked(func() error {
		// What is not in the history yet, a process that died may have left
		// unfinished.
		if err := j.upToDate(); err != nil {
			return err
		}
		return j.write(lines, isDurable)
	})
	for _, w := range waiting {
		w.written <- err
	}
}

// follow opens the journal again if another one has taken its place, written
// anew by the Runner or by anybody: what is appended to the old one is lost.
// One that was cut short is read again, too.
func (j *journal) follow() error {
	there, err := os.Stat(j.path)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %w", ErrStateLost, err)
	}
	if err != nil {
		return err
	}
	// Without an open file, opening one failed before.
	open, err := j.file.Stat()
	if err == nil && os.SameFile(there, open) && open.Size() >= j.read.Load() {
		return nil
	}
	return j.readAnew()
}

// write appends lines whole or not at all.
func (j *journal) write(lines []byte, isDurable bool) error {
	size, err := j.size()
	if err != nil {
		return err
	}
	if size > j.read.Load() {
		lines = append([]byte{'\n'}, lines...) // seals off the unfinished line
	}
	_, err = j.file.Write(lines)
	if err == nil && isDurable {
		err = j.file.Sync()
	}
	if err != nil {
		return errors.Join(fmt.Errorf("writing %s: %w", j.path, err), j.file.Truncate(size))
	}
	return j.catchUp()
}

func (j *journal) size() (int64, error) {
	info, err := j.file.Stat()
	if err != nil {
		return 0, fmt.Errorf("reading %s: %w", j.path, err)
	}
	return info.Size(), nil
}

// refresh takes in what others appended. Whoever has access does so as well.
func (j *journal) refresh() error {
	select {
	case j.access <- struct{}{}:
	default:
		return nil
	}
	defer func() { <-j.access }()
	return j.upToDate()
}

// catchUp takes what is new in the file into the history. A last line without
// an end is left for later.
func (j *journal) catchUp() error {
	size, err := j.size()
	if err != nil || size <= j.read.Load() && !j.anew {
		return err
	}
	data := make([]byte, size-j.read.Load())
	n, err := j.file.ReadAt(data, j.read.Load())
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("reading %s: %w", j.path, err)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.anew {
		fresh := newHistory()
		fresh.failures, fresh.changed = j.history.failures, &changes{all: true}
		j.history, j.anew = fresh, false
	}
	used, bad := j.history.read(data[:n])
	j.read.Add(used)
	j.bad += bad
	return nil
}

// read takes the lines in, up to the last whole one. It returns how many bytes
// that were, and how many lines are no facts.
func (h *history) read(data []byte) (used int64, bad int) {
	for {
		line, rest, whole := bytes.Cut(data, []byte{'\n'})
		if !whole {
			return used, bad
		}
		var f fact
		switch err := json.Unmarshal(line, &f); {
		case err == nil:
			h.apply(&f)
		case len(bytes.TrimSpace(line)) > 0:
			bad++
		}
		used += int64(len(line)) + 1
		data = rest
	}
}

// view calls look with the history, which must not be kept.
func (j *journal) view(look func(*history)) {
	j.mu.Lock()
	defer j.mu.Unlock()
	look(j.history)
}

// takeChanges returns what has changed in the history since it was called
// before.
func (j *journal) takeChanges() *changes {
	j.mu.Lock()
	defer j.mu.Unlock()
	changed := j.history.changed
	j.history.changed = newChanges()
	return changed
}

// get returns a copy of what is known of a message, and whether anything is.
func (j *journal) get(k key) (rec record, known bool) {
	j.view(func(h *history) {
		if there := h.records[k]; there != nil {
			rec, known = *there, true
		}
	})
	return rec, known
}

// readAnew opens the journal again and reads it from its beginning.
func (j *journal) readAnew() error {
	_ = j.file.Close() // often closed already, and nothing is lost by it
	if err := j.open(); err != nil {
		return fmt.Errorf("opening %s again: %w", j.path, err)
	}
	j.read.Store(0)
	j.anew = true
	err := j.catchUp()
	j.compactAt = max(compactAbove, 4*j.read.Load())
	return err
}

// readHistory reads the journal of an agent without writing anything.
func readHistory(w *mailbox.Workspace, name schema.AgentName) (*history, error) {
	h := newHistory()
	data, err := os.ReadFile(journalPath(w, name))
	if errors.Is(err, fs.ErrNotExist) {
		return h, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading journal: %w", err)
	}
	h.read(data)
	return h, nil
}
