package replica

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/validate"
)

// A Workspace is the mail on one machine.
type Workspace struct {
	*mailbox.Workspace
	// Restore puts a message back into an inbox. The default is the Restore of the workspace.
	Restore func(ctx context.Context, m *schema.Message, agent schema.AgentName) error
}

// Files are the files of a mailbox.
type Files struct {
	Stages map[Copy]Stage
	// Problems are files that are not messages, and Unread are boxes that could not be read. Both are by path
	// below the workspace.
	Problems, Unread map[string]error
}

// Scan lists the messages of an agent. A message in the inbox is pending, even if an interrupted move left
// another file of it.
func (w *Workspace) Scan(agent schema.AgentName) *Files {
	f := &Files{make(map[Copy]Stage), make(map[string]error), make(map[string]error)}
	for _, box := range []mailbox.Box{mailbox.Outbox, mailbox.DeadLetters, mailbox.Archive, mailbox.Inbox} {
		folder := schema.BoxPath(agent, box)
		info, err := w.Root().Lstat(folder)
		if err == nil && !info.IsDir() {
			f.Problems[folder] = errors.New("it is not a folder, so its mail stays where it is")
			continue
		}
		// An inbox that is not a folder is reported above, and has no archive.
		names, err := durable.ListFolder(w.Root(), w.Dir(), folder)
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, durable.ErrNotFolder) {
			f.Unread[folder] = err
		}
		for _, file := range names {
			if !schema.IsMessageFile(file) {
				continue
			}
			name, err := w.longName(agent, box, file)
			c := Copy{agent, name, box == mailbox.Outbox}
			if err == nil {
				err = c.Check()
			}
			if err != nil {
				f.Problems[folder+"/"+file] = err
				continue
			}
			f.Stages[c] = StageOf(box)
		}
	}
	return f
}

// longName returns the name that a file has on all machines. Messages that were sent before the workspace was
// shared can have short names, which are unique only in their workspace.
func (w *Workspace) longName(agent schema.AgentName, box mailbox.Box, file string) (string, error) {
	parsed, err := schema.ParseFileName(file)
	if err != nil || parsed.Rand != "" {
		return file, err
	}
	data, err := mailbox.ReadUnscreened(w.Workspace, mailbox.Entry{Agent: agent, Box: box, Name: file})
	if errors.Is(err, fs.ErrNotExist) {
		return "", errors.New("it is gone")
	}
	if err != nil {
		return "", err
	}
	m, _ := validate.Decode(data)
	if m == nil {
		return "", errors.New("its name has no random part")
	}
	return m.LongFileName()
}

// find returns the file of a message in a box; its name is empty if there is none.
func (w *Workspace) find(agent schema.AgentName, box mailbox.Box, name string) (mailbox.Entry, error) {
	for _, file := range []string{name, shortName(name)} {
		_, err := w.Root().Lstat(schema.BoxPath(agent, box) + "/" + file)
		if file == "" || errors.Is(err, fs.ErrNotExist) {
			continue
		}
		e := mailbox.Entry{Agent: agent, Box: box, Name: file, Path: filepath.Join(w.BoxPath(agent, box), file)}
		if at, ok := errors.AsType[*fs.PathError](err); ok {
			return e, fmt.Errorf("looking for %s: %w", e.Path, at.Err)
		}
		if long, err := w.longName(agent, box, file); err == nil && long == name {
			return e, nil
		}
	}
	return mailbox.Entry{}, nil
}

// Look returns the stage of a message and its file, as they are now.
func (w *Workspace) Look(c Copy) (Stage, mailbox.Entry, error) {
	boxes := []mailbox.Box{mailbox.Inbox, mailbox.Archive, mailbox.DeadLetters}
	if c.Sent {
		boxes = []mailbox.Box{mailbox.Outbox}
	}
	var failed error
	for _, box := range boxes {
		e, err := w.find(c.Agent, box, c.Name)
		if e.Name != "" && err == nil {
			return StageOf(box), e, nil
		}
		failed = cmp.Or(failed, err)
	}
	return Unknown, mailbox.Entry{}, failed
}

// Read returns the bytes of a message, from the file of the copy or the one in the outbox.
func (w *Workspace) Read(c Copy) ([]byte, error) {
	for _, at := range []Copy{c, {Sender(c.Name), c.Name, true}} {
		if stage, e, err := w.Look(at); err != nil {
			return nil, err
		} else if stage != Unknown {
			return mailbox.ReadUnscreened(w.Workspace, e)
		}
	}
	return nil, fs.ErrNotExist
}

// An Outcome is a state that was agreed on and that the workspace has to take.
type Outcome struct {
	Copy
	// Was is the stage of the file when the workspace was scanned, and Want the stage that it has to get.
	Was, Want Stage
	// Data are the bytes of the message, which Apply needs if there is no file. Reason says why it is dead.
	Data, Reason []byte
}

