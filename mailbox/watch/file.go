package watch

import (
	"errors"
	"io/fs"
	"time"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// fileState is what a look at a file found.
type fileState int

const (
	// The zero state is a file that is not read, because another program may still be writing it.
	_ fileState = iota
	// fileUnchanged is a file in the state in which it was reported.
	fileUnchanged
	fileGone
	fileMessage
	fileBad
)

// finding is what a look at a file found.
type finding struct {
	state   fileState
	name    string
	seen    Sighting
	settled bool
	message *schema.Message
	err     error
}

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

// goneVersion is the Version of a file that does not exist.
var goneVersion = Version{Size: -1}

// find looks at a file of a folder, which is nil if it does not exist. It reads the file only if
// that is in a state in which it was not read before.
func (b *box) find(dir *durable.Dir, name string, now time.Time) (f finding) {
	f.name, f.seen = name, b.lastSeen(name)
	var info fs.FileInfo
	err := fs.ErrNotExist
	if dir != nil {
		info, err = dir.Lstat(name)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		f.state, f.seen = fileGone, f.seen.next(goneVersion, now)
		f.settled = f.seen.isQuiet(now)
		return f
	case err != nil:
		f.state, f.err, f.settled = fileBad, err, true
		return f
	}
	f.seen = f.seen.Seen(info, now)
	_, isBad := b.reported.Unreadable[name]
	if message, ok := b.reported.Messages[name]; ok && !isBad && message.equal(f.seen.Version) {
		f.state = fileUnchanged
		return f
	}
	f.settled = f.seen.isQuiet(now)
	if last, ok := b.unsettled[name]; !ok || f.settled || !last.equal(f.seen.Version) {
		b.read(dir, &f, now)
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

// read reads a file and completes the finding.
func (b *box) read(dir *durable.Dir, f *finding, now time.Time) {
	data, err := dir.ReadFile(f.name, schema.MaxFileSize)
	info, lookErr := dir.Lstat(f.name)
	switch {
	case errors.Is(lookErr, fs.ErrNotExist):
		f.state, f.settled, f.seen = fileGone, false, f.seen.next(goneVersion, time.Now())
		return
	case lookErr != nil || !versionOf(info).equal(f.seen.Version):
		f.settled, f.seen.Since = false, time.Now()
		return
	case err == nil:
		f.message, err = b.workspace.Decode(b.entry(f.name), data)
	}
	if err != nil {
		f.state, f.err = fileBad, err
		return
	}
	e := b.entry(f.name)
	e.Message = f.message
	f.state, f.settled = fileMessage, f.settled || isCopied(b.workspace, e, info, data, now)
}

// compare compares a finding with the record, and returns the changes of a settled file. If the Watcher
// does not follow, it does not wait for a missing file to come back.
func (b *box) compare(f finding, follow bool) []change {
	reported, isMessage := b.reported.Messages[f.name]
	badVersion, isBad := b.reported.Unreadable[f.name]
	delete(b.unsettled, f.name)
	if f.state == fileUnchanged {
		return nil
	}
	c := change{box: b, entry: b.entry(f.name)}
	c.entry.Message, c.entry.Err, c.entry.Modified = f.message, f.err, f.seen.Modified
	if f.state == fileMessage {
		c.message = summarize(f.name, f.message, f.seen.Version)
	}
	switch {
	case f.state == fileBad && isBad && badVersion.equal(f.seen.Version):
		return nil
	case f.state == fileGone && !isMessage && !isBad:
		return nil
	case f.state == fileGone && !isMessage, f.state == fileMessage && isMessage && reported.is(f.message) && !reported.Invalid:
		return []change{c}
	// A message that counts as reported does so even if another program may still be writing it.
	case !f.settled && (f.state != fileGone || follow) && (isMessage || f.message == nil || f.seen.Modified.After(b.since)):
		b.unsettled[f.name] = f.seen
		return nil
	case f.state == fileBad:
		c.bad = &f.seen.Version
		// The reference implementation, which records no ids, has reported the message already.
		if f.message == nil || f.seen.Modified.After(b.since) && !(isMessage && reported.ID == "" && reported.is(f.message)) {
			c.kind = EventError
		}
		if isMessage {
			c.message = &reported
		} else if f.message != nil {
			c.message = summarize(f.name, f.message, f.seen.Version)
			c.message.Invalid = true
		}
		return []change{c}
	}
	var changes []change
	if isMessage && (f.message == nil || !reported.is(f.message)) {
		left := change{box: b, kind: EventArchived, entry: b.entry(f.name)}
		left.entry.Message, left.entry.Modified = reported.restore(), reported.Modified
		changes = append(changes, left)
	}
	if f.state == fileMessage {
		if f.seen.Modified.After(b.since) {
			c.kind = EventArrived
		}
		changes = append(changes, c)
	}
	return changes
}

// apply records a change that was delivered.
func (b *box) apply(c change) {
	name := c.entry.Name
	if name == "" {
		return
	}
	delete(b.reported.Messages, name)
	delete(b.reported.Unreadable, name)
	if c.message != nil {
		b.reported.Messages[name] = *c.message
	}
	if c.bad != nil {
		b.reported.Unreadable[name] = *c.bad
	}
	if b.cursor != nil {
		b.cursor.dirty = true
	}
}
