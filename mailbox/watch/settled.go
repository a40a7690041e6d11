package watch

import (
	"bytes"
	"io/fs"
	"slices"
	"time"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/validate"
)

// Quiet is how long a file must stay unchanged to count as complete if no other copy proves it.
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

// A Sighting is the state in which a file was seen. The zero value stands for a file that has not
// been seen yet.
type Sighting struct {
	Version
	// Since is since when the file has been in this state, as far as is known.
	Since time.Time
}

// Seen returns the sighting of a file that info describes now. s is the file's previous sighting. A
// file without one has not changed since its modification time.
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

// Settled reports whether a message file in an inbox or outbox is complete, or whether another
// program may still be writing it. A file is complete if the message's other copy, in its sender's
// outbox or in a recipient's inbox, has the same bytes, and otherwise when the file has been
// unchanged for Quiet. A caller that reads the file afterwards must check that it is still as it
// was seen. Only Agent, Box and Name of the entry are used.
func Settled(w *mailbox.Workspace, e mailbox.Entry, seen Sighting, now time.Time) bool {
	if seen.isQuiet(now) {
		return true
	}
	data, err := w.ReadRaw(e)
	if err == nil {
		e.Message, err = validate.Read(data)
	}
	return err == nil && isCopied(w, e, data)
}

// isCopied reports whether another copy of the entry's message has the same data.
func isCopied(w *mailbox.Workspace, e mailbox.Entry, data []byte) bool {
	others, box := e.Message.To, mailbox.Inbox
	if e.Box == mailbox.Inbox {
		others, box = []schema.AgentName{e.Message.From}, mailbox.Outbox
	}
	names := []string{e.Name, e.Message.FileName()}
	if long, err := e.Message.LongFileName(); err == nil {
		names = append(names, long)
	}
	return slices.ContainsFunc(others, func(agent schema.AgentName) bool {
		dir, err := durable.OpenDir(w.Root(), w.Dir(), mailbox.BoxName(agent, box))
		if err != nil {
			return false
		}
		defer dir.Close() // nothing is written
		return slices.ContainsFunc(names, func(name string) bool {
			other, err := dir.ReadFile(name, schema.MaxFileSize)
			return err == nil && bytes.Equal(other, data)
		})
	})
}
