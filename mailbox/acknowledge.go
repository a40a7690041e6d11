package mailbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/schema"
)

// Acknowledge says that the message of an inbox entry is dealt with: the file
// is removed. A file that is already gone gives an error that IsGone
// recognizes.
func (w *Workspace) Acknowledge(e Entry) (err error) {
	dir, err := w.openBox(e.Agent, e.Box)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	took, err := w.files.take(dir, e.Name)
	if err == nil && !took {
		err = fmt.Errorf("removing %s: %w", e.Path, fs.ErrNotExist)
	}
	if err != nil {
		return err
	}
	return w.files.syncDir(dir)
}

// ArchiveEntry is Acknowledge, but the file moves to the agent's archive. It
// returns the new path.
func (w *Workspace) ArchiveEntry(e Entry) (path string, err error) {
	return w.move(e, Archive, func(from, to *durable.Dir) (string, error) {
		return publishFree(e.Name, func(name string) error {
			return w.carry(from, e.Name, to, name)
		})
	})
}

// move takes an entry's file to another box of the same mailbox.
func (w *Workspace) move(e Entry, box Box, put func(from, to *durable.Dir) (string, error)) (path string, err error) {
	from, err := w.openBox(e.Agent, e.Box)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	to, err := w.makeBox(e.Agent, box)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	name, err := put(from, to)
	if err != nil {
		return "", err
	}
	return to.Path(name), errors.Join(w.files.syncDir(to), w.files.syncDir(from))
}

// publishFree publishes under the name, or under the first free one with a
// number.
func publishFree(name string, publish func(name string) error) (string, error) {
	const most = 10_000
	stem := strings.TrimSuffix(name, schema.FileExtension)
	candidate := name
	for n := 2; ; n++ {
		err := publish(candidate)
		if !errors.Is(err, fs.ErrExist) || n > most {
			return candidate, err
		}
		candidate = stem + "-" + strconv.Itoa(n) + schema.FileExtension
	}
}

// DeadLetterReason stands beside a dead letter and says why it is one.
type DeadLetterReason struct {
	// Reason is a sentence for people.
	Reason string           `json:"reason"`
	ID     schema.ID        `json:"id,omitempty"`
	From   schema.AgentName `json:"from,omitempty"`
	// At is when the message was given up.
	At schema.Timestamp `json:"at"`
	// Attempts is how many turns were started on the message.
	Attempts int `json:"attempts,omitempty"`
	// Output is the end of what the last turn printed.
	Output string `json:"output,omitempty"`
}

// ReasonSuffix ends the name of the file that holds a dead letter's reason.
const ReasonSuffix = ".reason.json"

// Bury moves an inbox entry to the agent's dead letters, with the reason
// beside it, and returns the new path. The reason is on disk before the
// message moves.
func (w *Workspace) Bury(e Entry, reason DeadLetterReason) (path string, err error) {
	if reason.At == "" {
		reason.At = schema.NewTimestamp(w.now())
	}
	if m := e.Message; m != nil {
		reason.ID, reason.From = m.ID, m.From
	}
	return w.move(e, DeadLetters, func(from, to *durable.Dir) (string, error) {
		return w.bury(func(_ fileSystem, to *durable.Dir, name string) error {
			return w.carry(from, e.Name, to, name)
		}, to, e.Name, reason)
	})
}

// bury writes the reason beside a free name and publishes the dead letter
// under it. A reason whose letter does not follow is taken back.
func (w *Workspace) bury(publish func(fileSystem, *durable.Dir, string) error, dir *durable.Dir, name string, reason DeadLetterReason) (string, error) {
	data, err := json.MarshalIndent(reason, "", "  ")
	if err != nil {
		return "", err
	}
	return publishFree(name, func(name string) error {
		beside := name + ReasonSuffix
		if err := writeFile(w.files, dir, beside, append(data, '\n')); err != nil {
			return err
		}
		err := publish(w.files, dir, name)
		if err != nil {
			_, takeErr := w.files.take(dir, beside)
			err = errors.Join(err, takeErr)
		}
		return err
	})
}

// Reason returns why a dead letter is one.
func (w *Workspace) Reason(e Entry) (reason DeadLetterReason, err error) {
	dir, err := w.openBox(e.Agent, DeadLetters)
	if err != nil {
		return DeadLetterReason{}, err
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	data, err := dir.ReadFile(e.Name+ReasonSuffix, schema.MaxFileSize)
	if err != nil {
		return DeadLetterReason{}, err
	}
	if err := json.Unmarshal(data, &reason); err != nil {
		return DeadLetterReason{}, fmt.Errorf("reading %s: %w", dir.Path(e.Name+ReasonSuffix), err)
	}
	return reason, nil
}
