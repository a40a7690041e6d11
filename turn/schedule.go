package turn

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"
	"unique"

	"github.com/oacp-go/oacp/mailbox/conversation"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn/track"
)

// schedule holds the messages of an inbox and says which one is next. The package documentation has
// its rules. It does no input or output, and only the Runner's loop uses it.
type schedule struct {
	// decide says what to do about a message, and report publishes why it gets no turn.
	decide func(it *item, now time.Time) decision
	report func(it *item, d decision)

	// items are all messages, by the names of their files.
	items map[string]*item
	lanes map[schema.ConversationID]*lane
	// ready are the lanes whose first message is to be decided on, in the order of these messages.
	ready []*lane
	// next is when the first lane that waits, or item that is skipped, is to be decided on again.
	// It is zero if there is none.
	next time.Time
	// inWork counts the items that choose returned and that were not put back. While alone is set,
	// there is one, and nothing runs beside it. While emptying is set, an item waits to run alone.
	inWork          int
	alone, emptying bool
	// checked is the time of the last call of advance.
	checked time.Time
}

// lane holds the messages of one conversation, in processing order. It is busy while one of its
// messages is in work. Otherwise it is ready, or it waits, perhaps until a time.
type lane struct {
	conversation schema.ConversationID
	items        []*item
	busy         bool
	until        time.Time
	// resumes reports whether a waiting lane goes on without a new message or a person.
	resumes bool
	// ready reports whether the lane is in schedule.ready.
	ready bool
}

func (l *lane) waiting() bool { return !l.busy && !l.ready }

func (l *lane) compare(other *lane) int { return l.items[0].compare(other.items[0]) }

func newSchedule(decide func(*item, time.Time) decision, report func(*item, decision)) *schedule {
	return &schedule{
		decide: decide, report: report,
		items: make(map[string]*item), lanes: make(map[schema.ConversationID]*lane),
	}
}

// add adds an item. It replaces an item of the same file, which must not be in work.
func (s *schedule) add(it *item) {
	s.remove(it.File)
	s.items[it.File] = it
	s.enter(it)
}

// enter puts an item into its lane, which becomes ready if the item is its first.
func (s *schedule) enter(it *item) {
	l := s.lanes[it.Conversation]
	if l == nil {
		l = &lane{conversation: it.Conversation}
		s.lanes[it.Conversation] = l
	}
	it.state = queued
	i, _ := slices.BinarySearchFunc(l.items, it, (*item).compare)
	l.items = slices.Insert(l.items, i, it)
	if i == 0 {
		s.wake(l)
	}
}

// remove removes the item of a file if there is one. It must not be in work.
func (s *schedule) remove(file string) {
	it := s.items[file]
	if it == nil {
		return
	}
	delete(s.items, file)
	if it.state == queued {
		s.leaveLane(it)
	}
}

func (s *schedule) leaveLane(it *item) {
	l := s.lanes[it.Conversation]
	i := slices.Index(l.items, it)
	l.items = slices.Delete(l.items, i, i+1)
	if i == 0 {
		s.wake(l)
	}
}

// choose returns the first item with something to do, and what to do. The item is in work, and its lane is
// busy, until putBack. While an item waits to run alone, choose returns no other.
func (s *schedule) choose(now time.Time) (it *item, do action, ok bool) {
	if s.inWork == 0 {
		s.alone, s.emptying = false, false
	}
	for len(s.ready) > 0 && !s.alone && !s.emptying {
		l := s.ready[0]
		it := l.items[0]
		d := s.decide(it, now)
		switch d.do {
		case skip:
			s.leaveLane(it)
			it.state, it.again = skipped, d.at
			if it.expires.After(now) && (it.again.IsZero() || it.expires.Before(it.again)) {
				it.again = it.expires
			}
			s.recheck(it.again)
			s.report(it, d)
		case wait:
			s.wait(l, d, now)
			s.report(it, d)
		default:
			if d.alone && s.inWork > 0 {
				s.emptying = true
				continue
			}
			s.notReady(l)
			l.busy, l.items = true, l.items[1:]
			it.state, it.reported = inWork, ""
			s.inWork++
			s.alone = d.alone
			return it, d.do, true
		}
	}
	return nil, 0, false
}

// following returns the messages that may be next after one in work, in order: those behind it in its
// conversation, and the first ones of the conversations that are ready.
func (s *schedule) following(it *item) []*item {
	next := slices.Clone(s.lanes[it.Conversation].items)
	for _, l := range s.ready {
		next = append(next, l.items[0])
	}
	slices.SortFunc(next, (*item).compare)
	return next
}

// wait makes a lane wait until the time of the decision, or until its first message expires.
func (s *schedule) wait(l *lane, d decision, now time.Time) {
	l.until, l.resumes = d.at, d.resumes
	if expires := l.items[0].expires; expires.After(now) && (l.until.IsZero() || expires.Before(l.until)) {
		l.until = expires
	}
	s.notReady(l)
	s.recheck(l.until)
}

func (s *schedule) recheck(at time.Time) {
	if !at.IsZero() && (s.next.IsZero() || at.Before(s.next)) {
		s.next = at
	}
}

