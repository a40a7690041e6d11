package turn

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn/track"
)

// scheduler is implemented by the schedule and by its model, which decides on every message each
// time. Each has its own history.
type scheduler interface {
	arrive(file string, m *schema.Message)
	leave(file string)
	dispatch(now time.Time) (log []string, more bool)
	giveBack(file string, gone bool, notBefore time.Time)
	pause(until time.Time)
	past() *track.History
	compact(now time.Time)
}

// reporter does what a Runner does when it reports why a message gets no turn.
type reporter struct {
	history *track.History
	log     []string
}

func (l *reporter) past() *track.History { return l.history }

func (l *reporter) report(it *item, d decision) {
	if d.bound != nil && !d.bound.noticed {
		l.history.Apply(&track.Fact{Kind: track.Bound, Envelope: d.bound.about})
		l.log = append(l.log, "notice for "+it.File)
	}
	rec := l.history.Records[it.Key]
	isNew := d.kind == EventHeld && (rec == nil || rec.Held != d.reason)
	if d.reason == "" || d.reason == it.reported && !isNew {
		return
	}
	it.reported = d.reason
	if isNew {
		f := track.Fact{Kind: track.Held, Envelope: it.Envelope, Reason: d.reason}
		l.history.Apply(&f)
	}
	l.log = append(l.log, fmt.Sprint(d.kind, " ", it.File, ": ", d.reason))
}

// compacted returns the history after compaction, as read from the journal.
func (l *reporter) compacted(now time.Time) *track.History {
	var lines bytes.Buffer
	for _, f := range l.history.Snapshots(now) {
		if err := json.NewEncoder(&lines).Encode(&f); err != nil {
			panic(err)
		}
	}
	h := track.NewHistory()
	if err := h.Read(bytes.NewReader(lines.Bytes())); err != nil {
		panic(err)
	}
	return h
}

// incremental is the schedule itself.
type incremental struct {
	reporter
	*schedule
	config      *Config
	pausedUntil time.Time
	released    int
	decided     int
}

func newIncremental(c *Config) *incremental {
	s := &incremental{config: c, reporter: reporter{history: track.NewHistory()}}
	s.schedule = newSchedule(func(it *item, now time.Time) decision {
		s.decided++
		return c.decide(s.history, it, now, s.pausedUntil)
	}, s.reporter.report)
	return s
}

func (s *incremental) arrive(file string, m *schema.Message) { s.add(newItem(file, m)) }
func (s *incremental) leave(file string)                     { s.remove(file) }

func (s *incremental) dispatch(now time.Time) ([]string, bool) {
	s.log = nil
	if s.history.Released != s.released {
		s.released = s.history.Released
		s.wakeAll()
	}
	s.advance(now)
	for s.inWork < s.config.Parallel {
		it, do, ok := s.choose(now)
		if !ok {
			break
		}
		s.log = append(s.log, fmt.Sprint("work ", int(do), " ", it.File))
	}
	return s.log, s.goesOn() || s.inWork > 0
}

func (s *incremental) giveBack(file string, gone bool, notBefore time.Time) {
	it := s.items[file]
	it.notBefore = notBefore
	s.putBack(it, gone)
}

func (s *incremental) pause(until time.Time) {
	s.pausedUntil = until
	s.wakeAll()
}

func (s *incremental) compact(now time.Time) {
	released := s.history.Released
	s.history = s.compacted(now)
	s.history.Released = released + 1
}

// exhaustive is the model: it goes through the whole inbox in processing order and decides on each
// message whose conversation is free.
type exhaustive struct {
	reporter
	config      *Config
	items       map[string]*item
	messages    map[string]*schema.Message
	busy        map[schema.ConversationID]bool
	inWork      int
	pausedUntil time.Time
	// alone is in work alone, or waits to be.
	alone string
}

func newExhaustive(c *Config) *exhaustive {
	return &exhaustive{
		config: c, reporter: reporter{history: track.NewHistory()}, items: make(map[string]*item),
		messages: make(map[string]*schema.Message), busy: make(map[schema.ConversationID]bool),
	}
}

func (s *exhaustive) arrive(file string, m *schema.Message) {
	s.items[file], s.messages[file] = newItem(file, m), m
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
		first, second := s.messages[a.File], s.messages[b.File]
		return cmp.Or(cmp.Compare(first.Class(), second.Class()), schema.CompareAge(first, second), cmp.Compare(a.File, b.File))
	})
	return all
}

func (s *exhaustive) dispatch(now time.Time) ([]string, bool) {
	s.log = nil
	if s.inWork == 0 {
		s.alone = ""
	}
	more := false
	waiting := make(map[schema.ConversationID]bool)
	for _, it := range s.inOrder() {
		if s.inWork >= s.config.Parallel || s.alone != "" {
			return s.log, true
		}
		if it.state == inWork || s.busy[it.Conversation] || waiting[it.Conversation] {
			continue
		}
		d := s.config.decide(s.history, it, now, s.pausedUntil)
		more = more || d.resumes
		switch d.do {
		case skip:
			s.report(it, d)
		case wait:
			waiting[it.Conversation] = true
			s.report(it, d)
		default:
			if d.alone {
				s.alone = it.File
			}
			if d.alone && s.inWork > 0 {
				return s.log, true
			}
			it.state, it.reported, s.busy[it.Conversation] = inWork, "", true
			s.inWork++
			s.log = append(s.log, fmt.Sprint("work ", int(d.do), " ", it.File))
		}
	}
	return s.log, more || s.inWork > 0
}

func (s *exhaustive) giveBack(file string, gone bool, notBefore time.Time) {
	s.inWork--
	it := s.items[file]
	delete(s.busy, it.Conversation)
	it.state, it.notBefore = queued, notBefore
	if gone {
		s.leave(file)
	}
}

func (s *exhaustive) pause(until time.Time) { s.pausedUntil = until }
func (s *exhaustive) compact(now time.Time) { s.history = s.compacted(now) }
