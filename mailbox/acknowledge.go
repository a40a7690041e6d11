package mailbox

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/internal/staging"
	"github.com/oacp-go/oacp/schema"
)

// Acknowledge moves a file from an inbox to the archive, because its message has been handled. The
// name and the bytes stay. If the archive has a file of that name, the new one gets a number; if that
// has the same bytes, it stays alone. If the file has left the inbox already, IsGone recognizes the
// error.
func (w *Workspace) Acknowledge(e Entry) error { return w.AcknowledgeAll([]Entry{e})[0] }

// AcknowledgeAll acknowledges several entries. It syncs folders once for each run of entries of one
// agent. The errors are in the order of the entries.
func (w *Workspace) AcknowledgeAll(entries []Entry) []error {
	errs := make([]error, len(entries))
	for start, end := 0, 0; start < len(entries); start = end {
		for end < len(entries) && entries[end].Agent == entries[start].Agent {
			end++
		}
		if err := (folder{w, entries[start].Agent, Inbox}).acknowledge(entries[start:end], errs[start:end]); err != nil {
			for i := start; i < end; i++ {
				errs[i] = cmp.Or(errs[i], err)
			}
		}
	}
	return errs
}

// acknowledge moves entries of an inbox to the archive. Its own error concerns those that got none.
func (f folder) acknowledge(entries []Entry, errs []error) (err error) {
	files := f.w.files
	inbox, err := f.open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, inbox.Close()) }()
	archive, err := (folder{f.w, f.agent, Archive}).make()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, archive.Close()) }()
	for i, e := range entries {
		if e.Box != Inbox {
			errs[i] = fmt.Errorf("acknowledging %s: it is not in an inbox", e.Path)
			continue
		}
		errs[i] = files.Publish(inbox, e.Name, archive, e.Name, true)
		if errors.Is(errs[i], fs.ErrExist) || errors.Is(errs[i], syscall.EXDEV) {
			_, errs[i] = f.move(e.Name, Archive, nil)
		}
	}
	if !slices.Contains(errs, nil) {
		return nil
	}
	return errors.Join(files.SyncDir(archive), files.SyncDir(inbox))
}

// Remove deletes an entry's file. If it is already gone, IsGone recognizes the error.
func (w *Workspace) Remove(e Entry) (err error) {
	dir, err := (folder{w, e.Agent, e.Box}).open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	if err := take(w.files, dir, e.Name); err != nil {
		return err
	}
	return w.files.SyncDir(dir)
}

// take removes a file. It returns an error that matches fs.ErrNotExist if another process did.
func take(files durable.FileSystem, dir *durable.Dir, name string) error {
	took, err := files.Take(dir, name)
	if err == nil && !took {
		err = fmt.Errorf("removing %s: %w", dir.Path(name), fs.ErrNotExist)
	}
	return err
}

// DeadLetterReason is the reason why a message became a dead letter. It is stored in a file next to
// the dead letter.
type DeadLetterReason struct {
	// Reason is a sentence for people.
	Reason string           `json:"reason"`
	ID     schema.ID        `json:"id,omitempty"`
	From   schema.AgentName `json:"from,omitempty"`
	// At is when the message became a dead letter.
	At schema.Timestamp `json:"at"`
	// Attempts is the number of turns that were started on the message.
	Attempts int `json:"attempts,omitempty"`
	// Output is the end of the last turn's output.
	Output string `json:"output,omitempty"`
}

// ReasonSuffix ends the name of the file that holds a dead letter's reason.
const ReasonSuffix = ".reason.json"

// DeadLetter moves an entry's file to the agent's dead letters, with the reason beside it, and
// returns the new path. The reason is on disk before the message moves.
func (w *Workspace) DeadLetter(e Entry, reason DeadLetterReason) (path string, err error) {
	if reason.At == "" {
		reason.At = schema.NewTimestamp(w.now())
	}
	if m := e.Message; m != nil {
		reason.ID, reason.From = m.ID, m.From
	}
	return (folder{w, e.Agent, e.Box}).move(e.Name, DeadLetters, &reason)
}