// putBack takes back an item that choose returned. If it is gone, nothing is left to do about it.
func (s *schedule) putBack(it *item, gone bool) {
	l := s.lanes[it.Conversation]
	l.busy = false
	s.inWork--
	if gone {
		delete(s.items, it.File)
	} else {
		s.enter(it)
	}
	s.wake(l)
}

// wake makes a lane ready, or removes it if it is empty. A busy lane stays busy.
func (s *schedule) wake(l *lane) {
	if l.busy {
		return
	}
	s.notReady(l)
	if len(l.items) == 0 {
		delete(s.lanes, l.conversation)
		return
	}
	at, _ := slices.BinarySearchFunc(s.ready, l, (*lane).compare)
	s.ready = slices.Insert(s.ready, at, l)
	l.ready = true
}

// notReady removes a lane from those that are ready. Its first message may have changed, so the place is not known.
func (s *schedule) notReady(l *lane) {
	if l.ready {
		at := slices.Index(s.ready, l)
		s.ready = slices.Delete(s.ready, at, at+1)
		l.ready = false
	}
}

// advance makes the lanes ready whose time has come. If the clock was set back, all decisions are
// made again.
func (s *schedule) advance(now time.Time) {
	if now.Round(0).Before(s.checked.Round(0)) {
		s.wakeAll()
	}
	s.checked = now
	if s.next.IsZero() || s.next.After(now) {
		return
	}
	s.next = time.Time{}
	for _, l := range s.lanes {
		if !l.waiting() {
			continue
		}
		if !l.until.IsZero() && !l.until.After(now) {
			s.wake(l)
		} else {
			s.recheck(l.until)
		}
	}
	for _, it := range s.items {
		switch {
		case it.state != skipped || it.again.IsZero():
		case it.again.After(now):
			s.recheck(it.again)
		default:
			s.enter(it)
		}
	}
}

// wakeAll makes all lanes ready, and returns skipped items to their lanes.
func (s *schedule) wakeAll() {
	for _, l := range s.lanes {
		if l.waiting() {
			s.wake(l)
		}
	}
	for _, it := range s.items {
		s.wakeItem(it)
	}
}

// wakeItem returns an item to its lane if it was skipped.
func (s *schedule) wakeItem(it *item) {
	if it.state == skipped {
		s.enter(it)
	}
}

// goesOn reports whether there is more to do without a new message or a person.
func (s *schedule) goesOn() bool {
	for _, l := range s.lanes {
		if !l.waiting() || l.resumes {
			return true
		}
	}
	return false
}

// item is a message in the inbox. It holds what orders and describes the message, not its text, so that a
// large inbox fits in memory; the file is read again for a turn. The journal has the history of the
// message.
type item struct {
	track.Envelope
	// class and age order items.
	class int
	age   schema.Age
	// expires is zero for a message that never expires.
	expires time.Time
	// notice reports whether the message is a bounce or a notice about a bound.
	notice bool
	// notBefore is when to try again after a failure that is not the message's fault.
	notBefore time.Time
	state     itemState
	// again is when to decide again about a skipped item, or zero.
	again time.Time
	// parent is the message to which it may be an answer. Answers are the messages in the inbox that answer what a turn asked
	// back; heard reports whether it no longer waits for them.
	parent  schema.ID
	answers []*item
	heard   bool
	// reported is the last reason that was published for the message to wait.
	reported string
	// stop ends the work on the message, and joining takes messages that may join its turn.
	stop    context.CancelCauseFunc
	joining chan *item
}

// itemState is the place of an item in the schedule.
type itemState int

const (
	// queued items are in their lanes.
	queued itemState = iota
	inWork
	// skipped items are in no lane: they get no turn and hold up no other message.
	skipped
)

// newItem makes an item of a message in the inbox. Its texts are copies: the message's own would
// keep the whole file in memory.
func newItem(file string, m *schema.Message) *item {
	id := clone(m.ID)
	timed := schema.Message{ID: id, CreatedAt: clone(m.CreatedAt), Arrived: m.Arrived}
	parent := m.ParentID
	if m.Type.IsRequest() {
		parent = ""
	}
	return &item{
		parent: clone(parent),
		Envelope: track.Envelope{
			Key:  track.Key{ID: id, Fingerprint: track.KeyOf(m).Fingerprint},
			File: clone(file), From: intern(m.From), Type: intern(m.Type), Subject: clone(m.Subject),
			Conversation: clone(conversation.Of(m)), Hops: m.Marks.Hops,
		},
		class: m.Class(), age: timed.Age(), expires: m.ExpiresAt.Time(), notice: m.IsNotice(),
	}
}

// hops is how many turns in a row led to the turn on the item.
func (it *item) hops() int {
	hops := it.Hops
	for _, a := range it.answers {
		hops = max(hops, a.Hops)
	}
	return hops
}

func clone[Text ~string](text Text) Text { return Text(strings.Clone(string(text))) }

// intern is clone for texts that many messages share.
func intern[Text ~string](text Text) Text { return Text(unique.Make(string(text)).Value()) }

// compare orders items as they are to be processed; see schema.Compare.
func (it *item) compare(other *item) int {
	if c := cmp.Compare(it.class, other.class); c != 0 {
		return c
	}
	return cmp.Or(it.age.Compare(&other.age), cmp.Compare(it.File, other.File))
}
