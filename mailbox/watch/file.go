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

// finding is what a look at a file found.
type finding struct {
	box  *box
	name string
	// seen has goneVersion if there is no file.
	seen Sighting
	// unchanged is set for a message that is as it was reported.
	unchanged bool
	// message is as much as can be read, and err what is wrong with the file.
	message *schema.Message
	err     error
}

// goneVersion is the Version of a file that does not exist.
var goneVersion = Version{Size: -1}

func (f *finding) isGone() bool { return f.seen.Version == goneVersion }

// change is a change of what is reported of a file, on its way to the caller.
type change struct {
	box *box
	// kind is empty if the change is only recorded.
	kind  EventKind
	entry mailbox.Entry
	// message and bad are what is recorded of the file afterwards.
	message *summary
	bad     *Version
}

// arrived returns the message, if one has arrived, as far as it can be read. All other changes are
// put before the arrivals.
func (c change) arrived() *schema.Message {
	if m := c.entry.Message; m != nil && (c.kind == EventArrived || c.kind == EventError) {
		return m
	}
	return &schema.Message{}
}

// find looks at a file of a folder, which is nil if it does not exist. It reads the file unless that is
// a message as it was reported. What is wrong with another file may have changed though the file is
// the same.
func (b *box) find(dir *durable.Dir, name string, now time.Time) finding {
	last := b.lastSeen(name)
	var info fs.FileInfo
	err := fs.ErrNotExist
	if dir != nil {
		info, err = dir.Lstat(name)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return finding{box: b, name: name, seen: last.next(goneVersion, now)}
	}
	if err != nil {
		return finding{box: b, name: name, seen: last, err: err}
	}
	seen := last.Seen(info, now)
	_, isBad := b.reported.Unreadable[name]
	if message, ok := b.reported.Messages[name]; ok && !isBad && message.equal(seen.Version) {
		return finding{box: b, name: name, seen: seen, unchanged: true}
	}
	f := b.read(dir, name)
	if f.seen.equal(seen.Version) {
		f.seen = seen
	}
	return f
}

// lastSeen returns the last sighting of a file. A reported file that differs now has changed only
// now: its time proves nothing, because truncating a file sets its size a moment before its time.
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

// read reads a file. Its state afterwards counts as seen just now.
func (b *box) read(dir *durable.Dir, name string) finding {
	f := finding{box: b, name: name, seen: Sighting{Version: goneVersion}}
	data, err := dir.ReadFile(name, schema.MaxFileSize)
	info, lookErr := dir.Lstat(name)
	f.seen.Since = time.Now()
	if errors.Is(lookErr, fs.ErrNotExist) {
		return f
	}
	if err = cmp.Or(lookErr, err); lookErr == nil {
		f.seen.Version = versionOf(info)
	}
	if err == nil {
		f.message, err = b.workspace.Decode(b.entry(name), data)
	}
	f.err = err
	return f
}

// toRecord returns a change that only records what was found: a message, valid or not.
func (f *finding) toRecord() change {
	c := change{box: f.box, entry: f.box.entry(f.name)}
	c.entry.Message, c.entry.Err, c.entry.Modified = f.message, f.err, f.seen.Modified
	if f.message != nil {
		c.message = summarize(f.name, f.message, f.seen.Version)
	}
	if f.err != nil {
		c.bad = &f.seen.Version
		if c.message != nil {
			c.message.Invalid = true
		}
	}
	return c
}

// compare compares a finding with the record, and returns the changes of a settled file. If the Watcher
// does not follow, it does not wait for a missing file to come back.
func (b *box) compare(f finding, now time.Time, follow bool) []change {
	reported, isMessage := b.reported.Messages[f.name]
	badVersion, isBad := b.reported.Unreadable[f.name]
	delete(b.unsettled, f.name)
	if f.unchanged || f.isGone() && !isMessage && !isBad {
		return nil
	}
	if f.err != nil && isBad && badVersion.equal(f.seen.Version) {
		return nil
	}
	c := f.toRecord()
	isSame := isMessage && f.message != nil && reported.is(f.message)
	if f.isGone() && !isMessage || isSame && f.err == nil && !reported.Invalid {
		return []change{c}
	}
	if !f.seen.Settled(now) && (follow || !f.isGone()) {
		b.unsettled[f.name] = f.seen
		return nil
	}
	if f.err != nil {
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
		left := change{box: b, kind: EventArchived, entry: b.entry(f.name)}
		left.entry.Message, left.entry.Modified = reported.restore(), reported.Modified
		changes = append(changes, left)
	}
	if f.message != nil {
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
