package turn

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oacp-go/oacp/agent"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/conversation"
	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn/track"
)

func TestTurnsInProcessingOrder(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	urgent, task, late := question("urgent"), question("task"), question("last")
	urgent.Priority, task.Type, late.Type = schema.P0, schema.TaskRequest, schema.Notification
	send(t, w, late, question("question"), task, urgent)
	rec, err := runOnce(t, w, Config{})
	if err != nil {
		t.Fatal(err)
	}
	wantTexts(t, "turns", rec.of(EventStarted), "urgent", "task", "question", "last")
	wantTexts(t, "acknowledged", rec.of(EventAcknowledged), "urgent", "task", "question", "last")
	wantTexts(t, "inbox", subjects(t, w, "codex", mailbox.Inbox))
	wantTexts(t, "answers without being asked to", subjects(t, w, "claude", mailbox.Inbox))
}

func TestRequest(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	m := question("$(rm -rf /)\x1b[2J; `id`")
	m.Channel, m.RelatedPR = "a-channel", "42"
	sent := send(t, w, m)[0]
	inbox := entries(t, w, "codex", mailbox.Inbox)[0]
	raw, err := mailbox.ReadUnscreened(w, inbox)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		input Input
		want  string
	}{{InputMessage, string(raw)}, {InputBody, sent.Body.Text}} {
		var got agent.Request
		_, err := runOnce(t, w, Config{Input: test.input, MaxAttempts: 5, NewDriver: plays(func(_ context.Context, request agent.Request) (agent.Result, error) {
			got = request
			return agent.Result{}, agent.ErrUnavailable
		})})
		if !errors.Is(err, agent.ErrUnavailable) {
			t.Errorf("Run = %v, want ErrUnavailable", err)
		}
		if got.Prompt != test.want {
			t.Errorf("input %s: prompt %q, want %q", test.input, got.Prompt, test.want)
		}
		for name, want := range map[string]string{
			"OACP_MESSAGE_ID": string(sent.ID), "OACP_MESSAGE_FROM": "claude", "OACP_MESSAGE_TO": "codex",
			"OACP_MESSAGE_TYPE": "question", "OACP_MESSAGE_PRIORITY": "P2", "OACP_MESSAGE_SUBJECT": m.Subject,
			"OACP_MESSAGE_CHANNEL": "a-channel", "OACP_MESSAGE_RELATED_PR": "42", "OACP_MESSAGE_PARENT_ID": "",
			"OACP_MESSAGE_CONVERSATION_ID": string(conversation.Of(sent)), "OACP_MESSAGE_EXPIRES_AT": "",
			"OACP_FILE": inbox.Path, "OACP_WORKSPACE": w.Dir(), "OACP_AGENT": "codex", "OACP_ATTEMPT": "1",
		} {
			if value := variable(got, name); value != want {
				t.Errorf("%s=%q, want %q", name, value, want)
			}
		}
	}
}

func TestReply(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	silent := question("silent")
	types := map[string]schema.Type{"question": schema.Question, "notification": schema.Notification, "follow_up": schema.FollowUp, "lgtm": schema.ReviewLGTM}
	for subject, kind := range types {
		m := question(subject)
		m.Type = kind
		send(t, w, m)
	}
	asked := send(t, w, silent)[0]
	rec, err := runOnce(t, w, Config{Reply: true, NewDriver: plays(func(_ context.Context, request agent.Request) (agent.Result, error) {
		if variable(request, "OACP_MESSAGE_SUBJECT") == "silent" {
			return agent.Result{Text: " \n"}, nil
		}
		return agent.Result{Text: "the answer\x00\x1b[0m\n\n"}, nil
	})})
	if err != nil {
		t.Fatal(err)
	}
	wantTexts(t, "answered", rec.of(EventAnswered), "question")
	wantTexts(t, "bounced", rec.of(EventBounced), "silent")
	answers := slices.DeleteFunc(entries(t, w, "claude", mailbox.Inbox), func(e mailbox.Entry) bool { return e.Message.Marks.Declined })
	if len(answers) != 1 {
		t.Fatalf("%d answers, want 1", len(answers))
	}
	m := answers[0].Message
	if m.From != "codex" || m.Subject != "Re: question" || m.Body.Text != "the answer\x00\x1b[0m" || m.ID != rec.last(EventAnswered).Sent {
		t.Errorf("answer %+v, want one from codex with the text", m)
	}
	original, err := w.Find(t.Context(), string(m.ParentID))
	if err != nil || original[0].Message.Subject != "question" || m.ConversationID != conversation.Of(original[0].Message) {
		t.Errorf("the answer names parent %s in %s (%v), want the question", m.ParentID, m.ConversationID, err)
	}
	if p := progress(t, w, asked.ID); p.Stage != track.StageDeclined {
		t.Errorf("stage of the question without an answer: %s, want declined", p.Stage)
	}
	if p := progress(t, w, m.ParentID); p.Stage != track.StageAnswered || p.Answer != m.ID || p.Attempts != 1 {
		t.Errorf("progress of the answered question: %+v, want answered by %s", p, m.ID)
	}
}

