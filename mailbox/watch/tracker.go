package watch

import (
	"strings"
	"time"
	"unique"

	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// How long a file must stand still until it is taken for what it looks like.
const (
	// stillMessage is for a message that another tool may be writing in
	// place: its first half can be a valid message, too.
	stillMessage = 200 * time.Millisecond
	// stillBad is for a file that is no message, or not yet.
	stillBad = time.Second
	// stillGone is for a file that has gone: editors rename a file away and
	// write it again.
	stillGone = 100 * time.Millisecond
	// stillAtAll is for a file that never stands still.
	stillAtAll = 10 * time.Second
	// oldFile is the age at which a file is taken to be finished when it is
	// first seen. Clocks of file servers differ, so it is longer than needed.
	oldFile = 2 * time.Second
)

// A file that does not stand still yet is looked at again and again, at first
// after lookAgain and then ever less often up to lookAgainMost.
const (
	lookAgain     = 5 * time.Millisecond
	lookAgainMost = 50 * time.Millisecond
)

// fileVersion tells the states of a file apart without reading it.
type fileVersion struct {
	Modified time.Time `json:"modified,omitzero"`
	Size     int64     `json:"size,omitempty"`
}

func (v fileVersion) equal(other fileVersion) bool {
	return v.Size == other.Size && v.Modified.Equal(other.Modified)
}

// seenMessage is what is remembered of a message that was reported: an entry
// of the reference implementation's cursor, with keys of ours.
type seenMessage struct {
	File     string           `json:"file"`
	From     schema.AgentName `json:"from"`
	ID       schema.ID        `json:"id,omitempty"`
	Priority schema.Priority  `json:"priority"`
	Subject  string           `json:"subject"`
	Type     schema.Type      `json:"type"`
	fileVersion
}

// newSeenMessage copies what it keeps of the message, whose texts would keep
// the whole file in memory. What many messages have is kept once.
func newSeenMessage(name string, m *schema.Message, v fileVersion) seenMessage {
	return seenMessage{
		File: name, From: unique.Make(m.From).Value(), ID: schema.ID(strings.Clone(string(m.ID))),
		Priority: unique.Make(m.Priority).Value(), Subject: strings.Clone(m.Subject), Type: unique.Make(m.Type).Value(), fileVersion: v,
	}
}

// message returns what is left of the message.
func (s seenMessage) message() *schema.Message {
	return &schema.Message{ID: s.ID, From: s.From, Type: s.Type, Priority: s.Priority, Subject: s.Subject}
}

// is reports whether the message is the one that was reported. The reference
// implementation remembers no ids.
func (s seenMessage) is(m *schema.Message) bool {
	if s.ID != "" {
		return s.ID == m.ID
	}
	return s.From == m.From && s.Type == m.Type && s.Priority == m.Priority && s.Subject == m.Subject
}

// fileState is what one look found under a name.
type fileState int

const (
	fileUnchanged fileState = iota // as it was when it was reported
	fileGone
	fileMessage
	fileBad
)

// look is what one look at a file found.
type look struct {
	state   fileState
	version fileVersion
	entry   mailbox.Entry
	// moving says that the file changed while it was read.
	moving bool
	// delivered says that the message was put there whole.
	delivered bool
}

// change is one step of what is known of a file. Its kind is empty when
// nobody is to be told.
type change struct {
	kind  EventKind
	entry mailbox.Entry
	// message and bad are what is known afterwards, nil where nothing is.
	message *seenMessage
	bad     *fileVersion
}

func (c change) event(project string) Event {
	return Event{Kind: c.kind, Project: project, Entry: c.entry}
}

// settling is a file that does not stand still yet.
type settling struct {
	last look
	// first is when the file began to differ from what was reported, and
	// still since when it is as it was last seen.
	first, still time.Time
	next         time.Time
	step         time.Duration
}

// tracker turns looks at the files of a folder into changes. It does no input
// or output and reads no clock.
type tracker struct {
	// messages are those reported and not known to have gone, by file name.
	messages map[string]seenMessage
	// bad are the files that were reported as no message.
	bad      map[string]fileVersion
	settling map[string]*settling
}

func newTracker() tracker {
	return tracker{messages: make(map[string]seenMessage), bad: make(map[string]fileVersion), settling: make(map[string]*settling)}
}

// knows reports whether there is anything to compare a file of the name with.
func (t *tracker) knows(name string) bool {
	if _, ok := t.messages[name]; ok {
		return true
	}
	_, isBad := t.bad[name]
	return isBad || t.settling[name] != nil
}

// recall returns what a look at a file of this version would find, if that is
// known without reading it. Bad files are always read: what was wrong with one
// may have been a permission.
func (t *tracker) recall(name string, v fileVersion) (look, bool) {
	if s := t.settling[name]; s != nil {
		if s.last.state == fileMessage && s.last.version.equal(v) {
			return s.last, true
		}
	} else if _, isBad := t.bad[name]; isBad {
		return look{}, false
	}
	seen, ok := t.messages[name]
	return look{state: fileUnchanged, version: v}, ok && seen.fileVersion.equal(v)
}

// observe takes in what one look found and returns what is to be reported.
func (t *tracker) observe(name string, l look, now time.Time) []change {
	seen, known := t.messages[name]
	badVersion, knownBad := t.bad[name]
	switch {
	case l.state == fileUnchanged:
		delete(t.settling, name)
		return nil
	case l.state == fileMessage && known && seen.is(l.entry.Message):
		delete(t.settling, name)
		if seen.equal(l.version) && !knownBad {
			return nil
		}
		return []change{t.become(name, change{message: new(newSeenMessage(name, l.entry.Message, l.version))})}
	case l.state == fileBad && knownBad && badVersion.equal(l.version):
		delete(t.settling, name)
		return nil
	case l.state == fileGone && !known:
		delete(t.settling, name)
		if !knownBad {
			return nil
		}
		return []change{t.become(name, change{})}
	case !t.standsStill(name, l, now):
		return nil
	}
	delete(t.settling, name)
	return t.settled(name, l)
}

// settled returns the changes for a file that has become something else.
func (t *tracker) settled(name string, l look) []change {
	var changes []change
	seen, known := t.messages[name]
	if l.state == fileBad {
		c := change{kind: EventError, entry: l.entry, bad: &l.version}
		if known {
			c.message = &seen
		}
		return []change{t.become(name, c)}
	}
	if known {
		gone := l.entry
		gone.Message, gone.Err, gone.Modified = seen.message(), nil, seen.Modified
		changes = append(changes, t.become(name, change{kind: EventArchived, entry: gone}))
	}
	if l.state == fileMessage {
		now := newSeenMessage(name, l.entry.Message, l.version)
		changes = append(changes, t.become(name, change{kind: EventArrived, entry: l.entry, message: &now}))
	}
	return changes
}

// become makes the change what is known.
func (t *tracker) become(name string, c change) change {
	c.entry.Name = name
	delete(t.messages, name)
	delete(t.bad, name)
	if c.message != nil {
		t.messages[name] = *c.message
	}
	if c.bad != nil {
		t.bad[name] = *c.bad
	}
	return c
}

// standsStill reports whether the file is finished, as far as anybody can
// tell, and otherwise plans the next look at it.
func (t *tracker) standsStill(name string, l look, now time.Time) bool {
	old := l.state != fileGone && !l.moving && now.Sub(l.version.Modified) >= oldFile
	if l.delivered || old && l.state == fileMessage {
		return true
	}
	s := t.settling[name]
	if s == nil {
		s = &settling{first: now, still: now, step: lookAgain}
		t.settling[name] = s
	} else if s.last.state != l.state || !s.last.version.equal(l.version) {
		s.still = now
	}
	s.last = l
	wait := map[fileState]time.Duration{fileMessage: stillMessage, fileBad: stillBad, fileGone: stillGone}[l.state]
	if old {
		// Truncating a file sets its size a moment before its time.
		wait = lookAgain
	}
	if now.Sub(s.still) >= wait || now.Sub(s.first) >= stillAtAll {
		return true
	}
	s.next = now.Add(s.step)
	s.step = min(2*s.step, lookAgainMost)
	return false
}

// due returns the files to be looked at again by now.
func (t *tracker) due(now time.Time) []string {
	var names []string
	for name, s := range t.settling {
		if !s.next.After(now) {
			names = append(names, name)
		}
	}
	return names
}

// next returns when a file is due first, and the zero time if none is. Those
// that have gone count if goneToo.
func (t *tracker) next(goneToo bool) time.Time {
	var next time.Time
	for _, s := range t.settling {
		if s.last.state == fileGone && !goneToo {
			continue
		}
		if next.IsZero() || s.next.Before(next) {
			next = s.next
		}
	}
	return next
}
