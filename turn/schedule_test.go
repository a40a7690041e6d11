package turn

import (
	"bytes"
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
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
	if j.reason == "" || j.reason == it.reported {
		return
	}
	it.reported = j.reason
	if j.kind == EventHeld {
		f := held.of(&it.envelope)
		f.Reason = j.reason
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
	working     int
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
		s.working++
		s.log = append(s.log, fmt.Sprint("verdict ", do, " ", it.File))
	}
	_, will := s.waits()
	return s.log, will || s.working > 0
}

func (s *incremental) giveBack(file string, settled bool, notBefore time.Time) {
	s.working--
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
	more := false
	waiting := make(map[schema.ConversationID]bool)
	for _, it := range s.inOrder() {
		if s.working >= s.config.Parallel {
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

var scheduleLives = flag.Int("schedule-lives", 60, "random lives through which the schedule is compared with its model")

// TestScheduleIsTheModel has the schedule and the model live through the same
// random events, and do and tell the same at each step.
func TestScheduleIsTheModel(t *testing.T) {
	for round := range *scheduleLives {
		seed := rand.Uint64()
		if !t.Run(fmt.Sprint(round), func(t *testing.T) {
			t.Parallel()
			checkAgainstModel(t, seed, 400)
		}) {
			return
		}
	}
}

func FuzzSchedule(f *testing.F) {
	for seed := range uint64(4) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) { checkAgainstModel(t, seed, 400) })
}

func checkAgainstModel(t *testing.T, seed uint64, steps int) {
	l := newLife(seed)
	for step := range steps {
		l.happen()
		if l.random.IntN(4) == 0 {
			continue // several things happen before anybody looks
		}
		got, gotMore := l.real.dispatch(l.now)
		want, wantMore := l.model.dispatch(l.now)
		if l.model.pausedUntil.After(l.now) {
			// A bound outlasts a pause. The model does not look so far.
			gotMore = wantMore
		}
		if !slices.Equal(got, want) || gotMore != wantMore {
			t.Fatalf("seed %d, step %d, after %q:\n got %q, more %t\nwant %q, more %t", seed, step, l.events, got, gotMore, want, wantMore)
		}
		l.events = nil
		l.take(got)
		checkSchedule(t, l.real.schedule)
		if !reflect.DeepEqual(l.real.history.records, l.model.history.records) {
			t.Fatalf("seed %d, step %d: the histories differ", seed, step)
		}
	}
}

// checkSchedule checks that each lane is in one state, and each item in its
// lane, aside, or worked on.
func checkSchedule(t *testing.T, s *schedule) {
	t.Helper()
	waiting, willing := 0, 0
	for conversation, l := range s.lanes {
		waiting += l.waiting.Len()
		if l.wait.will {
			willing++
		}
		if parked := l.wait.do == wait; l.conversation != conversation ||
			l.waiting.Len() == 0 && !l.busy || l.busy && (parked || s.due.has(l)) || !l.busy && parked == s.due.has(l) {
			t.Errorf("lane %s: %d wait, busy %t, due %t, parked %t: want one state", conversation, l.waiting.Len(), l.busy, s.due.has(l), parked)
		}
		for _, it := range l.waiting.members {
			if l.waiting.first().compare(it) > 0 || s.items[it.File] != it {
				t.Errorf("lane %s begins with %s and holds %s", conversation, l.waiting.first().File, it.File)
			}
		}
	}
	for _, it := range s.items {
		if it.aside || it.busy {
			waiting++
		}
	}
	if waiting != len(s.items) || willing != s.willing || s.timed.Len() > len(s.lanes) {
		t.Errorf("%d of %d items have a place; %d lanes go on by themselves and %d are counted", waiting, len(s.items), willing, s.willing)
	}
}

// life makes things happen to a schedule and its model.
type life struct {
	random *rand.Rand
	now    time.Time
	real   *incremental
	model  *exhaustive
	// messages are those that there ever were, atWork what is worked on.
	messages []*schema.Message
	atWork   []string
	events   []string
}

func newLife(seed uint64) *life {
	random := rand.New(rand.NewPCG(seed, 0))
	c := &Config{MaxAttempts: 1 + random.IntN(3), MaxTurns: 1 + random.IntN(6), MaxPairTurns: 1 + random.IntN(8), Parallel: 1 + random.IntN(3)}
	if random.IntN(2) == 0 {
		c.AllowFrom = []schema.AgentName{"claude", "gemini"}
	}
	return &life{random: random, now: time.Date(2026, 3, 13, 12, 0, 0, 0, time.UTC), real: newIncremental(c), model: newExhaustive(c)}
}

func (l *life) both(do func(scheduler)) {
	do(l.real)
	do(l.model)
}

func (l *life) note(format string, args ...any) {
	l.events = append(l.events, fmt.Sprintf(format, args...))
}

// fact applies a fact to both histories.
func (l *life) fact(f fact) {
	l.note("%s %s %s%s", f.Kind, f.ID, f.Conversation, f.From)
	f.At = l.now
	l.both(func(s scheduler) {
		own := f
		s.past().apply(&own)
	})
}

// take notes what is worked on now.
func (l *life) take(log []string) {
	for _, line := range log {
		var do verb
		var file string
		if n, _ := fmt.Sscanf(line, "verdict %d %s", &do, &file); n == 2 {
			l.atWork = append(l.atWork, file)
		}
	}
}

func (l *life) happen() {
	switch n := l.random.IntN(100); {
	case n < 30:
		l.arrival()
	case n < 36:
		l.removal()
	case n < 50:
		l.pass(time.Duration(l.random.Int64N(int64(2 * time.Second))))
	case n < 53:
		l.pass(time.Duration(l.random.Int64N(int64(70 * time.Minute))))
	case n < 54:
		l.pass(-time.Duration(l.random.Int64N(int64(10 * time.Minute))))
	case n < 57:
		l.fact(fact{Kind: resumed, Conversation: l.conversation()})
	case n < 59:
		l.fact(fact{Kind: resumed, From: l.sender()})
	case n < 61:
		l.fact(fact{Kind: notified, From: l.sender()})
	case n < 64:
		l.errand()
	case n < 65:
		l.note("the journal is written anew")
		l.both(func(s scheduler) { s.compact(l.now) })
	default:
		l.work()
	}
}

func (l *life) conversation() schema.ConversationID {
	return schema.ConversationID(fmt.Sprintf("conv-20260313-claude-%d", l.random.IntN(6)))
}

func (l *life) sender() schema.AgentName {
	return []schema.AgentName{"claude", "gemini", "other", Postmaster}[l.random.IntN(4)]
}

func (l *life) pass(by time.Duration) {
	l.note("%v pass", by)
	l.now = l.now.Add(by)
}

// arrival brings a new message, or one that there was before, in a file that
// may be there already.
func (l *life) arrival() {
	file := fmt.Sprint("file-", l.random.IntN(30))
	if slices.Contains(l.atWork, file) {
		return
	}
	if len(l.messages) == 0 || l.random.IntN(5) > 0 {
		l.messages = append(l.messages, l.message())
	}
	m := l.messages[len(l.messages)-1-l.random.IntN(min(4, len(l.messages)))]
	l.note("%s arrives in %s: %s %s %s, %s", m.ID, file, m.Priority, m.From, m.ConversationID, m.ExpiresAt)
	l.both(func(s scheduler) { s.arrive(file, m) })
}

func (l *life) message() *schema.Message {
	at := l.now.Add(-time.Duration(l.random.IntN(5)) * time.Second)
	m := &schema.Message{
		ID: schema.ID(fmt.Sprintf("msg-20260313T1430Z-claude-%04d", len(l.messages))), From: l.sender(), To: []schema.AgentName{"codex"},
		Type:     []schema.Type{schema.Question, schema.TaskRequest, schema.Notification}[l.random.IntN(3)],
		Priority: []schema.Priority{schema.P0, schema.P1, schema.P2, schema.P3}[l.random.IntN(4)],
		Subject:  "s", Body: schema.TextValue("b"), CreatedAt: schema.NewTimestamp(at), ConversationID: l.conversation(),
	}
	if l.random.IntN(3) == 0 {
		m.ExpiresAt = schema.NewTimestamp(l.now.Add(time.Duration(l.random.IntN(240)-20) * time.Second))
	}
	if m.From == Postmaster {
		m.Channel = ChannelBound // a notice, if it is a notification
	}
	return m
}

// removal takes a message out of the inbox that nobody works on.
func (l *life) removal() {
	file := fmt.Sprint("file-", l.random.IntN(30))
	if slices.Contains(l.atWork, file) {
		return
	}
	l.note("%s is removed", file)
	l.both(func(s scheduler) { s.leave(file) })
}

// errand finishes what is left to do about a message that is not worked on.
func (l *life) errand() {
	if len(l.messages) == 0 {
		return
	}
	k, err := keyOf(l.messages[l.random.IntN(len(l.messages))])
	if err != nil {
		panic(err)
	}
	switch rec := l.model.history.records[k]; {
	case rec == nil || rec.Settled:
	case rec.Outcome == dead:
		l.fact(fact{Kind: buried, key: k})
	case rec.Outcome == succeeded:
		l.fact(fact{Kind: acknowledged, key: k})
	}
}

// work goes on with something that is worked on: a turn begins, or the work
// ends in one of many ways.
func (l *life) work() {
	if len(l.atWork) == 0 {
		return
	}
	file := l.atWork[l.random.IntN(len(l.atWork))]
	it := l.model.items[file]
	rec := l.model.history.records[it.key]
	if rec == nil {
		rec = &record{envelope: it.envelope}
	}
	switch {
	case l.random.IntN(8) == 0:
		l.giveBack(file, l.random.IntN(2) == 0, time.Second) // gone, or trouble
	case rec.Outcome == succeeded, rec.Outcome == dead && !rec.Settled:
		l.conclude(file, rec)
	case rec.Running:
		l.endTurn(file, rec)
	case rec.Outcome == "" && rec.Attempts >= l.model.config.MaxAttempts:
		l.fact(dead.of(&it.envelope))
	case l.random.IntN(8) == 0:
		l.unavailable(file)
	default:
		if rec.Outcome == dead {
			l.fact(fact{Kind: revived, key: it.key})
		}
		l.fact(started.of(&it.envelope))
	}
}

func (l *life) endTurn(file string, rec *record) {
	switch l.random.IntN(4) {
	case 0:
		l.fact(interrupted.about(rec))
		l.unavailable(file)
	case 1:
		f := failed.about(rec)
		f.RetryAt = l.now.Add(time.Duration(l.random.IntN(5000)) * time.Millisecond)
		l.fact(f)
		l.giveBack(file, false, 0)
	default:
		l.fact(succeeded.about(rec))
	}
}

func (l *life) conclude(file string, rec *record) {
	switch {
	case rec.Settled:
	case rec.Outcome == dead:
		l.fact(fact{Kind: buried, key: rec.key})
	default:
		l.fact(fact{Kind: acknowledged, key: rec.key})
	}
	l.giveBack(file, true, 0)
}

func (l *life) unavailable(file string) {
	until := l.now.Add(time.Duration(l.random.IntN(3000)) * time.Millisecond)
	l.note("the agent is unavailable until %v", until)
	l.both(func(s scheduler) { s.pause(until) })
	l.giveBack(file, false, 0)
}

func (l *life) giveBack(file string, settled bool, wait time.Duration) {
	l.note("%s is given back, settled %t", file, settled)
	var notBefore time.Time
	if !settled && wait > 0 {
		notBefore = l.now.Add(wait)
	}
	l.atWork = slices.DeleteFunc(l.atWork, func(f string) bool { return f == file })
	l.both(func(s scheduler) { s.giveBack(file, settled, notBefore) })
}

// TestHeldMessagesAreJudgedOnce counts judgements while messages come and go
// in an inbox where many lie that get no turn, for any reason.
func TestHeldMessagesAreJudgedOnce(t *testing.T) {
	const lying, arrivals = 500, 20
	now := time.Date(2026, 3, 13, 12, 0, 0, 0, time.UTC)
	var arriving []schema.AgentName
	for n := range arrivals {
		arriving = append(arriving, schema.AgentName(fmt.Sprint("claude-", n)))
	}
	numbered := func(n int) *schema.Message {
		return &schema.Message{
			ID: schema.ID(fmt.Sprintf("msg-20260313T1430Z-gemini-%04d", n)), From: "gemini", To: []schema.AgentName{"codex"},
			Type: schema.Question, Priority: schema.P0, Subject: "s", Body: schema.TextValue("b"), CreatedAt: "2026-03-13T11:00:00Z",
		}
	}
	tests := []struct {
		name   string
		config Config
		change func(*schema.Message)
		// before is what the history of each message is; judged is how many
		// are judged at all.
		before func(*item) []fact
		judged int
	}{
		{name: "senders that are not allowed", config: Config{AllowFrom: arriving}, judged: lying},
		{name: "expired", change: func(m *schema.Message) { m.ExpiresAt = "2026-03-13T11:30:00Z" }, judged: lying},
		{
			name: "retries", judged: lying,
			before: func(it *item) []fact {
				f := fact{Kind: failed, key: it.key, RetryAt: now.Add(time.Minute)}
				return []fact{started.of(&it.envelope), f}
			},
		},
		{name: "a bound on the sender", config: Config{MaxPairTurns: 1}, judged: lying, before: func(it *item) []fact {
			return []fact{{Kind: started, key: it.key, From: "gemini"}, {Kind: interrupted, key: it.key}, {Kind: started, From: "gemini"}}
		}},
		{
			name: "a bound conversation", config: Config{MaxTurns: 1}, judged: 1,
			change: func(m *schema.Message) { m.ConversationID = "conv-20260313-gemini-1" },
			before: func(*item) []fact {
				return []fact{{Kind: started, Conversation: "conv-20260313-gemini-1"}}
			},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c := test.config
			if err := (&c).completeForTest(); err != nil {
				t.Fatal(err)
			}
			s := newIncremental(&c)
			for n := range lying {
				m := numbered(n)
				if test.change != nil {
					test.change(m)
				}
				it := mustItem(fmt.Sprint(n), m)
				if test.before != nil {
					for _, f := range test.before(it) {
						f.At = now
						s.history.apply(&f)
					}
				}
				s.arrive(it.File, m)
			}
			if log, _ := s.dispatch(now); s.working != 0 {
				t.Fatalf("%d are worked on, want none: %q", s.working, log)
			}
			before := s.judged
			if before != test.judged {
				t.Errorf("%d judgements at the begin, want %d", before, test.judged)
			}
			for n, sender := range arriving {
				m := question("arriving")
				m.From = sender
				m.ID, m.Priority = schema.ID(fmt.Sprintf("msg-20260313T1430Z-claude-%04d", n)), schema.P3
				file := fmt.Sprint("arrival ", n)
				s.arrive(file, &m)
				now = now.Add(time.Millisecond)
				s.dispatch(now)
				if s.working != 1 {
					t.Fatalf("arrival %d: %d are worked on, want 1", n, s.working)
				}
				f := started.of(&s.items[file].envelope)
				f.At = now
				s.history.apply(&f)
				s.giveBack(file, true, time.Time{})
				s.dispatch(now)
			}
			if got := s.judged - before; got != arrivals {
				t.Errorf("%d judgements for %d arrivals, want one each", got, arrivals)
			}
		})
	}
}

// completeForTest fills in the defaults of a configuration without an agent.
func (c *Config) completeForTest() error {
	c.Agent, c.NewDriver = "codex", says("ok")
	return c.complete()
}
