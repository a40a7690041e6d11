package replica

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/validate"
)

// A Workspace is the part of the mail that one machine has.
type Workspace struct {
	*mailbox.Workspace
	// Restore puts a message back into an inbox. The default is the Restore of the workspace.
	Restore func(ctx context.Context, m *schema.Message, agent schema.AgentName) error
}

// Files are the files of a mailbox.
type Files struct {
	Stages map[Copy]Stage
	// Problems are files that are not taken for messages, and Unread are boxes that could not be read: what
	// they hold is as it was. Both are paths below the workspace.
	Problems, Unread map[string]error
}

// ErrNoFolder says that something else is in the place of a box.
var ErrNoFolder = errors.New("it is not a folder, so its mail stays where it is")

// Scan lists a mailbox. A message that is in the inbox is pending, even if an interrupted move left another
// file of it.
func (w *Workspace) Scan(agent schema.AgentName) *Files {
	f := &Files{make(map[Copy]Stage), make(map[string]error), make(map[string]error)}
	for _, box := range []mailbox.Box{mailbox.Outbox, mailbox.DeadLetters, mailbox.Archive, mailbox.Inbox} {
		folder := schema.BoxPath(agent, box)
		info, err := w.Root().Lstat(folder)
		if err == nil && !info.IsDir() {
			f.Problems[folder] = ErrNoFolder
			continue
		}
		names, err := durable.ListFolder(w.Root(), w.Dir(), folder)
		if above, aboveErr := w.Root().Lstat(path.Dir(folder)); aboveErr == nil && !above.IsDir() {
			continue // an archive in a file
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
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
// shared can have short names, which say less.
func (w *Workspace) longName(agent schema.AgentName, box mailbox.Box, file string) (string, error) {
	parsed, err := schema.ParseFileName(file)
	if err != nil || parsed.Rand != "" {
		return file, err
	}
	data, err := w.ReadRaw(mailbox.Entry{Agent: agent, Box: box, Name: file})
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

// Find returns the file of a message in a box; its name is empty if there is none.
func (w *Workspace) Find(agent schema.AgentName, box mailbox.Box, name string) (mailbox.Entry, error) {
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
		e, err := w.Find(c.Agent, box, c.Name)
		if e.Name != "" && err == nil {
			return StageOf(box), e, nil
		}
		failed = cmp.Or(failed, err)
	}
	return Unknown, mailbox.Entry{}, failed
}

// Read returns the bytes of a message: those of a file that the machine has of it.
func (w *Workspace) Read(c Copy) ([]byte, error) {
	for _, at := range []Copy{c, {Sender(c.Name), c.Name, true}} {
		if stage, e, err := w.Look(at); err != nil {
			return nil, err
		} else if stage != Unknown {
			return w.ReadRaw(e)
		}
	}
	return nil, fs.ErrNotExist
}

// An Outcome is a state that was agreed on and that the workspace is to take.
type Outcome struct {
	Copy
	// Was is the stage of the file when the workspace was scanned, and Want the one that it is to have.
	Was, Want Stage
	// Data are the bytes of the message; they are needed if there is no file. Reason is why it is dead.
	Data, Reason []byte
}

// ErrChanged says that somebody changed the state of a message meanwhile, so it stays as it is until the next
// sync.
var ErrChanged = errors.New("the message was handled meanwhile")

// Apply moves the file of a message, or makes one, and reports whether it did. It looks at the file again
// first, and replaces nothing. A message that is new here, in any box, is received first.
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
	// A dead letter has its reason from the beginning.
	if err := w.addReason(o, e.Name); err != nil {
		return false, err
	}
	if there, err := w.Find(o.Agent, o.Want.Box(), o.Name); err != nil {
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

// addReason writes the reason of a dead letter, which replaces another one: the machines agree on one.
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

// withdraw removes the staged copy of a message that was handled elsewhere, while its inbox here refused it:
// once in the inbox, it would be taken for a restored message.
func (w *Workspace) withdraw(o Outcome) error {
	m, err := validate.Read(o.Data)
	if err != nil {
		return nil // no delivery stages it
	}
	return w.Withdraw(m.ID, o.Agent)
}

// putBack puts a message back into an inbox.
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
	if pending, ok := errors.AsType[*mailbox.PendingError](err); ok {
		if err = nil; pending.Path == "" { // the copy is staged
			_, err = w.Recover(ctx)
		}
	}
	return err
}

// TakeOver gives the messages that count as handled, because somebody deleted the inbox copy, files in the
// archives. A workspace that was not shared, or was shared by an earlier version, may have some; in a shared
// one, a missing file means nothing. It returns an error if some could not be made.
func (w *Workspace) TakeOver(ctx context.Context) error {
	agents, err := w.Agents()
	if err != nil {
		return err
	}
	for _, from := range agents {
		sent, err := w.List(ctx, from, mailbox.Outbox)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		for _, e := range sent {
			if e.Message == nil || e.Err != nil {
				continue
			}
			if err := w.takeOver(e); err != nil {
				return err
			}
		}
	}
	return nil
}

func (w *Workspace) takeOver(sent mailbox.Entry) error {
	name, err := w.longName(sent.Agent, sent.Box, sent.Name)
	if err != nil {
		return err
	}
	for _, to := range sent.Message.To {
		if _, err := w.Root().Lstat(schema.BoxPath(to, mailbox.Inbox)); err != nil {
			continue // the folder was removed, so its files say nothing
		}
		c := Copy{Agent: to, Name: name}
		stage, _, err := w.Look(c)
		queued, queuedErr := mailbox.IsQueued(w.Workspace, sent.Message.ID, to)
		if stage != Unknown || queued || cmp.Or(err, queuedErr) != nil {
			continue
		}
		data, err := w.ReadRaw(sent)
		if err == nil {
			err = w.add(Outcome{Copy: c, Want: Handled, Data: data})
		}
		if err != nil {
			return err
		}
	}
	return nil
}
