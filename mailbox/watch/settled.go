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

// Version tells two states of a file apart without reading it.
type Version struct {
	Modified time.Time `json:"modified,omitzero"`
	Size     int64     `json:"size,omitempty"`
}

func versionOf(info fs.FileInfo) Version {
	return Version{Modified: info.ModTime().Round(0), Size: info.Size()}
}

func (v Version) equal(other Version) bool {
	return v.Size == other.Size && v.Modified.Equal(other.Modified)
}

// A Sighting is the state in which a file was seen. The zero value stands for a file that has not been seen yet.
type Sighting struct {
	Version
	// Since is since when the file has been in this state, as far as is known.
	Since time.Time
}

// Seen returns the sighting of a file that is now described by info, where s is its previous sighting. A file that has
// not been seen before has not changed since its modification time.
func (s Sighting) Seen(info fs.FileInfo, now time.Time) Sighting {
	version := versionOf(info)
	if s.Since.IsZero() && version.Modified.Before(now) {
		return Sighting{version, version.Modified}
	}
	return s.next(version, now)
}

func (s Sighting) next(version Version, now time.Time) Sighting {
	if s.Since.IsZero() || !s.equal(version) {
		return Sighting{version, now}
	}
	return s
}

// QuietAt returns when the file counts as quiet unless it changes before.
func (s Sighting) QuietAt() time.Time { return s.Since.Add(Quiet) }

func (s Sighting) isQuiet(now time.Time) bool { return !now.Before(s.QuietAt()) }

// Settled reports whether a message file in an inbox or outbox is complete, or whether another program may still be
// writing it. A file is complete if HasCopy says so, and otherwise when it has been quiet, that is unchanged for Quiet. A
// caller that reads the file afterwards must check that it still is as it was seen.
//
// The entry must have Agent, Box and Name; Message is not used.
func Settled(w *mailbox.Workspace, e mailbox.Entry, seen Sighting, now time.Time) bool {
	return seen.isQuiet(now) || HasCopy(w, e)
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
