// Package track keeps the journal of an agent's turns, and tells from it how far messages got.
//
// The journal is state/turns/<agent>.jsonl of the workspace. It has a line of JSON for each Fact, and the facts add
// up to a History. A Runner of package turn writes it. Other processes append to it when a session notices a
// message, or a person restores one or resumes a conversation. Track, Thread, List, Status and OwedBy only read it.
package track

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"sync"
	"time"

	"github.com/gofrs/flock"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/internal/exclusive"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/jsonl"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// ErrStateLost reports that the lock or the journal of a Runner was removed or replaced while it
// worked. Then another Runner may work the inbox.
var ErrStateLost = failure.New("state_lost", "the state of the inbox was removed or replaced during the run",
	"do not remove files from state while a runner works; start it again, and it continues with the inbox")

// TurnsFolder holds the journals.
const TurnsFolder = "state/turns"

// CompactAbove is the size, in bytes, above which a Runner compacts its journal when it starts.
const CompactAbove = 8 << 20

// Journal is the file in which a Runner records what it does, and the history that the file adds up
// to. A writer holds the journal's own lock.
type Journal struct {
	// Path is the path of the file, and name its name in dir.
	Path string
	dir  *durable.Dir
	name string
	lock *flock.Flock
	now  func() time.Time
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
func newJournal(w *mailbox.Workspace, agent schema.AgentName, now func() time.Time) (*Journal, error) {
	dir, err := w.OpenStateFolder(TurnsFolder)
	if err != nil {
		return nil, err
	}
	name := JournalName(agent)
	lock, err := dir.NewLock(name + ".lock")
	if err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	return &Journal{Path: dir.Path(name), dir: dir, name: name, lock: lock, now: now, history: NewHistory()}, nil
}

// OpenJournal opens the journal of an agent for writing and reads it. It creates a missing one.
func OpenJournal(w *mailbox.Workspace, agent schema.AgentName, now func() time.Time) (*Journal, error) {
	j, err := newJournal(w, agent, now)
	if err != nil {
		return nil, err
	}
	err = j.locked(func() error {
		if err := j.open(); err != nil {
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
	if err := exclusive.TakeBriefly(j.lock); err != nil {
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
	if err := j.check(); err != nil {
		return err
	}
	if err := j.write(isDurable, f); err != nil {
		return err
	}
	return j.history.Read(j.file)
}

// appendFacts durably writes facts to the journal of an agent, without reading it: it may be large. A Runner at work
// reads the facts within about a second.
func appendFacts(w *mailbox.Workspace, agent schema.AgentName, facts ...Fact) error {
	j, err := newJournal(w, agent, time.Now)
	if err != nil {
		return err
	}
	return errors.Join(j.write(true, facts...), j.Close())
}

// write appends facts. A fact without a time gets the current one. After an error, some of them may be written. If
// the file is not open, write opens it while it holds the lock, so that no compaction replaces it meanwhile.
func (j *Journal) write(isDurable bool, facts ...Fact) error {
	err := j.locked(func() error {
		if j.file == nil {
			if err := j.open(); err != nil {
				return err
			}
		}
		lines, err := j.encode(facts)
		if err != nil {
			return err
		}
		if err := jsonl.Seal(j.file); err != nil {
			return err
		}
		return jsonl.Append(j.file, lines)
	})
	if err == nil && isDurable {
		err = j.file.Sync()
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w", j.Path, err)
	}
	return nil
}

// encode returns a line for each fact.
func (j *Journal) encode(facts []Fact) ([]byte, error) {
	var lines bytes.Buffer
	encoder := json.NewEncoder(&lines)
	for _, f := range facts {
		if f.At.IsZero() {
			f.At = j.now()
		}
		f.At = f.At.UTC()
		if err := encoder.Encode(&f); err != nil {
			return nil, err
		}
	}
	return lines.Bytes(), nil
}

// Refresh reads what others appended.
func (j *Journal) Refresh() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.check(); err != nil {
		return err
	}
	return j.history.Read(j.file)
}

// check returns an error that matches ErrStateLost if another Runner may work the inbox, or the file is no longer
// the journal.
func (j *Journal) check() error {
	if j.MayWrite != nil {
		if err := j.MayWrite(); err != nil {
			return err
		}
	}
	open, err := j.file.Stat()
	if err != nil {
		return err
	}
	there, err := j.dir.Lstat(j.name)
	if errors.Is(err, fs.ErrNotExist) || err == nil && (!os.SameFile(there, open) || open.Size() < j.history.end) {
		return fmt.Errorf("%w: %s", ErrStateLost, j.Path)
	}
	return err
}

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

// Compact replaces a journal of more bytes than above with snapshots of what still matters.
func (j *Journal) Compact(above int64) error {
	return j.compact(above, func(*Record) bool { return true })
}

// compact is Compact, for the messages that keep returns true for.
func (j *Journal) compact(above int64, keep func(*Record) bool) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.history.end <= above {
		return nil
	}
	err := j.locked(func() error {
		if err := errors.Join(j.check(), j.history.Read(j.file)); err != nil {
			return err
		}
		maps.DeleteFunc(j.history.Records, func(_ Key, rec *Record) bool { return !keep(rec) })
		lines, err := j.encode(j.history.Snapshots(j.now().UTC()))
		if err != nil {
			return err
		}
		// Some systems do not replace an open file.
		err = errors.Join(j.file.Close(), j.dir.Replace(j.name, lines, 0o644))
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

// ReadHistory reads the journal of an agent without writing anything. A missing journal is empty.
func ReadHistory(w *mailbox.Workspace, agent schema.AgentName) (*History, error) {
	h := NewHistory()
	return h, readJournal(w, agent, h.Read)
}

// readJournal calls read with the journal of an agent, if there is one.
func readJournal(w *mailbox.Workspace, agent schema.AgentName, read func(io.ReaderAt) error) error {
	dir, err := durable.OpenDir(w.Root(), w.Dir(), TurnsFolder)
	if err == nil {
		var file *os.File
		if file, err = dir.OpenFile(JournalName(agent), os.O_RDONLY, 0); err == nil {
			err = read(file)
			_ = file.Close() // nothing is written
		}
		err = errors.Join(err, dir.Close())
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("reading the journal of %s: %w", agent, err)
	}
	return nil
}

// runFolder has two files for each agent: one that a Runner locks, and one that names the process of the Runner.
const runFolder = "state/run"

// lockOf returns the lock of the process that works the inbox of an agent.
func lockOf(w *mailbox.Workspace, agent schema.AgentName) exclusive.Lock {
	return exclusive.Lock{
		Open: func() (*durable.Dir, error) { return durable.OpenDir(w.Root(), w.Dir(), runFolder) },
		Name: string(agent) + ".lock", Note: string(agent) + ".json", What: "the inbox of " + string(agent) + " is worked",
		Hint: "only one process works an inbox, with --parallel on several conversations at a time; oacp status shows it",
	}
}

// IsRunning reports whether a process works the inbox of an agent.
func IsRunning(w *mailbox.Workspace, agent schema.AgentName) (bool, error) {
	running, _, err := lockOf(w, agent).Held()
	return running, err
}

// whileIdle calls do if no process works the inbox of an agent. Until do returns, none begins.
func whileIdle(w *mailbox.Workspace, agent schema.AgentName, do func() error) (err error) {
	dir, err := w.OpenStateFolder(runFolder)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	lock, err := dir.NewLock(lockOf(w, agent).Name)
	if err != nil {
		return err
	}
	free, err := lock.TryLock()
	if free {
		err = do()
	}
	return errors.Join(err, lock.Close())
}

// LockInbox makes this process the one that works the inbox, until it releases the lock or dies.
func LockInbox(ctx context.Context, w *mailbox.Workspace, agent schema.AgentName, now time.Time) (*exclusive.Hold, error) {
	if err := w.MakeStateFolder(runFolder); err != nil {
		return nil, err
	}
	return lockOf(w, agent).Take(ctx, now)
}
