package turn

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/oacp-go/oacp/agent"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn/track"
)

// A steerable is a puppet that takes texts during a turn, which lasts until a text arrives.
type steerable struct {
	puppet
	texts chan string
	// refuses is the error of Steer.
	refuses error
}

func (s *steerable) Steer(_ context.Context, text string) error {
	if s.refuses == nil {
		s.texts <- text
	}
	return s.refuses
}

// urgent sends a P0 message in the conversation of an earlier one.
func urgent(t testing.TB, w *mailbox.Workspace, about *schema.Message, subject string) *schema.Message {
	t.Helper()
	m := question(subject)
	m.Priority, m.ConversationID = schema.P0, about.ConversationID
	return send(t, w, m)[0]
}

// steeredRun runs codex with messages that arrive while the turn on the first runs. The turn ends after a text, or with the
// turn of the second if there is none.
func steeredRun(t *testing.T, config Config, refuses error, fails bool) (w *mailbox.Workspace, first, second *schema.Message, rec *recorder, texts []string) {
	t.Helper()
	w = newWorkspace(t)
	draft := question("long")
	draft.ConversationID = "conv-20260313-claude-1"
	first = send(t, w, draft)[0]
	driver := &steerable{texts: make(chan string, 1), refuses: refuses}
	begun, refused, calls := make(chan struct{}, 9), make(chan struct{}, 9), 0
	driver.turn = func(context.Context, agent.Request) (agent.Result, error) {
		begun <- struct{}{}
		if calls++; calls == 1 {
			select {
			case text := <-driver.texts:
				texts = append(texts, text)
			case <-refused:
			}
			if fails {
				return agent.Result{}, errors.New("no")
			}
		}
		return agent.Result{Text: "ok", Usage: agent.Usage{Turns: 3}}, nil
	}
	config.NewDriver = func(schema.ConversationID, string) agent.Driver { return driver }
	r, rec := newRunner(t, w, config)
	rec.on = func(e Event) {
		if e.Subject == "now" && (e.Kind == EventInterrupted || e.Kind == EventWarning) {
			refused <- struct{}{}
		}
		if e.Kind == EventAcknowledged && len(rec.of(EventAcknowledged)) == 2 {
			r.Finish()
		}
	}
	ran := make(chan error, 1)
	go func() { ran <- r.Run(t.Context()) }()
	<-begun
	second = urgent(t, w, first, "now")
	if err := <-ran; err != nil {
		t.Fatal(err)
	}
	return w, first, second, rec, texts
}

// TestSteer checks that a P0 message joins the running turn of its conversation, and is answered and acknowledged with it.
func TestSteer(t *testing.T) {
	t.Parallel()
	w, first, second, rec, texts := steeredRun(t, Config{Steer: true, Reply: true}, nil, false)
	if len(texts) != 1 || !strings.HasPrefix(texts[0], steering) || !strings.Contains(texts[0], "the body of now") {
		t.Errorf("the turn got %q", texts)
	}
	wantTexts(t, "turns", rec.of(EventStarted), "long", "now")
	wantTexts(t, "answered", rec.of(EventAnswered), "long", "now")
	if e := rec.last(EventStarted); e.Reason != "it joins the turn on "+first.ID.Short() {
		t.Errorf("the reason is %q", e.Reason)
	}
	for _, m := range []*schema.Message{first, second} {
		if p := progress(t, w, m.ID); p.Stage != track.StageAnswered || p.Attempts != 1 {
			t.Errorf("%s is %+v", m.Subject, p)
		}
	}
	turns, err := track.Turns(w, "codex")
	if err != nil || len(turns) != 2 || turns[0].Usage.Turns+turns[1].Usage.Turns != 3 {
		t.Errorf("the turns are %+v, %v; want the usage once", turns, err)
	}
}

// TestSteerFails checks that both messages have turns of their own after a turn that failed.
func TestSteerFails(t *testing.T) {
	t.Parallel()
	_, _, _, rec, _ := steeredRun(t, Config{Steer: true}, nil, true)
	wantTexts(t, "failed", rec.of(EventFailed), "long", "now")
	wantTexts(t, "done", rec.of(EventSucceeded), "now", "long") // the urgent one comes first
}

