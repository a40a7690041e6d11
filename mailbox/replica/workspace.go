package replica

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io/fs"
	"maps"
	"slices"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/internal/facts"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/validate"
)

// A Workspace is the mail on one machine.
type Workspace struct {
	*mailbox.Workspace
	// Return puts a message back into an inbox after another machine restored it. The default is the PutBack of the
	// workspace.
	Return func(ctx context.Context, m *schema.Message, agent schema.AgentName) error
	// boxes are the boxes that Hold keeps open, by path.
	boxes map[string]*durable.Dir
}

// Scan lists the messages of an agent. A message in the inbox is pending, even if an interrupted move left
// another file of it. With the memory of an earlier scan, which may be nil, it leaves out the days of boxes that have the same
// files as then.
func (w *Workspace) Scan(agent schema.AgentName, before Memories) *Files {
	f := &Files{
		Places: make(map[Copy]Place), Twice: make(map[Copy]bool), Problems: make(map[string]error), Unread: make(map[string]error),
		Memory: make(Memories), Partial: before != nil, before: before, same: make(map[mailbox.Box]bool),
	}
	for _, box := range []mailbox.Box{mailbox.Outbox, mailbox.DeadLetters, mailbox.Archive, mailbox.Inbox} {
		folder := schema.BoxPath(agent, box)
		remembered, at := before[string(box)], w.Time(folder)
		if f.same[box] = at != 0 && remembered.At == at; f.same[box] {
			f.Memory[string(box)] = remembered
			continue
		}
		if info, err := w.Root().Lstat(folder); err == nil && !info.IsDir() {
			f.Problems[folder] = errors.New("it is not a folder, so its mail stays where it is")
			continue
		}
		// An inbox that is not a folder is reported above, and has no archive.
		// A box may have hundreds of thousands of messages. Usually only the newest day has other ones than before.
		newest := slices.Max(append(slices.Collect(maps.Keys(remembered.Days)), ""))
		days, names, err := w.list(folder, newest)
		for day, sum := range days {
			if day < newest && remembered.Days[day] != sum {
				days, names, err = w.list(folder, "")
				break
			}
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, durable.ErrNotFolder) {
			f.Unread[folder] = err
			continue
		}
		f.Memory[string(box)] = Memory{At: at, Days: days}
		var wrong []string
		for _, file := range names {
			if f.Same(box, DayOf(file)) {
				continue
			}
			name, err := mailbox.LongName(w.Workspace, mailbox.Entry{Agent: agent, Box: box, Name: file})
			c := Copy{agent, name, box == mailbox.Outbox}
			if err == nil {
				err = c.Check()
			}
			if err != nil {
				f.Problems[folder+"/"+file], wrong = err, append(wrong, DayOf(file))
				continue
			}
			if f.Places[c] != Nowhere {
				f.Twice[c] = true
			}
			f.Places[c] = PlaceOf(box)
		}
		for _, day := range wrong { // the next scan reports it again
			f.Memory.Forget(day, box)
		}
	}
	if f.Partial {
		w.findTwice(f)
	}
	// The marks come last: a verb that moved one of the files has noted it before.
	var err error
	if f.Marks, f.MarkFiles, err = mailbox.Marks(w.Workspace, agent, false); err != nil {
		f.Unread[mailbox.MarksFolder] = err
	}
	return f
}

// Here returns what the workspace knows of a message: what its machines last agreed on, what the mark says, and what the file
// shows.
func (w *Workspace) Here(c Copy, file Place, m facts.Mark, agreed facts.Set) facts.Set {
	end := facts.WasHandled
	if c.Sent {
		end = facts.Kept // an outbox shows no end
	} else if file == Dead {
		end = facts.WasDead
		if e, err := w.find(c.Agent, mailbox.DeadLetters, c.Name); err == nil && mailbox.RecalledBy(w.Workspace, e) != "" {
			end = facts.WasRecalled
		}
	}
	return m.Here(file, end, agreed)
}

// An Outcome is a state that was agreed on and that the workspace has to take.
type Outcome struct {
	Copy
	// Was is the place of the file when the workspace was scanned, and Want the place that it has to get.
	Was, Want Place
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
	case err != nil && now == Nowhere:
		return false, err
	case now == o.Want:
		return false, cmp.Or(w.addReason(o, e.Name), w.removeOthers(o, e))
	case now != o.Was:
		return false, ErrChanged
	case o.Want == Removed:
		return true, w.setAside(e, o.Name)
	case o.Want == Pending:
		return true, w.putBack(ctx, o)
	case now == Nowhere:
		if err := w.withdraw(o); err != nil {
			return false, err
		}
		return true, w.add(o)
	}
	// The reason comes first: a dead letter must not be seen without one.
	if err := w.addReason(o, e.Name); err != nil {
		return false, err
	}
	if there, err := w.find(o.Agent, Box(o.Want), o.Name); err != nil {
		return false, err
	} else if there.Name != "" { // an interrupted move left both
		return true, w.Remove(e)
	}
	if _, err = w.Move(e, Box(o.Want)); err == nil && now == Dead {
		e.Name += mailbox.ReasonSuffix
		if err = w.Remove(e); mailbox.IsGone(err) {
			err = nil
		}
	}
	return true, err
}

