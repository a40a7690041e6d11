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
	"time"

	"github.com/gofrs/flock"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/internal/exclusive"
	"github.com/oacp-go/oacp/internal/jsonl"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// turnsFolder holds the journals.
const turnsFolder = "state/turns"

// compactAbove is the size, in bytes, above which a Runner compacts its journal when it starts, or
// when no turn is running. It does so again only when the journal has grown to twice what was left.
const compactAbove = 8 << 20

// journal is the file in which a Runner records what it does, and the history that the file adds up
// to. Resume appends to it, too. A writer holds the journal's own lock.
type journal struct {
	// dir is the folder of the journals, and name and path are those of the file in it.
	dir        *durable.Dir
	name, path string
	lock       *flock.Flock
	now        func() time.Time
	// mayWrite returns an error if another Runner may work the inbox. It is nil for Resume.
	mayWrite func() error

	mu   sync.Mutex
	file journalFile
	// read is how much of the file is in the history, in bytes, and bad counts lines that are not
	// facts.
	read    int64
	bad     int
	history *history
	// compacted is the size, in bytes, after the last compaction.
	compacted int64
	// appended counts the facts that were written. The first synced of them are durable.
	appended int

	syncing sync.Mutex
	synced  int
}

// maxJournal bounds what is read of a journal to copy it, in bytes.
const maxJournal = 4 << 30

// journalFile is what a journal needs of its open file.
type journalFile interface {
	jsonl.File
	io.Closer
}

func journalName(agent schema.AgentName) string { return string(agent) + ".jsonl" }

// findJournal returns the journal of an agent. Its file is not open yet.
func findJournal(w *mailbox.Workspace, name schema.AgentName, now func() time.Time) (*journal, error) {
	if err := w.MakeStateFolder(turnsFolder); err != nil {
		return nil, err
	}
	dir, err := durable.OpenDir(w.Root(), w.Dir(), turnsFolder)
	if err != nil {
		return nil, err
	}
	file := journalName(name)
	return &journal{
		dir: dir, name: file, path: dir.Path(file), lock: dir.NewLock(file + ".lock"), now: now, history: newHistory(),
	}, nil
}

// openJournal opens the journal of an agent for writing and reads it. It creates a missing one.
func openJournal(w *mailbox.Workspace, name schema.AgentName, now func() time.Time) (*journal, error) {
	j, err := findJournal(w, name, now)
	if err != nil {
		return nil, err
	}
	err = j.locked(func() error {
		if err := errors.Join(j.create(), j.dir.Sweep(j.name), j.dir.Sweep(j.name+".old")); err != nil {
			return err
		}
		return j.reopen()
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("opening journal: %w", err), j.close())
	}
	return j, nil
}

// create creates a missing file.
func (j *journal) create() error {
	there, err := j.dir.Exists(j.name)
	if there || err != nil {
		return err
	}
	// The name must survive a crash before anything is appended.
	return j.dir.Replace(j.name, nil, 0o644)
}

// open opens the file.
func (j *journal) open() (err error) {
	// A nil *os.File must not become the journal's file.
	file, err := j.dir.OpenFile(j.name, os.O_RDWR|os.O_APPEND, 0)
	if err == nil {
		j.file = file
	}
	return err
}

// locked calls do while no other process appends.
func (j *journal) locked(do func() error) error {
	err := exclusive.TakeBriefly(j.lock)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %s", ErrStateLost, filepath.Dir(j.path))
	}
	if err != nil {
		return err
	}
	return errors.Join(do(), j.lock.Unlock())
}

func (j *journal) close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	err := j.dir.Close()
	if j.file != nil {
		err = errors.Join(err, j.file.Close())
	}
	return err
}

// reopen opens the file and makes its facts the history.
func (j *journal) reopen() error {
	if j.file != nil {
		_ = j.file.Close() // it may be closed already, and it was only appended to
	}
	if err := j.open(); err != nil {
		return err
	}
	fresh := newHistory()
	fresh.failures, fresh.released = j.history.failures, j.history.released+1
	j.read, j.history = 0, fresh
	return j.catchUp()
}

// append writes a fact and adds it to the history. A durable fact is on disk when append returns.
func (j *journal) append(f fact, isDurable bool) error {
	f.At = j.now().UTC()
	line, err := json.Marshal(&f)
	if err != nil {
		return fmt.Errorf("writing %s: %w", j.path, err)
	}
	j.mu.Lock()
	err = j.locked(func() error { return j.write(append(line, '\n')) })
	written := j.appended
	j.mu.Unlock()
	if err != nil || !isDurable {
		return err
	}
	return j.sync(written)
}

func (j *journal) write(line []byte) error {
	err := j.follow()
	if err == nil {
		err = j.catchUp()
	}
	if err == nil {
		err = j.add(line)
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w", j.path, err)
	}
	j.appended++
	return j.catchUp()
}

