package mailbox

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/internal/facts"
	"github.com/oacp-go/oacp/internal/staging"
	"github.com/oacp-go/oacp/schema"
)

// Acknowledge moves a file from an inbox to the archive, because its message has been handled. The
// name and the bytes stay. If the archive has another file of that name, the new one gets a number. If
// the archive has the same file, Acknowledge only removes the one in the inbox. If the file has left
// the inbox already, IsGone recognizes the error. After a *NotDurableError, the file has moved.
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

// acknowledge moves entries of an inbox to the archive. The error that it returns is that of all entries
// without one in errs.
func (f folder) acknowledge(entries []Entry, errs []error) (err error) {
	inbox, archive, err := f.openWith(Archive)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, inbox.Close(), archive.Close()) }()
	if err := noteEnd(f.w, f.agent, facts.WasHandled, entries...); err != nil {
		return err
	}
	for i, e := range entries {
		if e.Box != Inbox {
			errs[i] = fmt.Errorf("acknowledging %s: it is not in an inbox", e.Path)
			continue
		}
		if errs[i] = f.noteHandled(inbox, e.Name); errs[i] == nil {
			_, errs[i] = move(f.w.files, inbox, e.Name, archive, e.Name, nil)
		}
	}
	if !slices.Contains(errs, nil) {
		return nil
	}
	return syncMove(f.w.files, inbox, archive)
}

// syncMove makes it durable that files have moved. Its error is a *NotDurableError.
func syncMove(files durable.FileSystem, from, to *durable.Dir) error {
	if err := errors.Join(files.SyncDir(to), files.SyncDir(from)); err != nil {
		return &NotDurableError{"the move to " + to.Path("") + " is done", err}
	}
	return nil
}

// noteHandled keeps that an agent which reads only verified messages has handled the message in a file of its inbox.
func (f folder) noteHandled(from *durable.Dir, name string) error {
	screen := f.w.screen(f.w, f.agent)
	if screen == nil || f.box != Inbox {
		return nil
	}
	data, err := from.ReadFile(name, schema.MaxFileSize)
	if err != nil {
		return nil // it is gone, or no message: moving it says so
	}
	_, err = screen.Note(data, Handled)
	return err
}

// openWith opens the folder and another box of the mailbox, and makes the other one if it is missing.
func (f folder) openWith(box Box) (from, to *durable.Dir, err error) {
	if from, err = f.open(); err != nil {
		return nil, nil, err
	}
	if to, err = (folder{f.w, f.agent, box}).make(); err != nil {
		return nil, nil, errors.Join(err, from.Close())
	}
	return from, to, nil
}

// Remove deletes an entry's file. If it is already gone, IsGone recognizes the error.
func (w *Workspace) Remove(e Entry) (err error) {
	dir, err := (folder{w, e.Agent, e.Box}).open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	took, err := w.files.Take(dir, e.Name)
	if err == nil && !took {
		err = fmt.Errorf("removing %s: %w", dir.Path(e.Name), fs.ErrNotExist)
	}
	if err != nil {
		return err
	}
	return w.files.SyncDir(dir)
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
	// RecalledBy is the sender if it took the message back before the agent had noticed it.
	RecalledBy schema.AgentName `json:"recalled_by,omitempty"`
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
	kind := facts.WasDead
	if reason.RecalledBy != "" {
		kind = facts.WasRecalled
	}
	if err := noteEnd(w, e.Agent, kind, e); err != nil {
		return "", err
	}
	return (folder{w, e.Agent, e.Box}).move(e.Name, DeadLetters, &reason)
}

// Recall moves a message that is in the inbox of an agent, or on its way there, to the agent's dead letters, because its
// sender takes it back. If it is neither, IsGone recognizes the error.
func Recall(ctx context.Context, w *Workspace, m *schema.Message, agent schema.AgentName) error {
	reason := DeadLetterReason{
		Reason: string(m.From) + " took it back", RecalledBy: m.From, ID: m.ID, From: m.From, At: schema.NewTimestamp(w.now()),
	}
	err := recallQueued(w, m, agent, reason)
	if !IsGone(err) {
		return err
	}
	entries, err := Copies(ctx, w, m.ID, agent, Inbox)
	if err == nil && len(entries) == 0 {
		entries, err = HeldCopies(ctx, w, m.ID, agent)
	}
	if err == nil && len(entries) == 0 {
		err = fmt.Errorf("message %s is not in the inbox of %s: %w", m.ID, agent, fs.ErrNotExist)
	}
	for _, e := range entries {
		_, moveErr := w.DeadLetter(e, reason)
		err = errors.Join(err, moveErr)
	}
	return err
}

// recallQueued is Recall for the copies that are not in the inbox yet.
func recallQueued(w *Workspace, m *schema.Message, agent schema.AgentName, reason DeadLetterReason) error {
	b, err := openBatch(w, nil)
	if err != nil {
		return err
	}
	names, err := b.outgoing.Names()
	moveErr := fs.ErrNotExist
	for _, entry := range names {
		if !isQueued(entry, m.ID, agent) {
			continue
		}
		name, _ := staging.ParseName(entry)
		var sent bool
		var letters *durable.Dir
		o, stepErr := b.read(name)
		if stepErr == nil {
			sent, stepErr = b.committed(o)
		}
		if stepErr == nil && sent {
			letters, stepErr = b.open(agent, DeadLetters)
		}
		if long, err := m.LongFileName(); sent && stepErr == nil && err == nil {
			stepErr = noteEnds(w, agent, facts.WasRecalled, []string{long})
		}
		if !sent || stepErr != nil {
			moveErr = cmp.Or(stepErr, moveErr)
			continue
		}
		_, moveErr = move(w.files, b.outgoing, entry, letters, o.sentAs, &reason)
		if moveErr == nil {
			moveErr = syncMove(w.files, b.outgoing, letters)
		}
	}
	return errors.Join(err, moveErr, b.close())
}