// Reason returns the reason for a dead letter.
func (w *Workspace) Reason(e Entry) (reason DeadLetterReason, err error) {
	file := Entry{Agent: e.Agent, Box: DeadLetters, Name: e.Name + ReasonSuffix}
	data, err := w.ReadRaw(file)
	if err != nil {
		return DeadLetterReason{}, err
	}
	if err := json.Unmarshal(data, &reason); err != nil {
		return DeadLetterReason{}, fmt.Errorf("reading %s of %s: %w", file.Name, e.Agent, err)
	}
	return reason, nil
}

// move moves a file of the folder to another box of the mailbox, and returns the new path.
func (f folder) move(file string, box Box, reason *DeadLetterReason) (path string, err error) {
	from, err := f.open()
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	b, err := openBatch(f.w, nil)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	to, err := b.newCopyTo(f.agent, box)
	if err != nil {
		return "", err
	}
	defer to.Close()
	if !from.SameFileSystem(to.Box) {
		// Earlier moves may have left copies; doctor reports those that cannot be removed.
		_, _ = b.recover()
	}
	name, err := b.move(from, file, to, file, reason)
	if err != nil {
		return "", err
	}
	return to.Box.Path(name), errors.Join(f.w.files.SyncDir(to.Box), f.w.files.SyncDir(from))
}

// newCopyTo returns a copy for a file that is moved to a box. The file need not be a message, so
// the copy has an id of its own.
func (b *batch) newCopyTo(agent schema.AgentName, box Box) (*staging.Copy, error) {
	id, err := schema.NewID(b.w.now(), agent, schema.Notification, schema.LongRand, b.w.random)
	if err != nil {
		return nil, err
	}
	c, err := b.newCopy(b.name(id, agent, box))
	if c != nil {
		c.GoBeside(b.outgoing)
	}
	return c, err
}

// maxName is the longest name, in bytes, that leaves room for a number and ReasonSuffix. Our own names are
// shorter.
const maxName = 255 - len("-10000") - len(ReasonSuffix)

// move moves a file to the box of the copy, under the name or the first free one with a number, and
// returns the new name. A reason is written before the file moves, and removed if it does not.
func (b *batch) move(from *durable.Dir, entry string, to *staging.Copy, name string, reason *DeadLetterReason) (string, error) {
	const most = 10_000
	if len(name) > maxName {
		hash := sha256.Sum256([]byte(name))
		name = strings.ToValidUTF8(name[:maxName/2], "") + "-" + hex.EncodeToString(hash[:4]) + schema.FileExtension
	}
	stem := strings.TrimSuffix(name, schema.FileExtension)
	for n := 2; ; n++ {
		err := b.moveAs(from, entry, to, name, reason)
		if !errors.Is(err, fs.ErrExist) || n > most {
			return name, err
		}
		name = stem + "-" + strconv.Itoa(n) + schema.FileExtension
	}
}

// isSame reports whether two files have the same bytes.
func isSame(a *durable.Dir, name string, b *durable.Dir, other string) bool {
	data, err := a.ReadFile(name, schema.MaxFileSize)
	return err == nil && holds(b, other, data)
}

func (b *batch) moveAs(from *durable.Dir, entry string, to *staging.Copy, name string, reason *DeadLetterReason) error {
	if reason == nil {
		err := to.Move(b.w.files, from, entry, name)
		if errors.Is(err, fs.ErrExist) && isSame(from, entry, to.Box, name) {
			// A move that was interrupted left both, or somebody restored a copy.
			if err = b.w.files.SyncDir(to.Box); err == nil {
				err = take(b.w.files, from, entry)
			}
		}
		return err
	}
	data, err := json.MarshalIndent(reason, "", "  ")
	if err != nil {
		return err
	}
	if err := durable.WriteFile(b.w.files, to.Box, name+ReasonSuffix, append(data, '\n')); err != nil {
		return err
	}
	err = to.Move(b.w.files, from, entry, name)
	if err != nil {
		_, takeErr := b.w.files.Take(to.Box, name+ReasonSuffix)
		err = errors.Join(err, takeErr)
	}
	return err
}