func TestLongAnswerSaysThatItWasCut(t *testing.T) {
	t.Parallel()
	for _, truncated := range []bool{false, true} {
		w := newWorkspace(t)
		send(t, w, question("q"))
		long := strings.Repeat("ü", schema.MaxBody+1)
		_, err := runOnce(t, w, Config{Reply: true, NewDriver: plays(func(context.Context, agent.Request) (agent.Result, error) {
			return agent.Result{Text: long, Truncated: truncated}, nil
		})})
		if err != nil {
			t.Fatal(err)
		}
		body := entries(t, w, "claude", mailbox.Inbox)[0].Message.Body.Text
		_, file, ok := strings.Cut(body, " in state/turns/")
		file, _, ok2 := strings.Cut(file, " of the workspace")
		if !ok || !ok2 || !strings.HasPrefix(body, strings.Repeat("ü", 1000)) {
			t.Fatalf("the answer ends in %q, want it to name the file with the rest", body[max(0, len(body)-300):])
		}
		kept, err := os.ReadFile(w.Dir() + "/state/turns/" + file)
		rest, whole := strings.CutPrefix(string(kept), long)
		if err != nil || !whole || truncated != strings.Contains(rest, "Only the first") {
			t.Errorf("%d bytes are kept (%v), want all %d, and a remark if there were more", len(kept), err, len(long))
		}
	}
}

func TestFailureRetryDeadLetterAndBounce(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	bad := question("bad")
	bad.Priority = schema.P0
	sent := send(t, w, bad, question("good"))
	calls := 0
	_, err := runOnce(t, w, Config{Reply: true, NewDriver: plays(func(_ context.Context, request agent.Request) (agent.Result, error) {
		if variable(request, "OACP_MESSAGE_SUBJECT") != "bad" {
			return agent.Result{Text: "fine"}, nil
		}
		calls++
		if got, want := variable(request, "OACP_ATTEMPT"), fmt.Sprint(calls); got != want {
			t.Errorf("attempt %s, want %s", got, want)
		}
		return agent.Result{Text: "half", Tail: "last words"}, errors.New("exit status 3")
	})})
	var given *DeadLettersError
	if !errors.As(err, &given) || len(given.Messages) != 1 || given.Messages[0] != string(sent[0].ID) {
		t.Errorf("Run = %v, want a DeadLettersError naming %s", err, sent[0].ID)
	}
	if calls != DefaultMaxAttempts {
		t.Errorf("%d turns on the failing message, want %d", calls, DefaultMaxAttempts)
	}
	wantTexts(t, "dead letters", subjects(t, w, "codex", mailbox.DeadLetters), "bad")
	reason, err := w.Reason(entries(t, w, "codex", mailbox.DeadLetters)[0])
	if err != nil || reason.Attempts != 3 || reason.Output != "last words" || !strings.Contains(reason.Reason, "exit status 3") {
		t.Errorf("reason %+v, %v, want 3 attempts, the output and the status", reason, err)
	}
	wantTexts(t, "inbox of the sender", subjects(t, w, "claude", mailbox.Inbox), "Not handled: bad", "Re: good")
	for _, e := range entries(t, w, "claude", mailbox.Inbox) {
		if e.Message.Subject != "Not handled: bad" {
			continue
		}
		if m := e.Message; m.Type != schema.Notification || m.Channel != schema.ChannelBounce || m.ParentID != sent[0].ID ||
			!strings.Contains(m.Body.Text, "exit status 3") || !strings.Contains(m.Body.Text, "last words") {
			t.Errorf("bounce %+v, want a notification with reason and output", m)
		}
	}
	if p := progress(t, w, sent[0].ID); p.Stage != track.StageDead || p.Attempts != 3 || !strings.Contains(p.Reason, "exit status 3") {
		t.Errorf("progress %+v, want dead with its reason", p)
	}
	// The bounce gets no turn, so it cannot cause another bounce.
	failing := plays(func(context.Context, agent.Request) (agent.Result, error) { return agent.Result{}, errors.New("no") })
	rec, err := runOnce(t, w, Config{Agent: "claude", NewDriver: failing, MaxAttempts: 1})
	if err == nil {
		t.Error("Run gave no error, want a dead letter")
	}
	wantTexts(t, "bounced", rec.of(EventBounced), "Re: good")
	wantTexts(t, "held", rec.of(EventHeld), "Not handled: bad")
	wantTexts(t, "inbox", subjects(t, w, "codex", mailbox.Inbox), "Not handled: Re: good")
}

