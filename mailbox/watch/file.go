package watch

import (
	"cmp"
	"errors"
	"io/fs"
	"time"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// goneVersion is the Version of a file that does not exist.
var goneVersion = Version{Size: -1}

// change is what a look at a file found, and what changes in the record of it.
type change struct {
	box *box
	// kind is empty if the change is only recorded.
	kind EventKind
	// entry has as much of the message as can be read, and what is wrong with the file.
	entry mailbox.Entry
	// seen has goneVersion if there is no file.
	seen Sighting
	// message and bad are what is recorded of the file afterwards.
	message *summary
	bad     *Version
}

func (c change) isGone() bool { return c.seen.Version == goneVersion }

// arrived returns the message, if one has arrived, as far as it can be read. All other changes are
// put before the arrivals.
func (c change) arrived() *schema.Message {
	if m := c.entry.Message; m != nil && (c.kind == EventArrived || c.kind == EventError) {
		return m
	}
	return &schema.Message{}
}

// find looks at a file; the folder is nil if it does not exist. It does not read a message that is as it was reported.
// It reads any other file again, because what is wrong with a file may change although the file does not.
func (b *box) find(dir *durable.Dir, name string, now time.Time) (c change, unchanged bool) {
	last := b.lastSeen(name)
	var info fs.FileInfo
	err := fs.ErrNotExist
	if dir != nil {
		info, err = dir.Lstat(name)
	}
	if err != nil {
		c = change{box: b, entry: b.entry(name), seen: last}
		if errors.Is(err, fs.ErrNotExist) {
			c.seen = last.next(goneVersion, now)
		} else {
			c.entry.Err, c.bad = err, &last.Version
		}
		return c, false
	}
	seen := last.Seen(info, now)
	_, isBad := b.reported.Unreadable[name]
	if message, ok := b.reported.Messages[name]; ok && !isBad && message.equal(seen.Version) {
		return change{}, true
	}
	if c = b.read(dir, name); c.seen.equal(seen.Version) {
		c.seen = seen
	}
	return c, false
}

// lastSeen returns the last sighting of a file. For a reported file, it is not the zero Sighting: if the file
// differs, its times prove nothing, because truncating a file sets its size a moment before its time.
func (b *box) lastSeen(name string) Sighting {
	past := time.Unix(0, 0)
	if last, ok := b.unsettled[name]; ok {
		return last
	}
	if version, ok := b.reported.Unreadable[name]; ok {
		return Sighting{version, past}
	}
	if message, ok := b.reported.Messages[name]; ok {
		return Sighting{message.Version, past}
	}
	return Sighting{}
}

// read reads a file, whose state afterwards counts as seen just now. It returns a change that only
// records what the file is.
func (b *box) read(dir *durable.Dir, name string) change {
	c := change{box: b, entry: b.entry(name)}
	data, err := dir.ReadFile(name, schema.MaxFileSize)
	info, lookErr := dir.Lstat(name)
	c.seen = Sighting{goneVersion, time.Now()}
	if errors.Is(lookErr, fs.ErrNotExist) {
		return c
	}
	if lookErr == nil {
		c.seen.Version = versionOf(info)
		c.entry.Modified = c.seen.Modified
	}
	err = cmp.Or(lookErr, err)
	if err == nil {
		c.entry.Message, err = b.decode(c.entry, data)
	}
	if c.entry.Err = err; err != nil {
		c.bad = &c.seen.Version
	}
	if c.entry.Message != nil {
		c.message = summarize(name, c.entry.Message, c.seen.Version)
		c.message.Invalid = err != nil
	}
	return c
}

// compare compares what was found with the record, and returns the changes of a settled file. If follow is set, a
// missing file also has to settle: it may come back.
func (b *box) compare(c change, now time.Time, follow bool) []change {
	name, message := c.entry.Name, c.entry.Message
	reported, isMessage := b.reported.Messages[name]
	badVersion, isBad := b.reported.Unreadable[name]
	isSame := isMessage && message != nil && reported.is(message)
	delete(b.unsettled, name)
	switch {
	case c.isGone() && !isMessage && !isBad, c.entry.Err != nil && isBad && badVersion.equal(c.seen.Version):
		return nil
	case c.isGone() && !isMessage, isSame && c.entry.Err == nil && !reported.Invalid:
		return []change{c}
	case !c.seen.Settled(now) && (follow || !c.isGone()):
		b.unsettled[name] = c.seen
		return nil
	case c.entry.Err != nil:
		if !isSame || reported.ID != "" { // the reference implementation, which records no ids, reports such messages
			c.kind = EventError
		}
		if isMessage {
			c.message = &reported
		}
		return []change{c}
	}
	var changes []change
	if isMessage && !isSame {
		left := change{box: b, kind: EventArchived, entry: b.entry(name)}
		left.entry.Message, left.entry.Modified = reported.restore(), reported.Modified
		changes = append(changes, left)
	}
	if message != nil {
		c.kind = EventArrived
		changes = append(changes, c)
	}
	return changes
}

// apply records a change that was delivered. Errors that do not concern a single file leave no record.
func (b *box) apply(c change) {
	if c.entry.Name != "" {
		b.record(c.entry.Name, c.message, c.bad)
	}
}

// record replaces what is recorded of a file.
func (b *box) record(name string, message *summary, bad *Version) {
	delete(b.reported.Messages, name)
	delete(b.reported.Unreadable, name)
	if message != nil {
		b.reported.Messages[name] = *message
	}
	if bad != nil {
		b.reported.Unreadable[name] = *bad
	}
	if b.cursor != nil {
		b.cursor.dirty = true
	}
}

const (
	// Quiet is how long a file must stay unchanged to count as complete if its times do not prove it.
	Quiet = 250 * time.Millisecond
	// oldAfter is the age at which a file counts as complete at first sight. File systems count
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
	// Since is when the file got into this state, as far as is known.
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
// to now. So an old file is complete, and so is one that changed a little after it was modified: renaming
// a file does that, and so does durable.Dir.Create. If the times are far apart, a program set the first
// one. If the first one has no fraction of a second, the file system may not store fractions.
func isWhole(info fs.FileInfo, now time.Time) bool {
	modified, changed := info.ModTime(), durable.Changed(info) // zero if the system does not tell
	if now.Sub(modified) >= oldAfter && now.Sub(changed) >= oldAfter {
		return true
	}
	after := changed.Sub(modified)
	return info.Mode().IsRegular() && 0 < after && after < oldAfter && modified.Nanosecond() != 0
}
