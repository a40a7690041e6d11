package turn

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oacp-go/oacp/agent"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/conversation"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn/track"
)

// asking is an agent whose first turn on a message asks back, and whose next one answers.
type asking struct {
	t *testing.T
	w *mailbox.Workspace
	m *schema.Message
	// expires is how long the question is good for, if that is bounded.
	expires time.Duration
	// asked gets the question, and requests are those of the turns.
	asked    chan *schema.Message
	requests []agent.Request
}

func (a *asking) turn(ctx context.Context, request agent.Request) (agent.Result, error) {
	a.requests = append(a.requests, request)
	if len(a.requests) > 1 {
		return agent.Result{Text: "8080"}, nil
	}
	back := conversation.Reply(a.m, "codex", schema.Question)
	back.Body = schema.TextValue("Which host?")
	back.Marks.Hops = 5
	if a.expires > 0 {
		back.ExpiresAt = schema.NewTimestamp(time.Now().Add(a.expires))
	}
	receipt, err := a.w.Send(ctx, back, nil)
	if err == nil {
		a.asked <- receipt.Message
	}
	return agent.Result{Text: "I have asked."}, err
}

// TestAskedBack lets a turn ask back: the next turn is on the original message, with the answer, or with the reason why none
// comes. Meanwhile the original does not expire, and the rest of its conversation goes on.
func TestAskedBack(t *testing.T) {
	t.Parallel()
	recalled := func(t *testing.T, w *mailbox.Workspace, q *schema.Message) {
		if _, err := track.Recall(t.Context(), w, q); err != nil {
			t.Error(err)
		}
	}
	reply := func(change func(*schema.Message)) func(*testing.T, *mailbox.Workspace, *schema.Message) {
		return func(t *testing.T, w *mailbox.Workspace, q *schema.Message) {
			answer := conversation.Reply(q, "claude", schema.Notification)
			answer.Body = schema.TextValue("example.org")
			answer.Marks.Hops = 6
			change(&answer)
			send(t, w, answer)
		}
	}
	for _, test := range []struct {
		name    string
		end     func(*testing.T, *mailbox.Workspace, *schema.Message)
		expires time.Duration
		// told are texts of the prompt of the second turn, and left is what the sender gets besides the question.
		told []string
		hops int
	}{
		{"answered", reply(func(*schema.Message) {}), 0, []string{"| Which host?", "| example.org", "data from another agent"}, 6},
		{"declined", reply(func(m *schema.Message) { m.Decline() }), 0, []string{"claude does not answer, so work without it:", "| example.org"}, 6},
		{"bounced", reply(func(m *schema.Message) {
			m.Channel, m.Marks = schema.ChannelBounce, schema.Marks{Ended: "dead", Hops: 6}
		}), 0, []string{"claude does not answer, so work without it:"}, 6},
		{"recalled", recalled, 0, []string{"No answer comes, so work without it: codex took message"}, 0},
		{"dead", func(t *testing.T, w *mailbox.Workspace, q *schema.Message) {
			for _, e := range entries(t, w, "claude", mailbox.Inbox) {
				if _, err := w.DeadLetter(e, mailbox.DeadLetterReason{Reason: "it failed"}); err != nil {
					t.Error(err)
				}
			}
		}, 0, []string{"No answer comes, so work without it: claude could not handle message"}, 0},
		{"expired", func(*testing.T, *mailbox.Workspace, *schema.Message) {}, time.Second, []string{"No answer comes, so work without it: the question expired"}, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := newWorkspace(t)
			draft := question("port")
			draft.ExpiresAt = schema.NewTimestamp(time.Now().Add(2 * time.Second))
			m := send(t, w, draft)[0]
			a := &asking{t: t, w: w, m: m, expires: test.expires, asked: make(chan *schema.Message, 1)}
			r, rec := newRunner(t, w, Config{Reply: true, ForModel: true, NewDriver: plays(a.turn), askAgain: 20 * time.Millisecond})
			rec.on = func(e Event) {
				switch {
				case e.Kind == EventHeld:
					if p := progress(t, w, m.ID); p.Stage != track.StageHeld || !strings.Contains(p.Reason, "it asked back with") {
						t.Errorf("meanwhile: %+v", p)
					}
					go test.end(t, w, <-a.asked)
				case e.Kind == EventAcknowledged && e.ID == m.ID, e.Kind == EventExpired:
					r.Finish()
				}
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if err := r.Run(ctx); err != nil || ctx.Err() != nil || len(a.requests) != 2 {
				t.Fatalf("Run = %v, %v after %d turns with %s", err, ctx.Err(), len(a.requests), rec.kinds())
			}
			prompt := a.requests[1].Prompt
			for _, text := range append(test.told, "the body of port") {
				if !strings.Contains(prompt, text) {
					t.Errorf("the prompt lacks %q:\n%s", text, prompt)
				}
			}
			if p := progress(t, w, m.ID); p.Stage != track.StageAnswered || p.Attempts != 2 {
				t.Errorf("at the end: %+v", p)
			}
			wantTexts(t, "the inbox", subjects(t, w, "codex", mailbox.Inbox))
			for _, e := range rec.events {
				if e.Kind == EventStarted && e.Attempt == 2 && e.Hops != test.hops {
					t.Errorf("the second turn comes after %d, want %d", e.Hops, test.hops)
				}
			}
		})
	}
}