func TestTimeout(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	send(t, w, question("slow"))
	rec, err := runOnce(t, w, Config{MaxAttempts: 1, Timeout: time.Millisecond, NewDriver: plays(func(ctx context.Context, _ agent.Request) (agent.Result, error) {
		<-ctx.Done()
		return agent.Result{}, context.Cause(ctx)
	})})
	if err == nil || !strings.Contains(rec.last(EventFailed).Reason, "1ms") {
		t.Errorf("Run = %v, failure %q, want a dead letter and the timeout", err, rec.last(EventFailed).Reason)
	}
}

func TestUnavailableConsumesNothing(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	sent := send(t, w, question("q"))[0]
	missing := fmt.Errorf("%w: no-such-agent", agent.ErrUnavailable)
	rec, err := runOnce(t, w, Config{NewDriver: func(schema.ConversationID, string) agent.Driver {
		return &puppet{start: func() error { return missing }}
	}})
	if !errors.Is(err, missing) || rec.kinds() != "" {
		t.Errorf("Run = %v after %q, want ErrUnavailable before anything", err, rec.kinds())
	}
	if p := progress(t, w, sent.ID); p.Stage != track.StageWaiting || p.Attempts != 0 {
		t.Errorf("progress %+v, want waiting without attempts", p)
	}

	// The agent then becomes unavailable during a turn, then at the start of one, and then
	// recovers.
	makes := 0
	r, rec := newRunner(t, w, Config{MaxAttempts: 1, NewDriver: func(schema.ConversationID, string) agent.Driver {
		makes++
		switch makes {
		case 2, 3:
			return &puppet{start: func() error { return missing }}
		case 1, 4:
			return &puppet{turn: func(context.Context, agent.Request) (agent.Result, error) { return agent.Result{}, missing }}
		}
		return &puppet{}
	}})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	rec.on = func(e Event) {
		if e.Kind == EventAcknowledged {
			cancel()
		}
	}
	if err := r.Run(ctx); err != nil {
		t.Errorf("Run = %v, want no error", err)
	}
	if got := len(rec.of(EventUnavailable)); got != 4 {
		t.Errorf("%d events report that the agent is unavailable, want 4: %s", got, rec.kinds())
	}
	if p := progress(t, w, sent.ID); p.Stage != track.StageDone || p.Attempts != 1 {
		t.Errorf("progress %+v, want done at the first attempt that counts", p)
	}
}

