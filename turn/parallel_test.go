package turn

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/oacp-go/oacp/agent"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// TestConversationsSideBySide checks that two conversations run in parallel: their turns wait for
// each other. Each conversation must have one turn at a time, in order.
func TestConversationsSideBySide(t *testing.T) {
	t.Parallel()
	const each = 5
	w := newWorkspace(t)
	var drafts []schema.Message
	for i := range each {
		for _, c := range []string{"1", "2"} {
			m := question(c + " " + fmt.Sprint(i))
			m.ConversationID = schema.ConversationID("conv-20260101-claude-" + c)
			// One second apart, so that their order is known.
			m.CreatedAt = schema.Timestamp(fmt.Sprintf("2026-01-01T00:00:%02dZ", i))
			drafts = append(drafts, m)
		}
	}
	send(t, w, drafts...)
	var mu sync.Mutex
	order := make(map[string][]string)
	meeting := make(chan string)
	rec, err := runOnce(t, w, Config{Parallel: 2, NewDriver: plays(func(ctx context.Context, request agent.Request) (agent.Result, error) {
		c, i, _ := strings.Cut(variable(request, "OACP_MESSAGE_SUBJECT"), " ")
		mu.Lock()
		order[c] = append(order[c], i)
		mu.Unlock()
		select {
		case other := <-meeting:
			if other == c {
				t.Errorf("conversation %s had two turns at once", c)
			}
		case meeting <- c:
		case <-ctx.Done():
			return agent.Result{}, ctx.Err()
		}
		return agent.Result{}, nil
	})})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []string{"1", "2"} {
		wantTexts(t, "turns of conversation "+c, order[c], "0", "1", "2", "3", "4")
	}
	if got := len(rec.of(EventAcknowledged)); got != 2*each {
		t.Errorf("%d acknowledged, want %d", got, 2*each)
	}
}

// TestRetryHoldsUpItsConversationAlone checks that retries delay no other conversation: the first
// message of one conversation fails twice.
func TestRetryHoldsUpItsConversationAlone(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	var drafts []schema.Message
	for i, subject := range []string{"a1", "a2", "b1", "c1"} {
		m := question(subject)
		m.ConversationID = schema.ConversationID(fmt.Sprintf("conv-20260101-claude-%d", subject[0]))
		m.CreatedAt = schema.Timestamp(fmt.Sprintf("2026-01-01T00:00:%02dZ", i))
		drafts = append(drafts, m)
	}
	send(t, w, drafts...)
	failures := 0
	rec, err := runOnce(t, w, Config{NewDriver: plays(func(_ context.Context, request agent.Request) (agent.Result, error) {
		if variable(request, "OACP_MESSAGE_SUBJECT") == "a1" && failures < 2 {
			failures++
			return agent.Result{}, errors.New("not yet")
		}
		return agent.Result{}, nil
	})})
	if err != nil {
		t.Fatal(err)
	}
	done := rec.of(EventAcknowledged)
	if len(done) != 4 || slices.Index(done, "a1") > slices.Index(done, "a2") {
		t.Errorf("acknowledged %v, want all four, a1 before a2", done)
	}
	if first := rec.of(EventStarted); first[1] != "b1" && first[1] != "a1" {
		t.Errorf("after the failure came %s, want another conversation or the retry", first[1])
	}
}

// TestSessionsGoOn checks that a conversation keeps its agent, and that the next Runner continues
// its session.
func TestSessionsGoOn(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	const conversation schema.ConversationID = "conv-20260101-claude-1"
	inConversation := func(subject string) schema.Message {
		m := question(subject)
		m.ConversationID = conversation
		return m
	}
	var made []string
	driver := func(c schema.ConversationID, session string) agent.Driver {
		made = append(made, string(c)+"/"+session)
		return &puppet{session: "session-1"}
	}
	send(t, w, inConversation("one"), inConversation("two"))
	for range 2 {
		if _, err := runOnce(t, w, Config{NewDriver: driver}); err != nil {
			t.Fatal(err)
		}
		send(t, w, inConversation("three"))
	}
	// The first conversation uses the agent of the preflight.
	wantTexts(t, "drivers made", made, "/", "/", string(conversation)+"/session-1")
}

// TestOneStartForTheFirstConversation checks that a Runner starts an agent once if it can start
// only once, such as a bridge that reports once that it is ready.
func TestOneStartForTheFirstConversation(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	send(t, w, question("q"))
	starts, stops := 0, 0
	driver := func(schema.ConversationID, string) agent.Driver {
		return &puppet{
			start: func() error {
				if starts++; starts > 1 {
					return agent.ErrUnavailable
				}
				return nil
			},
			stop: func() error { stops++; return nil },
		}
	}
	rec, err := runOnce(t, w, Config{NewDriver: driver})
	if want := "turn_started turn_succeeded acknowledged"; err != nil || rec.kinds() != want {
		t.Errorf("Run = %v with %s, want %s", err, rec.kinds(), want)
	}
	if starts != 1 || stops != 1 {
		t.Errorf("the agent was started %d times and stopped %d times, want once each", starts, stops)
	}
}

// TestFinish checks that a Runner that is asked to finish during a turn completes that turn and
// begins no other.
func TestFinish(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	send(t, w, question("one"), question("two"))
	for _, once := range []bool{false, true} {
		var r *Runner
		r, rec := newRunner(t, w, Config{Reply: true, Once: once})
		rec.on = func(e Event) {
			if e.Kind == EventStarted {
				r.Finish()
				r.Finish()
			}
		}
		if err := r.Run(t.Context()); err != nil {
			t.Errorf("Run = %v, want no error", err)
		}
		if want := "turn_started turn_succeeded answered acknowledged"; rec.kinds() != want {
			t.Errorf("events %s, want %s", rec.kinds(), want)
		}
		if err := r.Run(t.Context()); err != nil || len(rec.of(EventStarted)) != 1 {
			t.Errorf("after Finish: %v, %s, want no further turn", err, rec.kinds())
		}
	}
	wantTexts(t, "inbox", subjects(t, w, "codex", mailbox.Inbox))
}

// TestArrivalsWhileRunning sends while a Runner follows the inbox.
func TestArrivalsWhileRunning(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	handled := make(chan string)
	r, _ := newRunner(t, w, Config{Observe: func(e Event) {
		if e.Kind == EventAcknowledged {
			handled <- e.Subject
		}
	}})
	done := make(chan error)
	go func() { done <- r.Run(ctx) }()
	for i := range 5 {
		subject := fmt.Sprint("message ", i)
		send(t, w, question(subject))
		if got := <-handled; got != subject {
			t.Errorf("handled %q, want %q", got, subject)
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("Run = %v, want no error", err)
	}
	wantTexts(t, "inbox", subjects(t, w, "codex", mailbox.Inbox))
}