// TestSteerRefused checks that a message waits for its own turn if the agent takes nothing more.
func TestSteerRefused(t *testing.T) {
	t.Parallel()
	_, _, _, rec, texts := steeredRun(t, Config{Steer: true}, errors.New("no turn to steer"), false)
	if texts != nil {
		t.Errorf("the turn got %q", texts)
	}
	wantTexts(t, "interrupted", rec.of(EventInterrupted), "now")
	wantTexts(t, "done", rec.of(EventSucceeded), "long", "now")
}

// TestSteerCannot checks drivers without a way to give a turn more text, and that other messages wait.
func TestSteerCannot(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	first := send(t, w, question("long"))[0]
	begun, goOn := make(chan struct{}, 9), make(chan struct{})
	config := Config{Steer: true, AllowFrom: []schema.AgentName{"claude"}, NewDriver: plays(func(context.Context, agent.Request) (agent.Result, error) {
		begun <- struct{}{}
		<-goOn
		return agent.Result{Text: "ok"}, nil
	})}
	r, rec := newRunner(t, w, config)
	rec.on = func(e Event) {
		if e.Kind == EventWarning {
			close(goOn)
		}
		if e.Kind == EventAcknowledged && len(rec.of(EventAcknowledged)) == 2 {
			r.Finish()
		}
	}
	ran := make(chan error, 1)
	go func() { ran <- r.Run(t.Context()) }()
	<-begun
	urgent(t, w, first, "now")
	if err := <-ran; err != nil {
		t.Fatal(err)
	}
	want := "it waits for the end of the turn on " + first.ID.Short() + ": this driver gives no messages to a running turn"
	if e := rec.last(EventWarning); e.Reason != want || e.Subject != "now" {
		t.Errorf("the warning is %+v, want the reason %q", e, want)
	}
	wantTexts(t, "done", rec.of(EventSucceeded), "long", "now")
}

func TestSteerWithClaims(t *testing.T) {
	_, err := New(newWorkspace(t), Config{Agent: "codex", NewDriver: says("ok"), Steer: true, Claims: newScriptedClaims()})
	if err == nil || !strings.Contains(err.Error(), "with claims") {
		t.Errorf("New = %v", err)
	}
}

// TestSteerStop stops a turn that another message has joined: that one has its own turn then.
func TestSteerStop(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	first := send(t, w, question("long"))[0]
	driver := &steerable{texts: make(chan string, 1)}
	begun, calls := make(chan struct{}, 9), 0
	driver.turn = func(ctx context.Context, _ agent.Request) (agent.Result, error) {
		begun <- struct{}{}
		if calls++; calls > 1 {
			return agent.Result{Text: "ok"}, nil
		}
		<-ctx.Done()
		return agent.Result{}, context.Cause(ctx)
	}
	r, rec := newRunner(t, w, Config{Steer: true, NewDriver: func(schema.ConversationID, string) agent.Driver { return driver }})
	rec.on = func(e Event) {
		if e.Kind == EventAcknowledged {
			r.Finish()
		}
	}
	ran := make(chan error, 1)
	go func() { ran <- r.Run(t.Context()) }()
	<-begun
	second := urgent(t, w, first, "now")
	<-driver.texts
	if _, err := track.Stop(t.Context(), w, string(second.ID), "", "anna"); err == nil || !strings.Contains(err.Error(), "has joined") {
		t.Errorf("Stop of the message that joined = %v", err)
	}
	if _, err := track.Stop(t.Context(), w, string(first.ID), "", "anna"); err != nil {
		t.Error(err)
	}
	if err := <-ran; err != nil {
		t.Fatal(err)
	}
	wantTexts(t, "interrupted", rec.of(EventInterrupted), "long", "now")
	wantTexts(t, "done", rec.of(EventSucceeded), "now")
	if p := progress(t, w, first.ID); p.Stage != track.StageHeld {
		t.Errorf("the stopped message is %s, want held", p.Stage)
	}
}
