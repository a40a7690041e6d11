package turn

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/oacp-go/oacp/agent"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn/track"
)

// leave writes facts about the only message in the inbox of codex to the journal, as a killed
// Runner leaves them, and returns the message's record.
func leave(t *testing.T, w *mailbox.Workspace, facts func(rec *track.Record) []track.Fact) track.Record {
	t.Helper()
	e := entries(t, w, "codex", mailbox.Inbox)[0]
	it := newItem(e.Name, e.Message)
	j, err := track.OpenJournal(w, "codex", time.Now)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range facts(&track.Record{Envelope: it.Envelope}) {
		if err := j.Append(f, false); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	return track.Record{Envelope: it.Envelope}
}

// TestTakesUpWhatWasLeft checks that a Runner continues from the journals that another one leaves
// when it dies between two steps.
func TestTakesUpWhatWasLeft(t *testing.T) {
	t.Parallel()
	answer := func(rec *track.Record) *schema.Message {
		return &schema.Message{
			ID: "msg-20260101T0000Z-codex-0123456789abcdef", CreatedAt: "2026-01-01T00:00:00Z", Priority: schema.P2,
			From: "codex", To: []schema.AgentName{"claude"}, Type: schema.Notification, Subject: "Re: q",
			Body: schema.TextValue("the answer"), ParentID: rec.ID, ConversationID: rec.Conversation,
		}
	}
	won := func(rec *track.Record) []track.Fact {
		f := track.Succeeded.About(rec)
		f.Send = answer(rec)
		return []track.Fact{track.Started.About(rec), f}
	}
	given := func(rec *track.Record) []track.Fact {
		f := track.Dead.About(rec)
		f.Reason, f.Send = "its turn failed", answer(rec)
		return []track.Fact{track.Started.About(rec), f}
	}
	tests := []struct {
		name  string
		facts func(rec *track.Record) []track.Fact
		// then repeats what the Runner did apart from writing the journal.
		then func(t *testing.T, w *mailbox.Workspace, e mailbox.Entry, rec *track.Record)
		// turns is the number of turns of the next run, and stage the final stage of the message.
		turns   int
		stage   track.Stage
		answers int
	}{
		{name: "nothing", facts: func(*track.Record) []track.Fact { return nil }, turns: 1, stage: track.StageDone},
		{name: "a turn that never ended", facts: func(rec *track.Record) []track.Fact { return []track.Fact{track.Started.About(rec)} }, turns: 1, stage: track.StageDone},
		{
			name: "turns that never ended", turns: 0, stage: track.StageDead,
			facts: func(rec *track.Record) []track.Fact {
				return []track.Fact{track.Started.About(rec), track.Started.About(rec), track.Started.About(rec)}
			},
			answers: 1, // the bounce
		},
		{name: "a success", facts: won, stage: track.StageAnswered, answers: 1},
		{
			name: "an answer that was sent", facts: won, stage: track.StageAnswered, answers: 1,
			then: func(t *testing.T, w *mailbox.Workspace, _ mailbox.Entry, rec *track.Record) { send(t, w, *answer(rec)) },
		},
		{
			name: "an answer that was sent and noted", stage: track.StageAnswered, answers: 1,
			facts: func(rec *track.Record) []track.Fact {
				return append(won(rec), track.Fact{Kind: track.Answered, Envelope: track.Envelope{Key: rec.Key}, Sent: answer(rec).ID})
			},
			then: func(t *testing.T, w *mailbox.Workspace, _ mailbox.Entry, rec *track.Record) { send(t, w, *answer(rec)) },
		},
		{
			name: "a message that was acknowledged", facts: won, stage: track.StageAnswered, answers: 1,
			then: func(t *testing.T, w *mailbox.Workspace, e mailbox.Entry, _ *track.Record) {
				if err := w.Acknowledge(e); err != nil {
					t.Fatal(err)
				}
			},
		},
		{name: "a message that has failed for good", facts: given, stage: track.StageDead, answers: 1},
		{
			name: "a dead letter", facts: given, stage: track.StageDead, answers: 1,
			then: func(t *testing.T, w *mailbox.Workspace, e mailbox.Entry, _ *track.Record) {
				if _, err := w.DeadLetter(e, mailbox.DeadLetterReason{Reason: "its turn failed"}); err != nil {
					t.Fatal(err)
				}
			},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := newWorkspace(t)
			send(t, w, question("q"))
			inbox := entries(t, w, "codex", mailbox.Inbox)[0]
			rec := leave(t, w, test.facts)
			if test.then != nil {
				test.then(t, w, inbox, &rec)
			}
			// The second run must find nothing left to do.
			for run := range 2 {
				events, err := runOnce(t, w, Config{Reply: false})
				var given *DeadLettersError
				if err != nil && !errors.As(err, &given) {
					t.Fatal(err)
				}
				want := test.turns
				if run > 0 {
					want = 0
				}
				if got := len(events.of(EventStarted)); got != want {
					t.Errorf("run %d began %d turns, want %d: %s", run, got, want, events.kinds())
				}
			}
			if p := progress(t, w, rec.ID); p.Stage != test.stage {
				t.Errorf("progress %+v, want %s", p, test.stage)
			}
			if got := len(entries(t, w, "claude", mailbox.Inbox)); got != test.answers {
				t.Errorf("%d messages were sent back, want %d", got, test.answers)
			}
			wantTexts(t, "inbox", subjects(t, w, "codex", mailbox.Inbox))
		})
	}
}

