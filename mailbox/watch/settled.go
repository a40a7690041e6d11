package watch

import (
	"bytes"
	"io/fs"
	"time"

	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/validate"
)

// Quiet is how long a file must stay unchanged to count as complete when no other copy proves it.
const Quiet = 250 * time.Millisecond

// A Sighting is the state in which a file was seen.
type Sighting struct {
	Size     int64
	Modified time.Time
	// Since is when the file was first seen in this state.
	Since time.Time
}

// Seen returns the sighting of a file at a time. If the previous sighting of the same file shows the same state, Since
// is kept. The zero Sighting stands for a file that has not been seen before.
func (s Sighting) Seen(info fs.FileInfo, now time.Time) Sighting {
	if s.Since.IsZero() || s.Size != info.Size() || !s.Modified.Equal(info.ModTime()) {
		return Sighting{Size: info.Size(), Modified: info.ModTime(), Since: now}
	}
	return s
}

// QuietAt returns the time from which on the file counts as quiet, unless it changes before. It goes by the clock of
// the file system or by this machine's, whichever is earlier: the two may differ.
func (s Sighting) QuietAt() time.Time {
	if s.Modified.Before(s.Since) {
		return s.Modified.Add(Quiet)
	}
	return s.Since.Add(Quiet)
}

// Settled reports whether a message file in an inbox or outbox is complete, or whether another program may still be
// writing it. A file is complete if HasCopy says so, and otherwise when it has been quiet, that is unchanged for Quiet. A
// caller that reads the file afterwards must check that it still is as it was seen.
//
// The entry must have Agent, Box and Name; Message is not used.
func Settled(w *mailbox.Workspace, e mailbox.Entry, seen Sighting, now time.Time) bool {
	return !now.Before(seen.QuietAt()) || HasCopy(w, e)
}

// HasCopy reports whether the file of an inbox or outbox holds a message whose other copy has the same bytes: the copy in
// the outbox of its sender, or one in the inbox of a recipient. A file that cannot be read has no copy.
func HasCopy(w *mailbox.Workspace, e mailbox.Entry) bool {
	data, err := w.ReadRaw(e)
	if err != nil {
		return false
	}
	m, err := validate.Read(data)
	return err == nil && isCopied(w, e, m, data)
}

// isCopied is HasCopy for a file with a message that holds the data.
func isCopied(w *mailbox.Workspace, e mailbox.Entry, m *schema.Message, data []byte) bool {
	switch {
	case e.Box == mailbox.Inbox && m.From.Valid():
		return boxHolds(w, m.From, mailbox.Outbox, e.Name, m, data)
	case e.Box == mailbox.Outbox:
		for _, to := range m.To {
			if to.Valid() && boxHolds(w, to, mailbox.Inbox, e.Name, m, data) {
				return true
			}
		}
	}
	return false
}

// boxHolds reports whether a box holds the data under one of the names that a message can have.
func boxHolds(w *mailbox.Workspace, agent schema.AgentName, box mailbox.Box, name string, m *schema.Message, data []byte) bool {
	names := []string{name, m.FileName()}
	if long, err := m.LongFileName(); err == nil {
		names = append(names, long)
	}
	for _, name := range names {
		info, err := w.Root().Lstat(mailbox.BoxName(agent, box) + "/" + name)
		if err != nil || info.Size() != int64(len(data)) {
			continue
		}
		other, err := w.ReadRaw(mailbox.Entry{Agent: agent, Box: box, Name: name})
		if err == nil && bytes.Equal(other, data) {
			return true
		}
	}
	return false
}
