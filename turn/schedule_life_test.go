package turn

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn/track"
)

// life applies random events to a schedule and its model.
type life struct {
	random *rand.Rand
	now    time.Time
	real   *incremental
	model  *exhaustive
	// messages are all messages so far; atWork are the files in work.
	messages []*schema.Message
	atWork   []string
	events   []string
}

func newLife(seed uint64) *life {
	random := rand.New(rand.NewPCG(seed, 0))
	c := &Config{MaxAttempts: 1 + random.IntN(3), MaxTurns: 1 + random.IntN(6), MaxPairTurns: 1 + random.IntN(8), Parallel: 1 + random.IntN(3), lastRetry: 4 * time.Second}
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
func (l *life) fact(f track.Fact) {
	l.note("%s %s %s%s", f.Kind, f.ID, f.Conversation, f.From)
	f.At = l.now
	l.both(func(s scheduler) {
		own := f
		s.past().Apply(&own)
	})
}

// begin records which files are in work now.
func (l *life) begin(log []string) {
	for _, line := range log {
		var do int
		var file string
		if n, _ := fmt.Sscanf(line, "work %d %s", &do, &file); n == 2 {
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
		l.fact(track.Fact{Kind: track.Resumed, Envelope: track.Envelope{Conversation: l.conversation()}})
	case n < 59:
		l.fact(track.Fact{Kind: track.Resumed, Envelope: track.Envelope{From: l.sender()}})
	case n < 61:
		l.fact(track.Fact{Kind: track.Notified, Envelope: track.Envelope{From: l.sender()}})
	case n < 64:
		l.followUp()
	case n < 65:
		l.note("the journal is compacted")
		l.both(func(s scheduler) { s.compact(l.now) })
	default:
		l.work()
	}
}

func (l *life) conversation() schema.ConversationID {
	return schema.ConversationID(fmt.Sprintf("conv-20260313-claude-%d", l.random.IntN(6)))
}

func (l *life) sender() schema.AgentName {
	return []schema.AgentName{"claude", "gemini", "other", mailbox.Postmaster}[l.random.IntN(4)]
}

func (l *life) pass(by time.Duration) {
	l.note("%v pass", by)
	l.now = l.now.Add(by)
}

// arrival adds a new or an earlier message, in a file that may already exist.
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
	if m.From == mailbox.Postmaster {
		m.Channel = schema.ChannelBound // a notice, if it is a notification
	}
	return m
}

// removal removes a message that is not in work from the inbox.
func (l *life) removal() {
	file := fmt.Sprint("file-", l.random.IntN(30))
	if slices.Contains(l.atWork, file) {
		return
	}
	l.note("%s is removed", file)
	l.both(func(s scheduler) { s.leave(file) })
}

// followUp finishes the remaining steps for a message that is not in work.
func (l *life) followUp() {
	if len(l.messages) == 0 {
		return
	}
	k := track.KeyOf(l.messages[l.random.IntN(len(l.messages))])
	switch rec := l.model.history.Records[k]; {
	case rec == nil || rec.Settled:
	case rec.Outcome == track.Dead:
		l.fact(track.Fact{Kind: track.Buried, Envelope: track.Envelope{Key: k}})
	case rec.Outcome == track.Succeeded:
		l.fact(track.Fact{Kind: track.Acknowledged, Envelope: track.Envelope{Key: k}})
	}
}

// work advances one message in work: a turn begins, or the work ends in one of many ways.
func (l *life) work() {
	if len(l.atWork) == 0 {
		return
	}
	file := l.atWork[l.random.IntN(len(l.atWork))]
	it := l.model.items[file]
	rec := l.model.history.Records[it.Key]
	if rec == nil {
		rec = &track.Record{Envelope: it.Envelope}
	}
	switch {
	case l.random.IntN(8) == 0:
		l.giveBack(file, l.random.IntN(2) == 0, time.Second) // gone, or trouble
	case rec.Outcome == track.Succeeded, rec.Outcome == track.Dead && !rec.Settled:
		l.conclude(file, rec)
	case rec.Running:
		l.endTurn(file, rec)
	case rec.Outcome == "" && rec.Attempts >= l.model.config.MaxAttempts:
		l.fact(track.Dead.Of(&it.Envelope))
	case l.random.IntN(8) == 0:
		l.unavailable(file)
	default:
		if rec.Outcome == track.Dead {
			l.fact(track.Fact{Kind: track.Revived, Envelope: track.Envelope{Key: it.Key}})
		}
		l.fact(track.Started.Of(&it.Envelope))
	}
}

func (l *life) endTurn(file string, rec *track.Record) {
	switch l.random.IntN(5) {
	case 2:
		// The runner was killed, and another one continues.
		l.fact(track.Lost.About(rec))
		l.giveBack(file, false, 0)
	case 0:
		l.fact(track.Interrupted.About(rec))
		l.unavailable(file)
	case 1:
		f := track.Failed.About(rec)
		f.RetryAt = l.now.Add(time.Duration(l.random.IntN(5000)) * time.Millisecond)
		l.fact(f)
		l.giveBack(file, false, 0)
	default:
		l.fact(track.Succeeded.About(rec))
	}
}

func (l *life) conclude(file string, rec *track.Record) {
	switch {
	case rec.Settled:
	case rec.Outcome == track.Dead:
		l.fact(track.Buried.Of(&rec.Envelope))
	default:
		l.fact(track.Acknowledged.Of(&rec.Envelope))
	}
	l.giveBack(file, true, 0)
}

func (l *life) unavailable(file string) {
	until := l.now.Add(time.Duration(l.random.IntN(3000)) * time.Millisecond)
	l.note("the agent is unavailable until %v", until)
	l.both(func(s scheduler) { s.pause(until) })
	l.giveBack(file, false, 0)
}

func (l *life) giveBack(file string, gone bool, wait time.Duration) {
	l.note("%s is given back, gone %t", file, gone)
	var notBefore time.Time
	if !gone && wait > 0 {
		notBefore = l.now.Add(wait)
	}
	l.atWork = slices.DeleteFunc(l.atWork, func(f string) bool { return f == file })
	l.both(func(s scheduler) { s.giveBack(file, gone, notBefore) })
}