// copyOf puts a copy of a file into the inbox of codex.
func copyOf(t *testing.T, w *mailbox.Workspace, data []byte, name string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(w.BoxPath("codex", mailbox.Inbox), name), data, 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestOneTurnForEachMessage(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	sent := send(t, w, question("q"))[0]
	raw, err := mailbox.ReadUnscreened(w, entries(t, w, "codex", mailbox.Inbox)[0])
	if err != nil {
		t.Fatal(err)
	}
	// The same message under two names, written differently, and another one with the same id, as
	// tools with short ids produce.
	copyOf(t, w, append([]byte("# a comment\n"), raw...), "20260101T0000Z_claude_question_copy.yaml")
	copyOf(t, w, []byte(strings.Replace(string(raw), "the body of q", "another body", 1)), "20260101T0000Z_claude_question_other.yaml")
	rec, err := runOnce(t, w, Config{})
	if err != nil {
		t.Fatal(err)
	}
	if turns, duplicates := len(rec.of(EventStarted)), len(rec.of(EventDuplicate)); turns != 2 || duplicates != 1 {
		t.Errorf("%d turns and %d duplicates, want 2 and 1: %s", turns, duplicates, rec.kinds())
	}
	// The message returns long after it was done.
	copyOf(t, w, raw, "20260101T0000Z_claude_question.yaml")
	rec, err = runOnce(t, w, Config{})
	if err != nil || rec.kinds() != "duplicate" {
		t.Errorf("Run = %v with %s, want no error and a duplicate", err, rec.kinds())
	}
	wantTexts(t, "inbox", subjects(t, w, "codex", mailbox.Inbox))
	if p := progress(t, w, sent.ID); p.Stage != track.StageDone {
		t.Errorf("progress %+v, want done", p)
	}
}

func TestDeadLetterPutBackGetsTurnsAgain(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	sent := send(t, w, question("q"))[0]
	failing := plays(func(context.Context, agent.Request) (agent.Result, error) { return agent.Result{}, errors.New("no") })
	if _, err := runOnce(t, w, Config{NewDriver: failing}); err == nil {
		t.Fatal("Run gave no error, want a dead letter")
	}
	letter := entries(t, w, "codex", mailbox.DeadLetters)[0]
	if err := os.Rename(letter.Path, filepath.Join(w.BoxPath("codex", mailbox.Inbox), letter.Name)); err != nil {
		t.Fatal(err)
	}
	if p := progress(t, w, sent.ID); p.Stage != track.StageWaiting {
		t.Errorf("progress %+v, want waiting", p)
	}
	rec, err := runOnce(t, w, Config{})
	if want := "turn_started turn_succeeded acknowledged"; err != nil || rec.kinds() != want || rec.last(EventStarted).Attempt != 1 {
		t.Errorf("Run = %v with %s at attempt %d, want %s at 1", err, rec.kinds(), rec.last(EventStarted).Attempt, want)
	}
}

func TestTakenOutByHand(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	send(t, w, question("q"))
	e := entries(t, w, "codex", mailbox.Inbox)[0]
	rec, err := runOnce(t, w, Config{Reply: true, NewDriver: plays(func(context.Context, agent.Request) (agent.Result, error) {
		return agent.Result{Text: "answer"}, w.Acknowledge(e)
	})})
	if err != nil {
		t.Fatal(err)
	}
	if want := "turn_started turn_succeeded answered acknowledged"; rec.kinds() != want {
		t.Errorf("events %s, want %s", rec.kinds(), want)
	}
}

// TestTakenOutWhileItWaits takes a message out of the inbox while it waits for the turn before it to
// end.
func TestTakenOutWhileItWaits(t *testing.T) {
	t.Parallel()
	for _, parallel := range []int{1, 2} { // without room for it, and behind another of its conversation
		w := newWorkspace(t)
		first, second := question("first"), question("second")
		first.ConversationID, second.ConversationID = "conv-20260313-claude-1", "conv-20260313-claude-1"
		send(t, w, first, second)
		waiting := entries(t, w, "codex", mailbox.Inbox)[1]
		rec, err := runOnce(t, w, Config{Parallel: parallel, NewDriver: plays(func(context.Context, agent.Request) (agent.Result, error) {
			return agent.Result{}, w.Acknowledge(waiting)
		})})
		if err != nil {
			t.Fatal(err)
		}
		wantTexts(t, "turns on", rec.of(EventStarted), "first")
		wantTexts(t, "problems", rec.of(EventProblem))
		wantTexts(t, "acknowledged", rec.of(EventAcknowledged), "first")
	}
}

// TestFailsAfterItWasTakenOut takes a message out of the inbox during a turn that fails, as somebody
// does who acknowledges it on another machine. It gets no other turn, and its sender no bounce.
func TestFailsAfterItWasTakenOut(t *testing.T) {
	t.Parallel()
	for _, attempts := range []int{1, 3} {
		w := newWorkspace(t)
		id := send(t, w, question("q"))[0].ID
		e := entries(t, w, "codex", mailbox.Inbox)[0]
		rec, err := runOnce(t, w, Config{
			Reply: true, MaxAttempts: attempts, firstRetry: time.Hour, lastRetry: time.Hour,
			NewDriver: plays(func(context.Context, agent.Request) (agent.Result, error) {
				return agent.Result{}, errors.Join(errors.New("no"), w.Acknowledge(e))
			}),
		})
		if want := "turn_started turn_failed"; err != nil || rec.kinds() != want {
			t.Errorf("of %d attempts: Run = %v with %s, want %s", attempts, err, rec.kinds(), want)
		}
		wantTexts(t, "dead letters", subjects(t, w, "codex", mailbox.DeadLetters))
		wantTexts(t, "messages to the sender", subjects(t, w, "claude", mailbox.Inbox))
		if p := progress(t, w, id); p.Stage != track.StageDone {
			t.Errorf("of %d attempts: the message is %s, want done", attempts, p.Stage)
		}
	}
}

// TestMailboxesAreAway takes all mailboxes away during a turn, as git does when it checks out a branch
// without them, and brings them back once the Runner has noticed. The answer is sent then.
func TestMailboxesAreAway(t *testing.T) {
	t.Parallel()
	for _, result := range []error{nil, errors.New("no")} {
		w := newWorkspace(t)
		send(t, w, question("q"))
		agents, away := filepath.Join(w.Dir(), "agents"), filepath.Join(w.Dir(), "away")
		turns := 0
		rec := &recorder{}
		rec.on = func(e Event) {
			if _, err := os.Stat(away); err == nil && (e.Kind == EventProblem || e.Kind == EventFailed) {
				if err := os.Rename(away, agents); err != nil {
					t.Error(err)
				}
			}
		}
		_, err := runOnce(t, w, Config{Reply: true, Observe: rec.observe, NewDriver: plays(func(context.Context, agent.Request) (agent.Result, error) {
			if turns++; turns > 1 {
				return agent.Result{Text: "answer"}, nil
			}
			return agent.Result{Text: "answer"}, errors.Join(result, os.Rename(agents, away))
		})})
		if err != nil {
			t.Errorf("Run = %v with %s", err, rec.kinds())
		}
		wantTexts(t, "unsendable", rec.of(EventUnsendable))
		wantTexts(t, "answers", subjects(t, w, "claude", mailbox.Inbox), "Re: q")
		wantTexts(t, "pending", subjects(t, w, "codex", mailbox.Inbox))
	}
}

// TestRemovedByHand removes failed and held messages from the inbox, with and without a Runner. The
// journal must keep their records as long as those of handled messages, not for ever.
func TestRemovedByHand(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t, "claude", "codex", "stranger")
	stranger := question("held")
	stranger.From = "stranger"
	send(t, w, question("fails"), stranger)
	failing := Config{
		AllowFrom: []schema.AgentName{"claude"}, firstRetry: time.Hour, lastRetry: time.Hour,
		NewDriver: plays(func(context.Context, agent.Request) (agent.Result, error) { return agent.Result{}, errors.New("no") }),
	}
	remove := func(subject string) {
		t.Helper()
		for _, e := range entries(t, w, "codex", mailbox.Inbox) {
			if e.Message.Subject == subject {
				if err := w.Acknowledge(e); err != nil {
					t.Error(err)
				}
			}
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	both := make(chan bool, 2)
	failing.Observe = func(e Event) {
		if e.Kind == EventFailed || e.Kind == EventHeld {
			both <- true
		}
	}
	r, _ := newRunner(t, w, failing)
	done := make(chan error)
	go func() { done <- r.Run(ctx) }()
	<-both
	<-both
	remove("fails")
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	remove("held")
	if _, err := runOnce(t, w, Config{AllowFrom: failing.AllowFrom}); err != nil {
		t.Fatal(err)
	}
	h, err := track.ReadHistory(w, "codex")
	if err != nil {
		t.Fatal(err)
	}
	snapshots := func(after time.Duration) (records int) {
		for _, f := range h.Snapshots(time.Now().Add(after)) {
			if f.Record != nil {
				records++
			}
		}
		return records
	}
	if got := snapshots(0); got != 2 {
		t.Errorf("the journal keeps %d messages at first, want both", got)
	}
	if got := snapshots(2 * track.KeepFor); got != 0 {
		t.Errorf("the journal keeps %d messages for ever, want none", got)
	}
}

func TestSenderWithoutMailbox(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t, "claude", "codex", "gone")
	m := question("q")
	m.From = "gone"
	send(t, w, m)
	if err := os.RemoveAll(filepath.Join(w.Dir(), "agents", "gone")); err != nil {
		t.Fatal(err)
	}
	rec, err := runOnce(t, w, Config{Reply: true})
	if want := "turn_started turn_succeeded unsendable acknowledged"; err != nil || rec.kinds() != want {
		t.Errorf("Run = %v with %s, want %s", err, rec.kinds(), want)
	}
}

// TestJournalLines checks that the journal has the documented form: one JSON object a line, each
// with time, fact and id.
func TestJournalLines(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	sent := send(t, w, question("q"))[0]
	if _, err := runOnce(t, w, Config{Reply: true}); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(w.Dir(), "state", "turns", "codex.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for line := range strings.Lines(string(data)) {
		var f struct {
			At   time.Time
			Fact string
			ID   schema.ID
		}
		if err := json.Unmarshal([]byte(line), &f); err != nil || f.At.IsZero() || f.ID != sent.ID {
			t.Errorf("line %q: %v, want a time and the id", line, err)
		}
		kinds = append(kinds, f.Fact)
	}
	wantTexts(t, "facts", kinds, "started", "succeeded", "answered", "acknowledged")
}

// TestAnswerThatCannotBeSentYet breaks the delivery of messages during a turn.
func TestAnswerThatCannotBeSentYet(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	sent := send(t, w, question("q"))[0]
	outgoing := filepath.Join(w.Dir(), "state", "outgoing")
	r, rec := newRunner(t, w, Config{Once: true, Reply: true, NewDriver: plays(func(context.Context, agent.Request) (agent.Result, error) {
		if err := os.RemoveAll(outgoing); err != nil {
			return agent.Result{}, err
		}
		return agent.Result{Text: "answer"}, os.WriteFile(outgoing, nil, 0o644)
	})})
	rec.ignore = isWatcher
	err := r.Run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "outgoing") {
		t.Errorf("Run = %v, want an error naming the folder", err)
	}
	if got := len(rec.of(EventProblem)); got != 3 { // the first, second and fourth of them
		t.Errorf("reported %d problems, want 3: %s", got, rec.kinds())
	}
	wantTexts(t, "inbox", subjects(t, w, "codex", mailbox.Inbox), "q")
	if err := os.Remove(outgoing); err != nil {
		t.Fatal(err)
	}
	rec, err = runOnce(t, w, Config{})
	if want := "answered acknowledged"; err != nil || rec.kinds() != want {
		t.Errorf("Run = %v with %s, want %s", err, rec.kinds(), want)
	}
	if p := progress(t, w, sent.ID); p.Stage != track.StageAnswered {
		t.Errorf("progress %+v, want answered", p)
	}
}

