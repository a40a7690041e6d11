// Package track keeps the journal of an agent's turns, and says from it how far messages got.
//
// The journal is state/turns/<agent>.jsonl of the workspace: a line of JSON for each Fact, which a
// Runner of package turn writes. The facts add up to a History. Other processes also append to the
// journal when a session notices a message, or a person restores one or lets a conversation
// go on. Track, Thread, Status and OwedBy read it and write nothing. Package track runs no turn.
package track

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

// ErrStateLost reports that the lock or the journal of a Runner was removed or replaced while it
// worked. Then another Runner may work the inbox.
var ErrStateLost = errors.New("the state of the inbox was removed or replaced during the run")

// TurnsFolder holds the journals.
const TurnsFolder = "state/turns"

// CompactAbove is the size, in bytes, above which a Runner compacts its journal when it starts.
const CompactAbove = 8 << 20

// Journal is the file in which a Runner records what it does, and the history that the file adds up
// to. A writer holds the journal's own lock.
type Journal struct {
	// dir is the folder of the journals, and name and path are those of the file in it.
	dir        *durable.Dir
	name, Path string
	lock       *flock.Flock
	now        func() time.Time
	// MayWrite, if set, returns an error if another Runner may work the inbox.
	MayWrite func() error

	mu      sync.Mutex
	file    journalFile
	history *History
}

// journalFile is what a journal needs of its open file.
type journalFile interface {
	jsonl.File
	Sync() error
	io.Closer
}

// JournalName returns the name of the journal of an agent.
func JournalName(agent schema.AgentName) string { return string(agent) + ".jsonl" }

// newJournal returns the journal of an agent. Its file is not open yet.
func newJournal(w *mailbox.Workspace, name schema.AgentName, now func() time.Time) (*Journal, error) {
	if err := w.MakeStateFolder(TurnsFolder); err != nil {
		return nil, err
	}
	dir, err := durable.OpenDir(w.Root(), w.Dir(), TurnsFolder)
	if err != nil {
		return nil, err
	}
	file := JournalName(name)
	return &Journal{
		dir: dir, name: file, Path: dir.Path(file), lock: dir.NewLock(file + ".lock"), now: now, history: NewHistory(),
	}, nil
}

// OpenJournal opens the journal of an agent for writing and reads it. It creates a missing one.
func OpenJournal(w *mailbox.Workspace, name schema.AgentName, now func() time.Time) (*Journal, error) {
	j, err := newJournal(w, name, now)
	if err != nil {
		return nil, err
	}
	err = j.locked(func() error {
		if err := errors.Join(j.dir.Sweep(j.name), j.open()); err != nil {
			return err
		}
		return j.history.Read(j.file)
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("opening journal: %w", err), j.Close())
	}
	return j, nil
}

// open opens the file, and creates a missing one.
func (j *Journal) open() error {
	there, err := j.dir.Exists(j.name)
	if err == nil && !there {
		// The name must survive a crash before anything is appended.
		err = j.dir.Replace(j.name, nil, 0o644)
	}
	if err != nil {
		return err
	}
	file, err := j.dir.OpenFile(j.name, os.O_RDWR|os.O_APPEND, 0)
	if err == nil { // a nil *os.File must not become the journal's file
		j.file = file
	}
	return err
}

// locked calls do while no other process appends.
func (j *Journal) locked(do func() error) error {
	err := exclusive.TakeBriefly(j.lock)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %s", ErrStateLost, filepath.Dir(j.Path))
	}
	if err != nil {
		return err
	}
	return errors.Join(do(), j.lock.Unlock())
}

// Close closes the files of the journal.
func (j *Journal) Close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	err := j.dir.Close()
	if j.file != nil {
		err = errors.Join(err, j.file.Close())
	}
	return err
}

// Append writes a fact and adds it to the history. A durable fact is on disk when Append returns.
func (j *Journal) Append(f Fact, isDurable bool) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	err := j.write(j.catchUp, isDurable, f)
	if err == nil {
		err = j.history.Read(j.file)
	}
	return err
}

