package turn

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oacp-go/oacp/agent"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/conversation"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn/track"
)

// TestTwoAgentsStopAtTheBound lets two agents answer each other for ever.
func TestTwoAgentsStopAtTheBound(t *testing.T) {
	t.Parallel()
	const most = 4
	w := newWorkspace(t)
	m := question("thanks")
	m.Type = schema.BrainstormRequest
	conversation := conversation.Of(send(t, w, m)[0])

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var mu sync.Mutex
	turns := make(map[schema.AgentName]int)
	trips, notices := make(chan schema.AgentName, 10), make(chan schema.AgentName, 10)
	var runners sync.WaitGroup
	for _, name := range []schema.AgentName{"claude", "codex"} {
		r, _ := newRunner(t, w, Config{
			Agent: name, Reply: true, MaxTurns: most,
			NewDriver: plays(func(context.Context, agent.Request) (agent.Result, error) {
				mu.Lock()
				defer mu.Unlock()
				turns[name]++
				return agent.Result{Text: "thank you"}, nil
			}),
			Observe: func(e Event) {
				switch {
				case e.Kind == EventBound:
					trips <- name
				case e.Kind == EventHeld && e.From == mailbox.Postmaster:
					notices <- name
				}
			},
		})
		runners.Go(func() {
			if err := r.Run(ctx); err != nil {
				t.Errorf("%s: Run = %v, want no error", name, err)
			}
		})
	}
	// codex has the first turn and so the first too many.
	if got := <-trips; got != "codex" {
		t.Errorf("%s reached its bound first, want codex", got)
	}
	told := []schema.AgentName{<-notices, <-notices}
	slices.Sort(told)
	if !slices.Equal(told, []schema.AgentName{"claude", "codex"}) {
		t.Errorf("the notice went to %v, want both", told)
	}
	mu.Lock()
	if turns["claude"] != most || turns["codex"] != most {
		t.Errorf("turns %v, want %d each", turns, most)
	}
	mu.Unlock()

	// The notice is held as well.
	held := slices.DeleteFunc(entries(t, w, "codex", mailbox.Inbox), func(e mailbox.Entry) bool { return e.Message.From == mailbox.Postmaster })
	if len(held) != 1 {
		t.Fatalf("%d messages wait, want 1", len(held))
	}
	if p := progress(t, w, held[0].Message.ID); p.Stage != track.StageHeld || !strings.Contains(p.Reason, fmt.Sprint(most)) {
		t.Errorf("progress %+v, want held for the bound", p)
	}
	status, err := track.Status(t.Context(), w, "codex")
	if err != nil || !status[0].Running || status[0].Held != 2 || len(status[0].Conversations) == 0 || !status[0].Conversations[0].Bound {
		t.Errorf("status %+v, %v, want a running agent with a held message and a notice in a bound conversation", status, err)
	}

	resumedFor, err := track.Resume(t.Context(), w, conversation)
	if err != nil || !slices.Equal(resumedFor, []schema.AgentName{"claude", "codex"}) {
		t.Errorf("Resume = %v, %v, want both", resumedFor, err)
	}
	if got := <-trips; got != "codex" {
		t.Errorf("%s reached its bound next, want codex", got)
	}
	<-notices
	<-notices
	cancel()
	runners.Wait()
	if turns["claude"] != 2*most || turns["codex"] != 2*most {
		t.Errorf("turns %v after resuming, want %d each", turns, 2*most)
	}
}

// TestChain checks which messages a chain of turns holds, that they hold up no others, and that a person lets them go on.
func TestChain(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	var drafts []schema.Message
	for _, hops := range []int{DefaultMaxHops, DefaultMaxHops - 1, DefaultMaxHops + 5, 0} {
		m := question(fmt.Sprint(hops, " hops"))
		m.ConversationID = "conv-20260313-claude-1"
		m.Marks.Hops = hops
		drafts = append(drafts, m)
	}
	sent := send(t, w, drafts...)
	run := func(maxHops int, wantBounds int, wantTurns ...string) {
		t.Helper()
		r, rec := newRunner(t, w, Config{Once: true, Reply: true, MaxHops: maxHops, NewDriver: says("ok")})
		if err := r.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := rec.of(EventStarted); !slices.Equal(got, wantTurns) || len(rec.of(EventBound)) != wantBounds {
			t.Errorf("turns on %q, %d notices; want %q, %d", got, len(rec.of(EventBound)), wantTurns, wantBounds)
		}
	}
	run(0, 1, "11 hops", "0 hops")
	run(0, 0)
	if notices := mailboxNotices(t, w, "claude"); notices != 1 {
		t.Errorf("the sender has %d notices, want 1", notices)
	}
	if p := progress(t, w, sent[0].ID); p.Stage != track.StageHeld || !strings.Contains(p.Reason, "comes after 12 turns in a row") {
		t.Errorf("progress %+v, want held", p)
	}
	if _, err := track.Resume(t.Context(), w, "conv-20260313-claude-1"); err != nil {
		t.Fatal(err)
	}
	run(0, 0, "12 hops", "17 hops")
	want := map[string]int{"Re: 11 hops": 12, "Re: 0 hops": 1, "Re: 12 hops": 1, "Re: 17 hops": 1}
	for _, e := range entries(t, w, "codex", mailbox.Outbox) {
		if got := e.Message.Marks.Hops; got != want[e.Message.Subject] {
			t.Errorf("%s: %d hops, want %d", e.Message.Subject, got, want[e.Message.Subject])
		}
	}
	again := drafts[2]
	again.Subject = "again"
	send(t, w, again)
	run(Unlimited, 0, "again")
}

