package turn

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn/track"
)

var scheduleLives = flag.Int("schedule-lives", 60, "random lives through which the schedule is compared with its model")

// TestScheduleIsTheModel applies the same random events to the schedule and the model, and checks
// that both act and report the same at each step.
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
			continue // several things happen between two dispatches
		}
		got, gotMore := l.real.dispatch(l.now)
		want, wantMore := l.model.dispatch(l.now)
		if l.model.pausedUntil.After(l.now) {
			// A bound outlasts a pause, which the model does not consider.
			gotMore = wantMore
		}
		if !slices.Equal(got, want) || gotMore != wantMore {
			t.Fatalf("seed %d, step %d, after %q:\n got %q, more %t\nwant %q, more %t", seed, step, l.events, got, gotMore, want, wantMore)
		}
		l.events = nil
		l.begin(got)
		checkSchedule(t, l.real.schedule)
		if !reflect.DeepEqual(l.real.history.Records, l.model.history.Records) {
			t.Fatalf("seed %d, step %d: the histories differ", seed, step)
		}
	}
}

// checkSchedule checks that each lane is in one state, and that each item is in its lane, skipped,
// or in work.
func checkSchedule(t *testing.T, s *schedule) {
	t.Helper()
	placed, inLanes := 0, 0
	for conversation, l := range s.lanes {
		placed += len(l.items)
		among := slices.Contains(s.ready, l)
		if l.conversation != conversation || len(l.items) == 0 && !l.busy || l.busy && among || among != l.ready {
			t.Errorf("lane %s: %d items, busy %t, ready %t, among the ready ones %t: want one state", conversation, len(l.items), l.busy, l.ready, among)
		}
		for i, it := range l.items {
			if i > 0 && l.items[i-1].compare(it) >= 0 || s.items[it.File] != it || it.state != queued {
				t.Errorf("lane %s holds %s in place %d, want the items in order", conversation, it.File, i)
			}
		}
		if l.waiting() && !l.until.IsZero() && (s.next.IsZero() || s.next.After(l.until)) {
			t.Errorf("lane %s waits until %v, and the schedule until %v", conversation, l.until, s.next)
		}
	}
	for _, it := range s.items {
		switch it.state {
		case skipped:
			placed++
		case inWork:
			placed++
			inLanes++
		}
	}
	if inLanes != s.inWork || s.alone && inLanes > 1 {
		t.Errorf("%d items are in work, %d are counted, alone %t", inLanes, s.inWork, s.alone)
	}
	if placed != len(s.items) {
		t.Errorf("%d of %d items have a place", placed, len(s.items))
	}
}

// TestHeldMessagesAreDecidedOnce counts decisions while messages arrive in and leave an inbox with
// many others that get no turn, for various reasons.
func TestHeldMessagesAreDecidedOnce(t *testing.T) {
	t.Parallel()
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
		// before returns earlier facts of each message; decided is the number of decisions at the
		// start.
		before  func(*item) []track.Fact
		decided int
	}{
		{name: "senders that are not allowed", config: Config{AllowFrom: arriving}, decided: lying},
		{name: "expired", change: func(m *schema.Message) { m.ExpiresAt = "2026-03-13T11:30:00Z" }, decided: lying},
		{
			name: "retries", decided: lying,
			before: func(it *item) []track.Fact {
				f := track.Fact{Kind: track.Failed, Envelope: track.Envelope{Key: it.Key}, RetryAt: now.Add(time.Minute)}
				return []track.Fact{track.Started.Of(&it.Envelope), f}
			},
		},
		{name: "a bound on the sender", config: Config{MaxPairTurns: 1}, decided: lying, before: func(it *item) []track.Fact {
			return []track.Fact{
				{Kind: track.Started, Envelope: track.Envelope{Key: it.Key, From: "gemini"}}, {Kind: track.Interrupted, Envelope: track.Envelope{Key: it.Key}},
				{Kind: track.Started, Envelope: track.Envelope{From: "gemini"}},
			}
		}},
		{
			name: "a bound conversation", config: Config{MaxTurns: 1}, decided: 1,
			change: func(m *schema.Message) { m.ConversationID = "conv-20260313-gemini-1" },
			before: func(*item) []track.Fact {
				return []track.Fact{{Kind: track.Started, Envelope: track.Envelope{Conversation: "conv-20260313-gemini-1"}}}
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
				it := newItem(fmt.Sprint(n), m)
				if test.before != nil {
					for _, f := range test.before(it) {
						f.At = now
						s.history.Apply(&f)
					}
				}
				s.arrive(it.File, m)
			}
			if log, _ := s.dispatch(now); s.inWork != 0 {
				t.Fatalf("%d are in work, want none: %q", s.inWork, log)
			}
			before := s.decided
			if before != test.decided {
				t.Errorf("%d decisions at the start, want %d", before, test.decided)
			}
			for n, sender := range arriving {
				m := question("arriving")
				m.From = sender
				m.ID, m.Priority = schema.ID(fmt.Sprintf("msg-20260313T1430Z-claude-%04d", n)), schema.P3
				file := fmt.Sprint("arrival ", n)
				s.arrive(file, &m)
				now = now.Add(time.Millisecond)
				s.dispatch(now)
				if s.inWork != 1 {
					t.Fatalf("arrival %d: %d are in work, want 1", n, s.inWork)
				}
				f := track.Started.Of(&s.items[file].Envelope)
				f.At = now
				s.history.Apply(&f)
				s.giveBack(file, true, time.Time{})
				s.dispatch(now)
			}
			if got := s.decided - before; got != arrivals {
				t.Errorf("%d decisions for %d arrivals, want one each", got, arrivals)
			}
		})
	}
}

// completeForTest fills in the defaults of a configuration without an agent.
func (c *Config) completeForTest() error {
	c.Agent, c.NewDriver = "codex", says("ok")
	return c.complete()
}