// RecalledBy returns the sender of a dead letter if it took the message back.
func RecalledBy(w *Workspace, e Entry) schema.AgentName {
	reason, _ := w.Reason(e) // other tools leave none
	return reason.RecalledBy
}

// Reason returns the reason for a dead letter. Nobody signs it, so for an agent that reads only verified messages, it
// has no text.
func (w *Workspace) Reason(e Entry) (reason DeadLetterReason, err error) {
	file := Entry{Agent: e.Agent, Box: DeadLetters, Name: e.Name + ReasonSuffix}
	data, err := ReadUnscreened(w, file)
	if err != nil {
		return DeadLetterReason{}, err
	}
	if reason, err = decodeReason(w, data); err != nil {
		return reason, fmt.Errorf("reading %s of %s: %w", file.Name, e.Agent, err)
	}
	return reason, nil
}

func decodeReason(w *Workspace, data []byte) (reason DeadLetterReason, err error) {
	if err := json.Unmarshal(data, &reason); err != nil {
		return DeadLetterReason{}, err
	}
	if !reason.RecalledBy.Valid() {
		reason.RecalledBy = ""
	}
	if ProvenOnly(w) {
		reason = DeadLetterReason{Reason: "not shown, because it is not signed", RecalledBy: reason.RecalledBy}
	}
	return reason, nil
}

// Move moves an entry's file to another box of its mailbox, and returns the new path. It replaces nothing.
func (w *Workspace) Move(e Entry, to Box) (path string, err error) {
	return (folder{w, e.Agent, e.Box}).move(e.Name, to, nil)
}

func (f folder) move(file string, box Box, reason *DeadLetterReason) (path string, err error) {
	from, to, err := f.openWith(box)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, from.Close(), to.Close()) }()
	if reason != nil || box == Archive { // not what another machine gave up: it may come back
		if err := f.noteHandled(from, file); err != nil {
			return "", err
		}
	}
	name, err := move(f.w.files, from, file, to, file, reason)
	if err != nil {
		return "", err
	}
	return to.Path(name), syncMove(f.w.files, from, to)
}

// mostOfOneName is the largest number that move appends to a name.
const mostOfOneName = 10_000

// move moves a file to another folder, under the name or the first free one with a number, and returns the new
// name. A reason is written before the file moves, and removed if it does not.
func move(
	files durable.FileSystem, from *durable.Dir, entry string, to *durable.Dir, name string, reason *DeadLetterReason,
) (newName string, err error) {
	stem := strings.TrimSuffix(name, schema.FileExtension)
	for n := 2; ; n++ {
		err := moveAs(files, from, entry, to, name, reason)
		if !errors.Is(err, fs.ErrExist) || n > mostOfOneName {
			return name, err
		}
		name = stem + "-" + strconv.Itoa(n) + schema.FileExtension
	}
}

// moveAs is move for one name. If the folder has the same file under it, as an old copy that was put back has, moveAs only
// removes the one that would move.
func moveAs(files durable.FileSystem, from *durable.Dir, entry string, to *durable.Dir, name string, reason *DeadLetterReason) error {
	wrote, err := writeReason(files, to, name, reason)
	if err != nil {
		return err
	}
	err = files.Publish(from, entry, to, name, true)
	if errors.Is(err, fs.ErrExist) {
		data, readErr := from.ReadFile(entry, schema.MaxFileSize)
		if readErr == nil && holds(to, name, data) {
			return takeMoved(files, from, entry, to)
		}
	} else if there, _ := to.Exists(name); there { // moved, here or by another process
		return err
	}
	if wrote {
		_, takeErr := files.Take(to, name+ReasonSuffix)
		err = errors.Join(err, takeErr)
	}
	return err
}

// takeMoved removes a file that another folder has, too.
func takeMoved(files durable.FileSystem, from *durable.Dir, entry string, to *durable.Dir) error {
	if err := files.SyncDir(to); err != nil {
		return err
	}
	took, err := files.Take(from, entry)
	if err == nil && !took {
		err = fs.ErrNotExist
	}
	return err
}

// writeReason writes the reason of a dead letter, if there is one, and reports whether it did. A dead letter that is there keeps
// its own; a reason without one is what a killed process left.
func writeReason(files durable.FileSystem, letters *durable.Dir, name string, reason *DeadLetterReason) (wrote bool, err error) {
	if reason == nil {
		return false, nil
	}
	data, err := json.MarshalIndent(reason, "", "  ")
	if err == nil {
		err = durable.WriteFile(files, letters, name+ReasonSuffix, append(data, '\n'))
	}
	if !errors.Is(err, fs.ErrExist) {
		return err == nil, err
	}
	if there, err := letters.Exists(name); there || err != nil {
		return false, err
	}
	if _, err := files.Take(letters, name+ReasonSuffix); err != nil {
		return false, err
	}
	err = durable.WriteFile(files, letters, name+ReasonSuffix, append(data, '\n'))
	return err == nil, err
}
