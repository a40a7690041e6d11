package schema

import (
	"strings"
	"sync"
	"time"
)

// CompareAge orders messages by age, the oldest first: by their times (see Dated), within a second by the times
// in their ids, then by id. So the messages of one sender are in the order in which it sent them.
func CompareAge(a, b *Message) int {
	age, other := a.Age(), b.Age()
	return age.Compare(&other)
}

// Age is what CompareAge compares of a message. Sorting many messages by their ages is faster than
// by the messages.
type Age struct {
	createdAt Timestamp
	// stamp and within are the time in the id.
	stamp, within string
	id            ID
}

// Age returns the age of the message.
func (m *Message) Age() Age {
	stamp, within := m.ID.time()
	return Age{m.Dated(), stamp, within, m.ID}
}

// NoteArrival records when the message's file was written, if that is over a minute before CreatedAt: then the clock of
// the sender was ahead, or the message was dated by hand.
func (m *Message) NoteArrival(at time.Time) {
	if m.CreatedAt.Time().Sub(at) > time.Minute && !at.IsZero() {
		m.Arrived = NewTimestamp(at)
	}
}

// Dated returns the time that counts for the age of the message: CreatedAt or, if that is in the future of its arrival, its
// arrival. So no message comes behind all later ones.
func (m *Message) Dated() Timestamp {
	if m.Arrived != "" {
		return m.Arrived
	}
	return m.CreatedAt
}

// Compare returns a negative number if a is the age of the older message.
func (a *Age) Compare(b *Age) int {
	if c := strings.Compare(string(a.createdAt), string(b.createdAt)); c != 0 {
		return c
	}
	if c := strings.Compare(a.stamp, b.stamp); c != 0 {
		return c
	}
	if c := strings.Compare(a.within, b.within); c != 0 {
		return c
	}
	return strings.Compare(string(a.id), string(b.id))
}

// Class orders messages for processing: the lower class comes first, and within a class the older
// message. Classes go by priority; within a priority requests come first, notifications and
// follow-ups last. A message without a known priority counts as DefaultPriority.
func (m *Message) Class() int {
	const ranks = 3
	p := m.Priority
	if !p.Known() {
		p = DefaultPriority
	}
	return int(p[1]-'0')*ranks + m.Type.rank()
}

// rank orders types within a priority: requests first, information last.
func (t Type) rank() int {
	switch t {
	case TaskRequest, ReviewRequest:
		return 0
	case Notification, FollowUp:
		return 2
	}
	return 1
}

// time returns the time in an id as text that sorts by time: the timestamp and, if that is only to
// the minute, the position within the minute. The id need not be valid.
func (id ID) time() (stamp, within string) {
	rest := strings.TrimPrefix(string(id), "msg-")
	stamp, rest, _ = strings.Cut(rest, "-")
	if len(stamp) != len(compactMinute) || stamp[len(stamp)-1] != 'Z' {
		return stamp, ""
	}
	rand := rest[strings.LastIndexByte(rest, '-')+1:]
	digits := shortTime
	if len(rand) == LongRand {
		digits = longTime
	}
	return stamp, rand[:min(digits, len(rand))]
}

// A Clock returns the times for new ids, so that ids sort in the order in which they were made. The
// zero value is ready to use, and safe for concurrent use.
type Clock struct {
	mutex sync.Mutex
	// last is the last time that Next returned, and lastWithin that of Within.
	last, lastWithin time.Time
}

// Steps just longer than those of the times in short and long ids.
const (
	shortStep = time.Minute/(36*36*36) + 1
	longStep  = time.Minute/(36*36*36*36*36*36) + 1
)

// Next returns now, or the earliest time after all that it has returned if the system's clock stands
// still or was set back. If alone is false, a short id is not safe: the last time that Next returned
// may give the same one.
func (c *Clock) Next(now time.Time) (at time.Time, alone bool) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	at = now.Round(0).UTC() // the time of day: that is what ids carry
	if earliest := c.last.Add(longStep); at.Before(earliest) {
		at = earliest
	}
	alone = at.Sub(c.last) >= time.Minute || positionInMinute(at, shortTime) != positionInMinute(c.last, shortTime)
	c.last = at
	return at, alone
}

// Within returns a time in the given second for the id of a message whose rand has the given length.
// Successive calls for one second return increasing times, and begin again when the second is full.
func (c *Clock) Within(second time.Time, length int) time.Time {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	next := c.lastWithin.Add(longStep)
	if length == ShortRand {
		next = c.lastWithin.Add(shortStep)
	}
	if !next.Truncate(time.Second).Equal(second) {
		next = second
	}
	c.lastWithin = next
	return next
}