// write calls prepare, and then appends facts, while it holds the lock. A fact without a time gets the current
// one. After an error, the first facts may be written.
func (j *Journal) write(prepare func() error, isDurable bool, facts ...Fact) error {
	var lines bytes.Buffer
	encoder := json.NewEncoder(&lines)
	for _, f := range facts {
		if f.At.IsZero() {
			f.At = j.now()
		}
		f.At = f.At.UTC()
		if err := encoder.Encode(&f); err != nil {
			return fmt.Errorf("writing %s: %w", j.Path, err)
		}
	}
	err := j.locked(func() error {
		if err := prepare(); err != nil {
			return err
		}
		if _, err := jsonl.Seal(j.file); err != nil {
			return err
		}
		_, err := jsonl.Append(j.file, lines.Bytes())
		return err
	})
	if err == nil && isDurable {
		err = j.file.Sync()
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w", j.Path, err)
	}
	return nil
}

// Refresh reads what others appended.
func (j *Journal) Refresh() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.catchUp()
}

// catchUp adds what others appended to the history. The error matches ErrStateLost if the file is no longer
// the journal.
func (j *Journal) catchUp() error {
	if j.MayWrite != nil {
		if err := j.MayWrite(); err != nil {
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
	open, err := j.file.Stat()
	if err != nil {
		return err
	}
	if !os.SameFile(there, open) || open.Size() < j.history.end {
		return fmt.Errorf("%w: %s", ErrStateLost, j.Path)
	}
	return j.history.Read(j.file)
}

// Bad counts the lines that are not facts.
func (j *Journal) Bad() int { return j.history.bad }

// View calls look with the history, which look must not keep.
func (j *Journal) View(look func(*History)) {
	j.mu.Lock()
	defer j.mu.Unlock()
	look(j.history)
}

// Get returns a copy of the record of a message, and whether there is one.
func (j *Journal) Get(k Key) (rec Record, known bool) {
	j.View(func(h *History) {
		if there := h.Records[k]; there != nil {
			rec, known = *there, true
		}
	})
	return rec, known
}

// Compact replaces a large journal with a line for each message that still matters.
func (j *Journal) Compact(above int64) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.history.end <= above {
		return nil
	}
	err := j.locked(func() error {
		if err := j.catchUp(); err != nil {
			return err
		}
		var lines bytes.Buffer
		encoder := json.NewEncoder(&lines)
		for _, f := range j.history.Snapshots(j.now().UTC()) {
			if err := encoder.Encode(&f); err != nil {
				return err
			}
		}
		// Some systems do not replace an open file.
		err := j.file.Close()
		if err == nil {
			err = j.dir.Replace(j.name, lines.Bytes(), 0o644)
		}
		if openErr := j.open(); openErr != nil {
			return errors.Join(err, openErr)
		}
		j.history = NewHistory()
		return errors.Join(err, j.history.Read(j.file))
	})
	if err != nil {
		return fmt.Errorf("compacting %s: %w", j.Path, err)
	}
	return nil
}

// appendFacts writes facts to the journal of an agent, durably. It does not read the journal, which may
// be large. A Runner at work reads the facts within about a second.
func appendFacts(w *mailbox.Workspace, name schema.AgentName, facts ...Fact) error {
	j, err := newJournal(w, name, time.Now)
	if err != nil {
		return err
	}
	// The file that is opened under the lock is the one that the last compaction left.
	return errors.Join(j.write(j.open, true, facts...), j.Close())
}

// ReadHistory reads the journal of an agent without writing anything.
func ReadHistory(w *mailbox.Workspace, name schema.AgentName) (*History, error) {
	h := NewHistory()
	return h, h.readNew(w, name)
}

// readNew adds what is new in the journal of an agent. A missing journal has nothing new. The file does not stay
// open, because some systems do not replace an open file.
func (h *History) readNew(w *mailbox.Workspace, name schema.AgentName) error {
	dir, err := durable.OpenDir(w.Root(), w.Dir(), TurnsFolder)
	if err == nil {
		err = errors.Join(h.readIn(dir, JournalName(name)), dir.Close())
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("reading journal: %w", err)
	}
	return nil
}

func (h *History) readIn(dir *durable.Dir, name string) error {
	file, err := dir.OpenFile(name, os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer file.Close() // nothing is written
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if h.file != nil && (!os.SameFile(h.file, info) || info.Size() < h.end) { // it was compacted, or cut
		*h = *NewHistory()
	}
	h.file = info
	return h.Read(file)
}
