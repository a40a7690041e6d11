package turn

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/oacp-go/oacp/schema"
)

// scheduler is what a schedule does, and what the model of one does that
// judges everything anew each time. Each has a history of its own.
type scheduler interface {
	arrive(file string, m *schema.Message)
	leave(file string)
	dispatch(now time.Time) (log []string, more bool)
	giveBack(file string, settled bool, notBefore time.Time)
	pause(until time.Time)
	past() *history
	compact(now time.Time)
}

// teller does what a Runner does when it is told why a message waits.
type teller struct {
	history *history
	log     []string
}

func (l *teller) past() *history { return l.history }

func (l *teller) tell(it *item, j judgement) {
	if j.bound != nil && !j.bound.noticed {
		f := j.bound.about(bound)
		l.history.apply(&f)
		l.log = append(l.log, "notice for "+it.File)
	}
	rec := l.history.records[it.key]
	unknown := j.kind == EventHeld && (rec == nil || rec.Held != j.reason)
	if j.reason == "" || j.reason == it.reported && !unknown {
		return
	}
	it.reported = j.reason
	if unknown {
		f := j.held(it)
		l.history.apply(&f)
	}
	l.log = append(l.log, fmt.Sprint(j.kind, " ", it.File, ": ", j.reason))
}

// written returns the history as it is read from a journal that is written
// anew.
func (l *teller) written(now time.Time) *history {
	var lines bytes.Buffer
	for _, f := range l.history.snapshots(now) {
		if err := json.NewEncoder(&lines).Encode(&f); err != nil {
			panic(err)
		}
	}
	h := newHistory()
	h.read(lines.Bytes())
	return h
}

// incremental is the schedule itself.
type incremental struct {
	teller
	*schedule
	config      *Config
	pausedUntil time.Time
	judged      int
}

func newIncremental(c *Config) *incremental {
	s := &incremental{config: c, teller: teller{history: newHistory()}}
	s.history.changed = newChanges()
	s.schedule = newSchedule(func(it *item, now time.Time) judgement {
		s.judged++
		return c.judge(s.history, it, now, s.pausedUntil)
	}, s.teller.tell)
	return s
}

func (s *incremental) arrive(file string, m *schema.Message) { s.add(mustItem(file, m)) }
func (s *incremental) leave(file string)                     { s.remove(file) }

func (s *incremental) dispatch(now time.Time) ([]string, bool) {
	s.log = nil
	s.wakeChanged(s.history.changed)
	s.history.changed = newChanges()
	s.wakeDue(now)
	for s.working < s.config.Parallel {
		it, do, ok := s.next(now)
		if !ok {
			break
		}
		s.log = append(s.log, fmt.Sprint("verdict ", do, " ", it.File))
	}
	_, will := s.waits()
	return s.log, will || s.working > 0
}

func (s *incremental) giveBack(file string, settled bool, notBefore time.Time) {
	it := s.items[file]
	it.notBefore = notBefore
	s.schedule.giveBack(it, settled)
}

func (s *incremental) pause(until time.Time) {
	s.pausedUntil = until
	s.wakeForAgent()
}

func (s *incremental) compact(now time.Time) {
	s.history = s.written(now)
	s.history.changed = &changes{all: true}
}

// exhaustive is the model: it goes through the whole inbox in processing order
// and judges each message whose conversation is free.
type exhaustive struct {
	teller
	config      *Config
	items       map[string]*item
	messages    map[string]*schema.Message
	busy        map[schema.ConversationID]bool
	working     int
	pausedUntil time.Time
	// alone is worked on alone, or waits for that.
	alone string
}

func newExhaustive(c *Config) *exhaustive {
	return &exhaustive{
		config: c, teller: teller{history: newHistory()}, items: make(map[string]*item),
		messages: make(map[string]*schema.Message), busy: make(map[schema.ConversationID]bool),
	}
}

func (s *exhaustive) arrive(file string, m *schema.Message) {
	s.items[file], s.messages[file] = mustItem(file, m), m
}

func (s *exhaustive) leave(file string) {
	delete(s.items, file)
	delete(s.messages, file)
}

func (s *exhaustive) inOrder() []*item {
	all := make([]*item, 0, len(s.items))
	for _, it := range s.items {
		all = append(all, it)
	}
	slices.SortFunc(all, func(a, b *item) int {
		return cmp.Or(schema.Compare(s.messages[a.File], s.messages[b.File]), cmp.Compare(a.File, b.File))
	})
	return all
}

func (s *exhaustive) dispatch(now time.Time) ([]string, bool) {
	s.log = nil
	if s.working == 0 {
		s.alone = ""
	}
	more := false
	waiting := make(map[schema.ConversationID]bool)
	for _, it := range s.inOrder() {
		if s.working >= s.config.Parallel || s.alone != "" {
			return s.log, true
		}
		if it.busy || s.busy[it.Conversation] || waiting[it.Conversation] {
			continue
		}
		j := s.config.judge(s.history, it, now, s.pausedUntil)
		more = more || j.will
		switch j.do {
		case pass:
			s.tell(it, j)
		case wait:
			waiting[it.Conversation] = true
			s.tell(it, j)
		default:
			if j.alone {
				s.alone = it.File
			}
			if j.alone && s.working > 0 {
				return s.log, true
			}
			it.busy, it.reported, s.busy[it.Conversation] = true, "", true
			s.working++
			s.log = append(s.log, fmt.Sprint("verdict ", j.do, " ", it.File))
		}
	}
	return s.log, more || s.working > 0
}

func (s *exhaustive) giveBack(file string, settled bool, notBefore time.Time) {
	s.working--
	it := s.items[file]
	delete(s.busy, it.Conversation)
	it.busy, it.notBefore = false, notBefore
	if settled {
		s.leave(file)
	}
}

func (s *exhaustive) pause(until time.Time) { s.pausedUntil = until }
func (s *exhaustive) compact(now time.Time) { s.history = s.written(now) }

func mustItem(file string, m *schema.Message) *item {
	it, err := newItem(file, m)
	if err != nil {
		panic(err)
	}
	return it
}