// add appends complete lines to the file.
func (j *journal) add(lines []byte) error {
	if _, err := jsonl.Seal(j.file); err != nil {
		return err
	}
	_, err := jsonl.Append(j.file, lines)
	return err
}

// sync makes the first facts that were written durable, so many at least. Turns that run side by
// side share a sync: those that wait for one need no further one.
func (j *journal) sync(facts int) error {
	j.syncing.Lock()
	defer j.syncing.Unlock()
	if j.synced >= facts {
		return nil
	}
	file, written := j.written()
	err := file.Sync()
	if errors.Is(err, os.ErrClosed) { // another file replaced the journal
		file, written = j.written()
		err = file.Sync()
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w", j.path, err)
	}
	j.synced = written
	return nil
}

func (j *journal) written() (file journalFile, facts int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.file, j.appended
}

// refresh reads what others appended.
func (j *journal) refresh() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.follow(); err != nil {
		return err
	}
	return j.catchUp()
}

// follow makes sure that the file is still the journal. If another file has replaced it, or it was
// cut, its facts become the history.
func (j *journal) follow() error {
	if j.mayWrite != nil {
		if err := j.mayWrite(); err != nil {
			return err
		}
	}
	there, err := j.dir.Lstat(j.name)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %w", ErrStateLost, err)
	}
	if err != nil {
		return err
	}
	open, err := j.file.Stat() // which fails if an earlier reopen failed
	if err == nil && os.SameFile(there, open) && open.Size() >= j.read {
		return nil
	}
	return j.reopen()
}

// catchUp adds the complete lines at the end of the file to the history.
func (j *journal) catchUp() error {
	end, bad, err := j.history.read(jsonl.NewReader(j.file, 0), j.read)
	j.read = end
	j.bad += bad
	if err != nil {
		return fmt.Errorf("reading %s: %w", j.path, err)
	}
	return nil
}

// view calls look with the history, which look must not keep.
func (j *journal) view(look func(*history)) {
	j.mu.Lock()
	defer j.mu.Unlock()
	look(j.history)
}

// get returns a copy of the record of a message, and whether there is one.
func (j *journal) get(k key) (rec record, known bool) {
	j.view(func(h *history) {
		if there := h.records[k]; there != nil {
			rec, known = *there, true
		}
	})
	return rec, known
}

// compact replaces a large journal with a line for each message that still matters. It keeps the
// old one beside it, as the only one.
func (j *journal) compact(above int64) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.read <= max(above, 2*j.compacted) {
		return nil
	}
	err := j.locked(func() error {
		if err := j.catchUp(); err != nil {
			return err
		}
		var lines bytes.Buffer
		encoder := json.NewEncoder(&lines)
		for _, f := range j.history.snapshots(j.now().UTC()) {
			if err := encoder.Encode(&f); err != nil {
				return err
			}
		}
		old, err := j.dir.ReadFile(j.name, maxJournal)
		if err == nil {
			err = j.dir.Replace(j.name+".old", old, 0o644)
		}
		if err == nil {
			err = j.file.Close() // some systems do not replace an open file
		}
		if err == nil {
			err = j.dir.Replace(j.name, lines.Bytes(), 0o644)
		}
		return errors.Join(err, j.reopen())
	})
	j.compacted = j.read // after an error, too: try again only when the journal has grown
	if err != nil {
		return fmt.Errorf("compacting %s: %w", j.path, err)
	}
	return nil
}

// appendFacts writes facts to the journal of an agent, durably. It does not read the journal, which may
// be large. A Runner at work reads the facts within about a second.
func appendFacts(w *mailbox.Workspace, name schema.AgentName, facts ...fact) error {
	j, err := findJournal(w, name, time.Now)
	if err != nil {
		return err
	}
	return errors.Join(j.appendUnread(facts), j.close())
}

// appendUnread writes facts durably, and adds them to no history. Facts without a time get that of the
// call. After an error, the first facts may be written.
func (j *journal) appendUnread(facts []fact) error {
	var lines bytes.Buffer
	encoder := json.NewEncoder(&lines)
	for _, f := range facts {
		if f.At.IsZero() {
			f.At = j.now()
		}
		f.At = f.At.UTC()
		if err := encoder.Encode(&f); err != nil {
			return fmt.Errorf("writing %s: %w", j.path, err)
		}
	}
	err := j.locked(func() error {
		if err := j.create(); err != nil {
			return err
		}
		if j.file == nil { // opened under the lock, it is the one that the last compaction left
			if err := j.open(); err != nil {
				return err
			}
		}
		return j.add(lines.Bytes())
	})
	if err == nil {
		err = j.file.Sync()
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w", j.path, err)
	}
	return nil
}