// TestBounceThatCannotBeSentYet does the same for a dead letter, which has already left the inbox.
func TestBounceThatCannotBeSentYet(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	send(t, w, question("q"))
	outgoing := filepath.Join(w.Dir(), "state", "outgoing")
	r, rec := newRunner(t, w, Config{Once: true, MaxAttempts: 1, NewDriver: plays(func(context.Context, agent.Request) (agent.Result, error) {
		return agent.Result{}, errors.New("no")
	})})
	rec.ignore = isWatcher
	rec.on = func(e Event) {
		var err error
		switch {
		case e.Kind == EventDeadLetter:
			err = errors.Join(os.RemoveAll(outgoing), os.WriteFile(outgoing, nil, 0o644))
		case e.Kind == EventProblem && len(rec.of(EventProblem)) == 2:
			err = os.Remove(outgoing)
		}
		if err != nil {
			t.Error(err)
		}
	}
	err := r.Run(t.Context())
	var given *DeadLettersError
	if !errors.As(err, &given) {
		t.Errorf("Run = %v, want a DeadLettersError", err)
	}
	if want := "turn_started turn_failed dead_letter problem problem bounced"; rec.kinds() != want {
		t.Errorf("events %s, want %s", rec.kinds(), want)
	}
	wantTexts(t, "inbox of the sender", subjects(t, w, "claude", mailbox.Inbox), "Not handled: q")
}