// mailboxNotices counts the notices in the inbox of an agent.
func mailboxNotices(t *testing.T, w *mailbox.Workspace, agent schema.AgentName) int {
	return len(slices.DeleteFunc(entries(t, w, agent, mailbox.Inbox), func(e mailbox.Entry) bool { return !e.Message.IsNotice() }))
}

// TestPairBoundWithinTheHour sends messages of different conversations.
func TestPairBoundWithinTheHour(t *testing.T) {
	t.Parallel()
	const most = 3
	w := newWorkspace(t, "claude", "codex", "other")
	var drafts []schema.Message
	for i := range most + 2 {
		drafts = append(drafts, question(fmt.Sprint("q", i)))
	}
	other := question("from another")
	other.From = "other"
	send(t, w, append(drafts, other)...)
	now := time.Now()
	run := func() *recorder {
		r, rec := newRunner(t, w, Config{MaxPairTurns: most, Once: true})
		r.now = func() time.Time { return now }
		if err := r.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		return rec
	}
	rec := run()
	if got := len(rec.of(EventStarted)); got != most+1 {
		t.Errorf("%d turns, want %d and the other agent's", got, most)
	}
	if trips, held := len(rec.of(EventBound)), len(rec.of(EventHeld)); trips != 1 || held != 3 {
		t.Errorf("%d notices and %d held, want 1 and 2 with the notice", trips, held)
	}
	if got := len(entries(t, w, "claude", mailbox.Inbox)); got != 1 {
		t.Errorf("%d notices to the sender, want 1", got)
	}
	now = now.Add(59 * time.Minute)
	if rec := run(); len(rec.of(EventBound)) != 0 || slices.ContainsFunc(rec.of(EventStarted), func(s string) bool { return strings.HasPrefix(s, "q") }) {
		t.Errorf("within the hour: %s, want no further notice and no turn on a question", rec.kinds())
	}
	now = now.Add(2 * time.Minute)
	if rec := run(); len(rec.of(EventStarted)) != 2 {
		t.Errorf("after an hour: %s, want the two that waited", rec.kinds())
	}
}

// TestOneNoticeAtThePairBound checks that a sender gets one notice while turns leave the hour one
// by one, each making room for another.
func TestOneNoticeAtThePairBound(t *testing.T) {
	t.Parallel()
	const most = 4
	w := newWorkspace(t)
	var drafts []schema.Message
	for i := range 8 * most {
		drafts = append(drafts, question(fmt.Sprint("q", i)))
	}
	send(t, w, drafts...)
	begin := time.Now()
	var passed atomic.Int64
	pass := func(by time.Duration) { passed.Add(int64(by)) }
	turns, notices := 0, 0
	run := func() {
		t.Helper()
		r, rec := newRunner(t, w, Config{MaxPairTurns: most, Once: true, NewDriver: plays(func(_ context.Context, request agent.Request) (agent.Result, error) {
			if variable(request, "OACP_MESSAGE_FROM") == "claude" {
				turns++
				pass(10 * time.Minute)
			}
			return agent.Result{}, nil
		})})
		r.now = func() time.Time { return begin.Add(time.Duration(passed.Load())) }
		if err := r.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		notices += len(rec.of(EventBound))
	}
	run()
	if turns != most || notices != 1 {
		t.Errorf("%d turns and %d notices, want %d and 1", turns, notices, most)
	}
	for range most {
		pass(10 * time.Minute)
		run()
	}
	if turns <= most || notices != 1 {
		t.Errorf("%d turns and %d notices as turns drop out of the hour, want more turns and no other notice", turns, notices)
	}
	pass(2 * time.Hour)
	run()
	if notices != 2 {
		t.Errorf("%d notices after a quiet time, want another one", notices)
	}
	wantTexts(t, "notices to the sender", subjects(t, w, "claude", mailbox.Inbox), "Paused: codex and claude", "Paused: codex and claude")
}

