package watch

import (
	"bytes"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/validate"
)

const (
	// Quiet is how long a file must stay unchanged to count as complete if no other copy proves it.
	Quiet = 250 * time.Millisecond
	// oldAfter is the age from which on a file counts as unchanged at first sight. File systems count
	// time in steps of up to two seconds, and the clock of a file server may be slow.
	oldAfter = time.Minute
)

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
// file without one may have changed just now, unless it is old.
func (s Sighting) Seen(info fs.FileInfo, now time.Time) Sighting {
	if s.Since.IsZero() && isOld(info, now) {
		return Sighting{versionOf(info), now.Add(-oldAfter)}
	}
	return s.next(versionOf(info), now)
}

// isOld reports whether nobody has written to a file for long. A program can set the time of the last
// write, but not that of the last change.
func isOld(info fs.FileInfo, now time.Time) bool {
	return now.Sub(info.ModTime()) >= oldAfter && now.Sub(durable.Changed(info)) >= oldAfter
}

// isWhole reports whether a file shows that nobody is writing it: it is old, or its times are those
// of a file that was written whole; see durable.Dir.Create. A time far before the change was set.
func isWhole(info fs.FileInfo, now time.Time) bool {
	changed := durable.Changed(info)
	after := changed.Sub(info.ModTime())
	return info.Mode().IsRegular() && (isOld(info, now) || changed.IsZero() || 0 < after && after < oldAfter)
}

func (s Sighting) next(version Version, now time.Time) Sighting {
	if s.Since.IsZero() || !s.equal(version) {
		return Sighting{version, now}
	}
	return s
}

// quietAt returns when the file counts as quiet unless it changes before.
func (s Sighting) quietAt() time.Time { return s.Since.Add(Quiet) }

func (s Sighting) isQuiet(now time.Time) bool { return !now.Before(s.quietAt()) }

// Settled reports whether a message file in an inbox or outbox is complete, or whether another
// program may still be writing it. A file is complete if the message's other copy, in its sender's
// outbox or in a recipient's inbox, is complete by its times and has the same bytes, and otherwise
// when the file has been unchanged for Quiet. A caller that reads the file afterwards must check that
// it is still as it was seen. Only Agent, Box and Name of the entry are used.
func Settled(w *mailbox.Workspace, e mailbox.Entry, seen Sighting, now time.Time) bool {
	if seen.isQuiet(now) {
		return true
	}
	info, err := w.Root().Lstat(schema.BoxPath(e.Agent, e.Box) + "/" + e.Name)
	if err != nil {
		return false
	}
	data, err := w.ReadRaw(e)
	if err == nil {
		e.Message, err = validate.Read(data)
	}
	return err == nil && isCopied(w, e, info, data, now)
}

// isCopied reports whether another file holds the entry's message with the same data, and is whole.
// One program may be writing both copies, or one file under two names.
func isCopied(w *mailbox.Workspace, e mailbox.Entry, info fs.FileInfo, data []byte, now time.Time) bool {
	others, box := []schema.AgentName{e.Message.From}, mailbox.Outbox
	if e.Box == mailbox.Outbox {
		others, box = e.Message.To, mailbox.Inbox
	}
	names := []string{e.Name, e.Message.FileName()}
	if long, err := e.Message.LongFileName(); err == nil {
		names = append(names, long)
	}
	return slices.ContainsFunc(others, func(agent schema.AgentName) bool {
		dir, err := durable.OpenDir(w.Root(), w.Dir(), schema.BoxPath(agent, box))
		if err != nil {
			return false
		}
		defer dir.Close() // nothing is written
		return slices.ContainsFunc(names, func(name string) bool {
			other, err := dir.ReadFile(name, schema.MaxFileSize)
			if err != nil || !bytes.Equal(other, data) {
				return false
			}
			otherInfo, err := dir.Lstat(name) // after it was read: a write in between shows
			return err == nil && isWhole(otherInfo, now) && !os.SameFile(info, otherInfo)
		})
	})
}
