package track

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/internal/jsonl"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// ReadHistory reads the journal of an agent without writing anything.
func ReadHistory(w *mailbox.Workspace, name schema.AgentName) (*History, error) {
	r := newJournalReader(w, name)
	if err := r.read(); err != nil {
		return nil, err
	}
	return r.history, nil
}

// journalReader reads the journal of an agent again and again, each time only what is new. It writes
// nothing, and keeps no file open, because some systems do not replace an open file.
type journalReader struct {
	workspace *mailbox.Workspace
	name      schema.AgentName
	// file is the journal that was read, and end how much of it is in the history, in bytes.
	file    fs.FileInfo
	end     int64
	history *History
}

func newJournalReader(w *mailbox.Workspace, name schema.AgentName) *journalReader {
	return &journalReader{workspace: w, name: name, history: NewHistory()}
}

// read adds what is new to the history. A missing journal has nothing new.
func (r *journalReader) read() error {
	dir, err := durable.OpenDir(r.workspace.Root(), r.workspace.Dir(), TurnsFolder)
	if err == nil {
		defer dir.Close() // nothing is written
		err = r.readIn(dir)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("reading journal: %w", err)
	}
	return nil
}

func (r *journalReader) readIn(dir *durable.Dir) error {
	file, err := dir.OpenFile(JournalName(r.name), os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer file.Close() // nothing is written
	now, err := file.Stat()
	if err != nil {
		return err
	}
	if r.file != nil && (!os.SameFile(r.file, now) || now.Size() < r.end) { // it was compacted, or cut
		r.end, r.history = 0, NewHistory()
	}
	r.file = now
	r.end, _, err = r.history.Read(jsonl.NewReader(file, 0), r.end)
	return err
}