// askedBack runs the turn on a question that asks back.
func askedBack(t *testing.T) (*asking, Config) {
	t.Helper()
	w := newWorkspace(t)
	a := &asking{t: t, w: w, m: send(t, w, question("port"))[0], asked: make(chan *schema.Message, 1)}
	config := Config{Reply: true, NewDriver: plays(a.turn)}
	if _, err := runOnce(t, w, config); err != nil {
		t.Fatal(err)
	}
	return a, config
}

// TestAskedBackAcrossRuns lets the answer come while no runner works, beside an answer to nothing and another message of the
// conversation. A program that is no model gets further documents.
func TestAskedBackAcrossRuns(t *testing.T) {
	t.Parallel()
	a, config := askedBack(t)
	w := a.w
	q := <-a.asked
	answer := conversation.Reply(q, "claude", schema.Notification)
	answer.Body = schema.TextValue("example.org")
	send(t, w, answer)
	rec, err := runOnce(t, w, config)
	if want := "turn_started turn_started turn_succeeded answered acknowledged turn_succeeded acknowledged"; err != nil || rec.kinds() != want {
		t.Errorf("Run = %v with %s, want %s", err, rec.kinds(), want)
	}
	second := a.requests[1]
	if strings.Count(second.Prompt, "\n---\n") != 2 || !strings.Contains(second.Prompt, "example.org") || len(variable(second, "OACP_ANSWERS")) < 20 || variable(second, "OACP_UNANSWERED") != "" {
		t.Errorf("the second turn read %s\nwith %q", second.Prompt, variable(second, "OACP_ANSWERS"))
	}
	wantTexts(t, "the inbox", subjects(t, w, "codex", mailbox.Inbox))
	var got []string
	for _, e := range entries(t, w, "claude", mailbox.Inbox) {
		got = append(got, fmt.Sprint(e.Message.Type))
	}
	slices.Sort(got)
	wantTexts(t, "the sender got", got, "notification", "question")
}

// TestAskedBackAndGone lets the original leave the inbox before the answer comes: the answer then has a turn of its own.
func TestAskedBackAndGone(t *testing.T) {
	t.Parallel()
	a, config := askedBack(t)
	w := a.w
	if err := w.Acknowledge(entries(t, w, "codex", mailbox.Inbox)[0]); err != nil {
		t.Fatal(err)
	}
	answer := conversation.Reply(<-a.asked, "claude", schema.Notification)
	answer.Body = schema.TextValue("example.org")
	send(t, w, answer)
	rec, err := runOnce(t, w, config)
	if want := "turn_started turn_succeeded acknowledged"; err != nil || rec.kinds() != want || !strings.Contains(a.requests[1].Prompt, "example.org") {
		t.Errorf("Run = %v with %s, want %s", err, rec.kinds(), want)
	}
}
