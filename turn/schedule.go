package turn

import (
	"time"

	"github.com/oacp-go/oacp/schema"
)

// schedule holds the inbox and says what is to be worked on next. Its rules
// are in the package documentation. It does no input or output, and is used by
// the Runner's loop alone: arrivals, outcomes, times and changes of the
// journal go in, work comes out.
type schedule struct {
	// judge decides about a message, and tell is told what keeps it from its
	// turn.
	judge func(it *item, now time.Time) judgement
	tell  func(it *item, j judgement)

	items map[string]*item
	lanes map[schema.ConversationID]*lane
	// due are the lanes to be judged, in the order of their first messages.
	due heapOf[*lane, byFirst]
	// timed are the lanes that wait for a time, the earliest first. Those
	// that wait for more than a time are in one of the sets, too.
	timed       heapOf[*lane, byTime]
	agentNeeded laneSet
	bound       map[schema.AgentName]laneSet
	// aside are the items passed over that have yet to expire.
	aside heapOf[*item, byExpiry]
	// willing counts the lanes that wait and go on by themselves.
	willing int
	// working counts the items that are worked on. While one has its turn
	// alone no other is, and while it waits for that none is begun.
	working         int
	alone, emptying bool
	// looked is when times were compared last.
	looked time.Time
}

// clockJump is by how much the time of day may differ from the time that has
// passed until all that was judged by it is judged anew.
const clockJump = time.Second

// lane holds the messages of a conversation that wait. It is in one of these
// states: busy; due; or waiting for what is in wait.
type lane struct {
	conversation schema.ConversationID
	waiting      heapOf[*item, byOrder]
	busy         bool
	wait         judgement
	// duePlace and timedPlace are where it is in the schedule's heaps.
	duePlace, timedPlace int
}

type laneSet map[*lane]struct{}

type byOrder struct{}

func (byOrder) before(a, b *item) bool { return a.compare(b) < 0 }
func (byOrder) place(it *item) *int    { return &it.place }

type byExpiry struct{}

func (byExpiry) before(a, b *item) bool { return a.expires.Before(b.expires) }
func (byExpiry) place(it *item) *int    { return &it.place }

type byFirst struct{}

func (byFirst) before(a, b *lane) bool { return a.waiting.first().compare(b.waiting.first()) < 0 }
func (byFirst) place(l *lane) *int     { return &l.duePlace }

type byTime struct{}

func (byTime) before(a, b *lane) bool { return a.wait.at.Before(b.wait.at) }
func (byTime) place(l *lane) *int     { return &l.timedPlace }

func newSchedule(judge func(*item, time.Time) judgement, tell func(*item, judgement)) *schedule {
	return &schedule{
		judge: judge, tell: tell, items: make(map[string]*item), lanes: make(map[schema.ConversationID]*lane),
		agentNeeded: make(laneSet), bound: make(map[schema.AgentName]laneSet),
	}
}

// add puts an item in, in place of one of the same file that nobody works on.
func (s *schedule) add(it *item) {
	s.remove(it.File)
	s.items[it.File] = it
	s.enter(it)
}

// enter puts an item into its lane. One that is not first changes nothing for
// those before it.
func (s *schedule) enter(it *item) {
	l := s.lanes[it.Conversation]
	if l == nil {
		l = &lane{conversation: it.Conversation}
		s.lanes[it.Conversation] = l
	}
	l.waiting.push(it)
	if l.waiting.first() == it {
		s.wake(l)
	}
}

// remove takes the item of a file out, if there is one. Nobody works on it.
func (s *schedule) remove(file string) {
	it := s.items[file]
	if it == nil {
		return
	}
	delete(s.items, file)
	if it.aside {
		s.aside.remove(it)
		return
	}
	l := s.lanes[it.Conversation]
	first := l.waiting.first() == it
	l.waiting.remove(it)
	if first {
		s.wake(l)
	}
}

// next returns the first item that there is something to do about, and what.
// Its lane is busy until the item is given back. An item that is to have its
// turn alone keeps all that come behind it waiting.
func (s *schedule) next(now time.Time) (it *item, do verb, ok bool) {
	if s.working == 0 {
		s.alone, s.emptying = false, false
	}
	for s.due.Len() > 0 && !s.alone && !s.emptying {
		l := s.due.first()
		it := l.waiting.first()
		j := s.judge(it, now)
		switch j.do {
		case pass:
			l.waiting.remove(it)
			s.wake(l)
			s.putAside(it, now)
			s.tell(it, j)
		case wait:
			s.due.remove(l)
			s.park(l, j, now)
			s.tell(it, j)
		default:
			if s.emptying = j.alone && s.working > 0; s.emptying {
				continue
			}
			s.due.remove(l)
			l.waiting.remove(it)
			s.working++
			s.alone = j.alone
			l.busy, it.busy, it.reported = true, true, ""
			return it, j.do, true
		}
	}
	return nil, 0, false
}

