package watch

import (
	"io/fs"
	"time"

	"github.com/oacp-go/oacp/internal/durable"
)

const (
	// Quiet is how long a file must stay unchanged to count as complete if its times do not prove it.
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
// file without one may have changed just now, unless its times prove that it is complete.
func (s Sighting) Seen(info fs.FileInfo, now time.Time) Sighting {
	if s.Since.IsZero() && isWhole(info, now) {
		return Sighting{versionOf(info), now.Add(-oldAfter)}
	}
	return s.next(versionOf(info), now)
}

func (s Sighting) next(version Version, now time.Time) Sighting {
	if s.Since.IsZero() || !s.equal(version) {
		return Sighting{version, now}
	}
	return s
}

// Settled reports whether the file is complete. A file that is not may still be being written. A caller
// that reads the file afterwards must check that it is still as it was seen.
func (s Sighting) Settled(now time.Time) bool { return !now.Before(s.quietAt()) }

// quietAt returns when the file counts as complete unless it changes before.
func (s Sighting) quietAt() time.Time { return s.Since.Add(Quiet) }

// isWhole reports whether the times of a file prove that nobody is writing it. Writing sets both times
// to now. So a file that is old is complete, and so is one that was renamed after it was written, as
// durable.Dir.Create does, because a rename sets only the second time. A program can set the first
// time; one far before the second was set. One in whole seconds may be that of a file system that
// counts so.
func isWhole(info fs.FileInfo, now time.Time) bool {
	modified, changed := info.ModTime(), durable.Changed(info) // zero if the system does not tell
	if now.Sub(modified) >= oldAfter && now.Sub(changed) >= oldAfter {
		return true
	}
	after := changed.Sub(modified)
	return info.Mode().IsRegular() && 0 < after && after < oldAfter && modified.Nanosecond() != 0
}