// TestHeldAgainAfterResume holds a message, resumes the conversation, and holds the message again
// for the same reason. The message must not show as waiting.
func TestHeldAgainAfterResume(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	sent := send(t, w, question("1"), question("2"), question("3"))
	heldNow, done := make(chan schema.ID, 10), make(chan schema.ID, 10)
	r, _ := newRunner(t, w, Config{MaxPairTurns: 1, Observe: func(e Event) {
		switch {
		case e.Kind == EventHeld && e.From == "claude":
			heldNow <- e.ID
		case e.Kind == EventAcknowledged && e.From == "claude":
			done <- e.ID
		}
	}})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ended := make(chan error)
	go func() { ended <- r.Run(ctx) }()
	first := <-done
	<-heldNow
	<-heldNow
	i := slices.IndexFunc(sent, func(m *schema.Message) bool { return m.ID == first })
	if _, err := track.Resume(ctx, w, conversation.Of(sent[i])); err != nil {
		t.Fatal(err)
	}
	<-done
	select {
	case id := <-heldNow:
		if p := progress(t, w, id); p.Stage != track.StageHeld || p.Reason == "" {
			t.Errorf("progress %+v, want held again", p)
		}
	case <-ctx.Done():
		t.Error("no event reports that the last message is held again")
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestClockSetBack sets the clock back by days after a message failed and a sender reached its
// bound. Neither waits until the clock reaches that time again.
func TestClockSetBack(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	send(t, w, question("1"), question("2"))
	now := time.Now().Add(7 * 24 * time.Hour)
	run := func(turn func(context.Context, agent.Request) (agent.Result, error)) *recorder {
		t.Helper()
		c := Config{MaxPairTurns: 1, Once: true, firstRetry: time.Minute, lastRetry: time.Minute}
		if turn != nil {
			c.NewDriver = plays(turn)
		}
		r, rec := newRunner(t, w, c)
		r.now = func() time.Time { return now }
		rec.on = func(e Event) {
			if e.Kind == EventFailed {
				r.Finish()
			}
		}
		if err := r.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		return rec
	}
	fails := func(context.Context, agent.Request) (agent.Result, error) { return agent.Result{}, errors.New("no") }
	if rec := run(fails); len(rec.of(EventFailed)) != 1 {
		t.Fatalf("events %s, want a failed turn", rec.kinds())
	}
	now = now.Add(-7 * 24 * time.Hour)
	if rec := run(nil); len(rec.of(EventAcknowledged)) != 1 {
		t.Errorf("events %s, want one of the questions handled", rec.kinds())
	}
	now = now.Add(-24 * time.Hour)
	if rec := run(nil); len(rec.of(EventAcknowledged)) != 1 {
		t.Errorf("events %s, want the other one handled too", rec.kinds())
	}
}

// TestNoticesGetNoTurn checks that notifications on the channels of notices get no turn from any
// sender, and delay no other message.
func TestNoticesGetNoTurn(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	for n, m := range []schema.Message{
		{From: mailbox.Postmaster, Type: schema.Notification, Channel: schema.ChannelBound, Subject: "bound"},
		{From: "gemini", Type: schema.Notification, Channel: schema.ChannelBounce, Subject: "bounce"},
		{From: "gemini", Type: schema.Question, Channel: schema.ChannelBounce, Subject: "a question"},
		{From: "gemini", Type: schema.Notification, Channel: "general", Subject: "news"},
	} {
		m.ID = schema.ID(fmt.Sprintf("msg-20260101T0000Z-%s-%04d", m.From, n))
		m.To, m.Priority, m.Body = []schema.AgentName{"codex"}, schema.P2, schema.TextValue("b")
		m.CreatedAt, m.ConversationID = "2026-01-01T00:00:00Z", "conv-20260101-gemini-1"
		data, err := schema.Encode(&m)
		if err != nil {
			t.Fatal(err)
		}
		copyOf(t, w, data, string(m.ID)+".yaml")
	}
	for run := range 2 {
		rec, err := runOnce(t, w, Config{})
		if err != nil {
			t.Fatal(err)
		}
		if run == 0 {
			wantTexts(t, "turns", rec.of(EventStarted), "a question", "news")
		}
		wantTexts(t, "held", rec.of(EventHeld), "bounce", "bound")
	}
	if s := statusFor(t, w, "codex"); s.Held != 2 || s.Pending != 0 {
		t.Errorf("status %+v, want two held and none pending", s)
	}
}

func TestUnlimited(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	var drafts []schema.Message
	for i := range 5 {
		m := question(fmt.Sprint(i))
		m.ConversationID = "conv-20260101-claude-1"
		drafts = append(drafts, m)
	}
	send(t, w, drafts...)
	if _, err := runOnce(t, w, Config{MaxTurns: Unlimited, MaxPairTurns: Unlimited}); err != nil {
		t.Fatal(err)
	}
	wantTexts(t, "inbox", subjects(t, w, "codex", mailbox.Inbox))
}