func TestHeldAndExpiredStay(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t, "claude", "codex", "stranger")
	expired, held := question("expired"), question("held")
	expired.CreatedAt, expired.ExpiresAt = "2020-01-01T00:00:00Z", "2020-01-02T00:00:00Z"
	held.From = "stranger"
	sent := send(t, w, expired, held, question("good"))
	for range 2 {
		rec, err := runOnce(t, w, Config{AllowFrom: []schema.AgentName{"claude"}})
		if err != nil {
			t.Fatal(err)
		}
		wantTexts(t, "expired", rec.of(EventExpired), "expired")
		wantTexts(t, "held", rec.of(EventHeld), "held")
	}
	wantTexts(t, "inbox", subjects(t, w, "codex", mailbox.Inbox), "expired", "held")
	for i, want := range []track.Stage{track.StageExpired, track.StageHeld, track.StageDone} {
		if p := progress(t, w, sent[i].ID); p.Stage != want || want == track.StageHeld && !strings.Contains(p.Reason, "stranger") {
			t.Errorf("progress %+v, want %s", p, want)
		}
	}
	if _, err := runOnce(t, w, Config{}); err != nil {
		t.Fatal(err)
	}
	wantTexts(t, "inbox when all are allowed", subjects(t, w, "codex", mailbox.Inbox), "expired")
}

// TestAutonomyHolds checks that messages get no turn while the agent's autonomy leaves them to a
// person, also if they had turns before.
func TestAutonomyHolds(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	sent := send(t, w, question("failed"), question("waits"))
	r, _ := newRunner(t, w, Config{firstRetry: time.Hour, NewDriver: plays(func(context.Context, agent.Request) (agent.Result, error) {
		return agent.Result{}, errors.New("no")
	})})
	r.config.Observe = func(e Event) {
		if e.Kind == EventFailed {
			r.Finish()
		}
	}
	if err := r.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, autonomy := range []project.Autonomy{project.AutonomyPause, project.AutonomyReview} {
		rec, err := runOnce(t, w, Config{Autonomy: autonomy, NewDriver: says("ok")})
		if err != nil {
			t.Fatal(err)
		}
		wantTexts(t, "held", rec.of(EventHeld), "failed", "waits")
		if kinds := rec.kinds(); strings.Contains(kinds, string(EventStarted)) {
			t.Errorf("with %s, there were turns: %s", autonomy, kinds)
		}
		if p := progress(t, w, sent[1].ID); p.Stage != track.StageHeld || !strings.Contains(p.Reason, string(autonomy)) {
			t.Errorf("progress %+v, want held because of %s", p, autonomy)
		}
	}
	rec, err := runOnce(t, w, Config{Autonomy: project.AutonomyAuto, NewDriver: says("ok")})
	if err != nil {
		t.Fatal(err)
	}
	wantTexts(t, "done", rec.of(EventSucceeded), "failed", "waits")
	wantTexts(t, "inbox", subjects(t, w, "codex", mailbox.Inbox))
}

func TestSecondRunnerIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	send(t, w, question("q"))
	inTurn, second := make(chan struct{}), make(chan error)
	r, rec := newRunner(t, w, Config{NewDriver: plays(func(ctx context.Context, _ agent.Request) (agent.Result, error) {
		close(inTurn)
		<-ctx.Done()
		return agent.Result{}, context.Cause(ctx)
	})})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		<-inTurn
		other, _ := newRunner(t, w, Config{})
		second <- other.Run(t.Context())
		cancel()
	}()
	done := make(chan error)
	go func() { done <- r.Run(ctx) }()
	err := <-second
	var busy *BusyError
	if !errors.As(err, &busy) || busy.Holder == nil || busy.Holder.PID != os.Getpid() {
		t.Errorf("second Run = %v, want a BusyError naming this process", err)
	}
	if err := <-done; err != nil {
		t.Errorf("first Run = %v, want no error", err)
	}
	if got, want := rec.kinds(), "turn_started turn_interrupted"; got != want {
		t.Errorf("events %s, want %s", got, want)
	}
	wantTexts(t, "inbox", subjects(t, w, "codex", mailbox.Inbox), "q")
	// A stopped attempt does not count.
	if _, err := runOnce(t, w, Config{MaxAttempts: 1}); err != nil {
		t.Errorf("Run afterwards = %v, want the turn to succeed", err)
	}
}