// removeOthers removes the copies of a file in other boxes.
func (w *Workspace) removeOthers(o Outcome, kept mailbox.Entry) error {
	data, err := mailbox.ReadUnscreened(w.Workspace, kept)
	for _, box := range []mailbox.Box{mailbox.Inbox, mailbox.Archive, mailbox.DeadLetters} {
		if o.Sent || box == kept.Box || err != nil {
			continue
		}
		var e mailbox.Entry
		if e, err = w.find(o.Agent, box, o.Name); err != nil || e.Name == "" {
			continue
		}
		if other, readErr := mailbox.ReadUnscreened(w.Workspace, e); readErr == nil && bytes.Equal(other, data) {
			err = w.Remove(e)
		}
	}
	return err
}

// setAside moves the file of a message of an agent that was removed, and added again, out of the mailbox.
func (w *Workspace) setAside(e mailbox.Entry, name string) (err error) {
	folder := mailbox.RemovedFolder + "/" + string(e.Agent) + "-mail"
	if err := w.MakeStateFolder(folder); err != nil {
		return err
	}
	data, err := mailbox.ReadUnscreened(w.Workspace, e)
	if err == nil {
		_, err = w.AddFile(folder+"/"+name, data)
	}
	if err != nil {
		return err
	}
	return w.Remove(e)
}

// Prepare notes those facts that last of what is agreed of messages of an agent, before their files move.
func (w *Workspace) Prepare(agent schema.AgentName, f *Files, agreed map[string]facts.Set) error {
	marks := make(map[string]facts.Mark)
	for name, s := range agreed {
		if s.Lasts() && !f.Marks[name].Facts.Contains(s) {
			marks[name] = facts.Mark{Facts: s, Placed: f.Places[Copy{Agent: agent, Name: name}]} // until the base is recorded
		}
	}
	if len(marks) == 0 {
		return nil
	}
	_, err := mailbox.AddMarks(w.Workspace, agent, marks)
	return err
}

// Settle replaces the marks that were read by fewer ones, once the base is recorded. It keeps those that last,
// because the base may get lost, and those that the base does not have. waiting are the places of the files that could not move.
func (w *Workspace) Settle(agent schema.AgentName, read *Files, base map[string]facts.Set, waiting map[Copy]Place) error {
	keep := make(map[string]facts.Mark)
	for name, m := range read.Marks {
		agreed := base[name]
		switch s := m.Facts.Join(agreed); {
		case s != agreed:
			keep[name] = facts.Mark{Facts: s, Placed: m.Placed}
		case s.Lasts():
			keep[name] = facts.Mark{Facts: s}
		}
	}
	for c, place := range waiting {
		if c.Agent == agent && place > Pending {
			keep[c.Name] = facts.Mark{Facts: base[c.Name].Join(read.Marks[c.Name].Facts), Placed: place}
		}
	}
	kept, err := mailbox.AddMarks(w.Workspace, agent, keep)
	if err != nil {
		return err
	}
	for _, file := range read.MarkFiles {
		if !slices.Contains(kept, file) {
			if removeErr := w.Root().Remove(file); !mailbox.IsGone(removeErr) {
				err = errors.Join(err, removeErr)
			}
		}
	}
	read.MarkFiles = nil
	return err
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
	folder := schema.BoxPath(o.Agent, Box(o.Want))
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
	if w.Return != nil {
		err = w.Return(ctx, m, o.Agent)
	} else {
		_, err = mailbox.PutBack(ctx, w.Workspace, m, o.Agent, func(mailbox.Entry) error { return nil })
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
// not shared before may have some; once it is shared, a missing file
// changes no state.
func (w *Workspace) TakeOver() error {
	agents, err := w.Agents()
	if err != nil {
		return err
	}
	defer w.Hold()()
	for _, from := range agents {
		files := w.Scan(from, nil)
		for _, err := range files.Unread {
			return err
		}
		for sent := range files.Places {
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
		if w.held(to, mailbox.Inbox) == nil {
			continue // the whole folder was removed, which handled no message
		}
		c := Copy{Agent: to, Name: name}
		if place, _, err := w.Look(c); place != Nowhere || err != nil {
			continue
		}
		if queued, err := mailbox.IsQueued(w.Workspace, m.ID, to); queued || err != nil {
			continue
		}
		if err := w.add(Outcome{Copy: c, Want: Handled, Data: data}); err != nil {
			return err
		}
	}
	return nil
}