// ErrChanged says that a message was handled or moved since the scan. It stays where it is until the next sync.
var ErrChanged = errors.New("the message has been handled or moved")

// Apply moves the file of a message, or makes one, and reports whether it did. It looks for the file again
// first, and never replaces a message.
func (w *Workspace) Apply(ctx context.Context, o Outcome) (applied bool, err error) {
	now, e, err := w.Look(o.Copy)
	switch {
	case err != nil && now == Unknown:
		return false, err
	case now == o.Want && now == Dead:
		return false, w.addReason(o, e.Name)
	case now == o.Want:
		return false, nil
	case now != o.Was:
		return false, ErrChanged
	case o.Want == Pending:
		return true, w.putBack(ctx, o)
	case now == Unknown:
		if err := w.withdraw(o); err != nil {
			return false, err
		}
		return true, w.add(o)
	}
	// The reason comes first: a dead letter must not be seen without one.
	if err := w.addReason(o, e.Name); err != nil {
		return false, err
	}
	if there, err := w.find(o.Agent, o.Want.Box(), o.Name); err != nil {
		return false, err
	} else if there.Name != "" { // an interrupted move left both
		return true, w.Remove(e)
	}
	if _, err = w.Move(e, o.Want.Box()); err == nil && now == Dead {
		e.Name += mailbox.ReasonSuffix
		if err = w.Remove(e); mailbox.IsGone(err) {
			err = nil
		}
	}
	return true, err
}

// addReason writes the reason of a dead letter. It replaces another reason, so that all machines have the same.
func (w *Workspace) addReason(o Outcome, file string) error {
	if o.Want != Dead || o.Reason == nil {
		return nil
	}
	folder := schema.BoxPath(o.Agent, mailbox.DeadLetters)
	if err := w.MakeFolder(folder); err != nil {
		return err
	}
	return durable.ReplaceFile(w.Root(), w.Dir(), folder+"/"+file+mailbox.ReasonSuffix, o.Reason, 0o644)
}

// add makes the file of a message that was handled or given up elsewhere.
func (w *Workspace) add(o Outcome) error {
	if err := w.addReason(o, o.Name); err != nil {
		return err
	}
	folder := schema.BoxPath(o.Agent, o.Want.Box())
	if err := w.MakeFolder(folder); err != nil {
		return err
	}
	_, err := w.AddFile(folder+"/"+o.Name, o.Data)
	return err
}

// withdraw removes the staged copy of a message that was handled elsewhere while its inbox here refused it:
// once in the inbox, the copy would look like a restored message.
func (w *Workspace) withdraw(o Outcome) error {
	m, err := validate.Read(o.Data)
	if err != nil {
		return nil // a delivery stages only valid messages
	}
	return w.Withdraw(m.ID, o.Agent)
}

func (w *Workspace) putBack(ctx context.Context, o Outcome) error {
	m, err := validate.Read(o.Data)
	if err != nil {
		return err
	}
	if w.Restore != nil {
		err = w.Restore(ctx, m, o.Agent)
	} else {
		_, err = w.Workspace.Restore(ctx, m, o.Agent, func(mailbox.Entry) error { return nil })
	}
	pending, ok := errors.AsType[*mailbox.PendingError](err)
	switch {
	case !ok:
		return err
	case pending.Path == "": // the copy is staged
		_, err = w.Recover(ctx)
		return err
	}
	return nil
}

// TakeOver makes archive copies of messages that were handled by deleting the inbox copy. A workspace that was
// not shared before, or was shared by an earlier version, may have some; once it is shared, a missing file
// changes no state.
func (w *Workspace) TakeOver() error {
	agents, err := w.Agents()
	if err != nil {
		return err
	}
	for _, from := range agents {
		files := w.Scan(from)
		for _, err := range files.Unread {
			return err
		}
		for sent := range files.Stages {
			if !sent.Sent {
				continue
			}
			data, _ := w.Read(sent)
			m, err := validate.Read(data)
			if err != nil {
				continue // it cannot be delivered
			}
			if err := w.takeOver(m, sent.Name, data); err != nil {
				return err
			}
		}
	}
	return nil
}

func (w *Workspace) takeOver(m *schema.Message, name string, data []byte) error {
	for _, to := range m.To {
		if _, err := w.Root().Lstat(schema.BoxPath(to, mailbox.Inbox)); err != nil {
			continue // the whole folder was removed, which handled no message
		}
		c := Copy{Agent: to, Name: name}
		stage, _, err := w.Look(c)
		queued, queuedErr := mailbox.IsQueued(w.Workspace, m.ID, to)
		if stage != Unknown || queued || cmp.Or(err, queuedErr) != nil {
			continue
		}
		if err := w.add(Outcome{Copy: c, Want: Handled, Data: data}); err != nil {
			return err
		}
	}
	return nil
}