// putAside keeps an item for which nothing is done, whatever becomes of its
// conversation.
func (s *schedule) putAside(it *item, now time.Time) {
	it.aside = true
	if it.expires.After(now) {
		s.aside.push(it)
	}
}

func (s *schedule) comeBack(it *item) {
	s.aside.remove(it)
	it.aside = false
	s.enter(it)
}

// giveBack takes an item in again that somebody worked on; if the work is
// settled it is gone instead.
func (s *schedule) giveBack(it *item, settled bool) {
	l := s.lanes[it.Conversation]
	it.busy, l.busy = false, false
	s.working--
	if settled {
		delete(s.items, it.File)
	} else {
		l.waiting.push(it)
	}
	s.wake(l)
}

// wake has a lane judged anew, or dropped if nothing waits in it. One that is
// busy is judged when its item is given back.
func (s *schedule) wake(l *lane) {
	switch {
	case l.busy:
	case l.waiting.Len() == 0:
		s.unpark(l)
		s.due.remove(l)
		delete(s.lanes, l.conversation)
	case s.due.has(l):
		s.due.fix(l)
	default:
		s.unpark(l)
		s.due.push(l)
	}
}

// park lets a lane wait until something changes that the judgement of its first
// message came from.
func (s *schedule) park(l *lane, j judgement, now time.Time) {
	if expires := l.waiting.first().expires; expires.After(now) && (j.at.IsZero() || expires.Before(j.at)) {
		j.at = expires
	}
	if !j.at.IsZero() {
		// All times are compared as this clock passes them, whatever the time
		// of day becomes.
		j.at = now.Add(j.at.Sub(now))
	}
	l.wait = j
	if !j.at.IsZero() {
		s.timed.push(l)
	}
	if j.will {
		s.willing++
	}
	if j.needsAgent {
		s.agentNeeded[l] = struct{}{}
	}
	if sender := j.sender(); sender != "" {
		if s.bound[sender] == nil {
			s.bound[sender] = make(laneSet)
		}
		s.bound[sender][l] = struct{}{}
	}
}

func (s *schedule) unpark(l *lane) {
	s.timed.remove(l)
	if l.wait.will {
		s.willing--
	}
	delete(s.agentNeeded, l)
	if sender := l.wait.sender(); sender != "" {
		if delete(s.bound[sender], l); len(s.bound[sender]) == 0 {
			delete(s.bound, sender)
		}
	}
	l.wait = judgement{}
}

// wakeDue has the lanes judged whose time has come, and everything when the
// time of day has jumped: the clock was set, or the machine slept.
func (s *schedule) wakeDue(now time.Time) {
	passed := now.Sub(s.looked)
	jumped := now.Round(0).Sub(s.looked.Round(0)) - passed
	if !s.looked.IsZero() && (passed < 0 || jumped.Abs() >= clockJump) {
		s.wakeAll()
	}
	s.looked = now
	for s.timed.Len() > 0 && !s.timed.first().wait.at.After(now) {
		s.wake(s.timed.first())
	}
	for s.aside.Len() > 0 && !s.aside.first().expires.After(now) {
		s.comeBack(s.aside.first())
	}
}

// wakeAll has everything judged anew.
func (s *schedule) wakeAll() {
	for _, l := range s.lanes {
		s.wake(l)
	}
	for _, it := range s.items {
		if it.aside {
			s.comeBack(it)
		}
	}
}

// wakeForAgent has the lanes judged that wait for the agent to be available.
func (s *schedule) wakeForAgent() {
	for l := range s.agentNeeded {
		s.wake(l)
	}
}

// wakeChanged has the lanes judged that depend on what has changed in the
// history.
func (s *schedule) wakeChanged(c *changes) {
	if c.all {
		s.wakeAll()
		return
	}
	for conversation := range c.conversations {
		if l := s.lanes[conversation]; l != nil {
			s.wake(l)
		}
	}
	for sender := range c.senders {
		for l := range s.bound[sender] {
			s.wake(l)
		}
	}
}

// waits returns when the next lane is due, the zero time if none will be, and
// whether any waits that goes on by itself.
func (s *schedule) waits() (next time.Time, will bool) {
	if s.timed.Len() > 0 {
		next = s.timed.first().wait.at
	}
	if s.aside.Len() > 0 {
		if at := s.aside.first().expires; next.IsZero() || at.Before(next) {
			next = at
		}
	}
	return next, s.willing > 0
}
