package turn

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oacp-go/oacp/agent"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn/track"
)

// TestStop stops one of two turns. The other goes on, the message stays held, also for a later Runner and after a
// compaction, and messages behind it in its conversation get turns.
func TestStop(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	long, other, behind := question("long"), question("other"), question("behind")
	long.ConversationID, behind.ConversationID = "conv-20260313-claude-1", "conv-20260313-claude-1"
	sent := send(t, w, long, other, behind)
	begun, goOn := make(chan string, 3), make(chan struct{})
	config := Config{Parallel: 2, NewDriver: plays(func(ctx context.Context, request agent.Request) (agent.Result, error) {
		subject := variable(request, "OACP_MESSAGE_SUBJECT")
		begun <- subject
		if subject == "behind" {
			return agent.Result{Text: "ok"}, nil
		}
		select {
		case <-ctx.Done():
			return agent.Result{}, context.Cause(ctx)
		case <-goOn:
			return agent.Result{Text: "ok"}, nil
		}
	})}
	config.Once = true
	r, rec := newRunner(t, w, config)
	ran := make(chan error, 1)
	go func() { ran <- r.Run(t.Context()) }()
	if both := []string{<-begun, <-begun}; !slices.Contains(both, "long") || !slices.Contains(both, "other") {
		t.Fatalf("turns on %q began, want long and other", both)
	}
	stopped, err := track.Stop(t.Context(), w, string(sent[0].ID), "", "anna")
	if err != nil || len(stopped) != 1 || stopped[0].Stage != track.StageHeld || stopped[0].Attempts != 0 ||
		!strings.HasPrefix(stopped[0].Reason, "stopped by anna; oacp restore ") {
		t.Errorf("Stop = %+v, %v; want the message held, without attempts", stopped, err)
	}
	if next := <-begun; next != "behind" {
		t.Errorf("a turn on %s began, want the one behind in the conversation", next)
	}
	if p := progress(t, w, sent[1].ID); p.Stage != track.StageWorking {
		t.Errorf("the other message is %s, want working", p.Stage)
	}
	close(goOn)
	if err := <-ran; err != nil {
		t.Fatal(err)
	}
	if held := rec.of(EventHeld); !slices.Equal(held, []string{"long"}) {
		t.Errorf("held are %q", held)
	}
	_, err = track.Stop(t.Context(), w, string(sent[0].ID), "", "anna")
	if e, ok := errors.AsType[*track.NoTurnError](err); !ok || e.Reason != "it is held" {
		t.Errorf("another Stop = %v, want that no turn works on it", err)
	}

	compactJournal(t, w)
	if rec, err := runOnce(t, w, config); err != nil || rec.of(EventStarted) != nil {
		t.Errorf("the next runner had turns on %q, %v; want none", rec.of(EventStarted), err)
	}
	restoreOne(t, w, sent[0].ID, track.StageHeld)
	restoreOne(t, w, sent[0].ID, track.StageWaiting)
	if rec, err := runOnce(t, w, config); err != nil || len(rec.of(EventSucceeded)) != 1 {
		t.Errorf("after Restore, turns on %q succeeded, %v; want one", rec.of(EventSucceeded), err)
	}
}

// TestStopTooLate checks a turn that ends by itself although it was to be stopped.
func TestStopTooLate(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		err  error
		want track.Stage
	}{{"succeeded", nil, track.StageDone}, {"failed", errors.New("no"), track.StageHeld}} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorkspace(t)
			m := send(t, w, question("long"))[0]
			begun := make(chan struct{}, 1)
			config := Config{Once: true, NewDriver: plays(func(ctx context.Context, _ agent.Request) (agent.Result, error) {
				begun <- struct{}{}
				<-ctx.Done()
				return agent.Result{Text: "ok"}, test.err
			})}
			r, _ := newRunner(t, w, config)
			ran := make(chan error, 1)
			go func() { ran <- r.Run(t.Context()) }()
			<-begun
			stopped, err := track.Stop(t.Context(), w, string(m.ID), "codex", "anna")
			if err != nil || len(stopped) != 1 {
				t.Fatalf("Stop = %+v, %v", stopped, err)
			}
			if err := <-ran; err != nil {
				t.Fatal(err)
			}
			if p := progress(t, w, m.ID); p.Stage != test.want {
				t.Errorf("the message is %s, want %s", p.Stage, test.want)
			}
		})
	}
}

// TestStopNothing checks messages that have no turn, and the turn of a Runner that died.
func TestStopNothing(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t, "claude", "codex", "gemini")
	m := send(t, w, question("port"))[0]
	stop := func(agent schema.AgentName) error {
		_, err := track.Stop(t.Context(), w, string(m.ID), agent, "anna")
		return err
	}
	if e, ok := errors.AsType[*track.NoTurnError](stop("")); !ok || e.Reason != "it is waiting" {
		t.Errorf("without a turn: %+v", e)
	}
	if err := stop("gemini"); err == nil || !strings.Contains(err.Error(), "was not sent to gemini") {
		t.Errorf("for an agent that is no recipient: %v", err)
	}
	j, err := track.OpenJournal(w, "codex", time.Now)
	if err == nil {
		f := track.Started.Of(&newItem("file", m).Envelope)
		err = errors.Join(j.Append(f, true), j.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	if e, ok := errors.AsType[*track.NoTurnError](stop("codex")); !ok || !strings.Contains(e.Reason, "has died") {
		t.Errorf("after the death of the runner: %+v", e)
	}

	hold, err := track.LockInbox(t.Context(), w, "codex", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	defer hold.Release()
	if j, err = track.OpenJournal(w, "codex", time.Now); err == nil {
		f := track.Started.Of(&newItem("file", m).Envelope)
		f.In = "msg-20260313T1430Z-claude-k3x9"
		err = errors.Join(j.Append(f, true), j.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	if e, ok := errors.AsType[*track.NoTurnError](stop("codex")); !ok || !strings.Contains(e.Reason, "oacp stop k3x9 ends") {
		t.Errorf("a message that has joined another turn: %+v", e)
	}
}

// TestStopKeepsClaim checks that no other machine may begin a turn on a message whose turn was stopped.
func TestStopKeepsClaim(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	m := send(t, w, question("long"))[0]
	begun := make(chan struct{}, 1)
	claims := newScriptedClaims()
	r, rec := newRunner(t, w, Config{Claims: claims, NewDriver: plays(func(ctx context.Context, _ agent.Request) (agent.Result, error) {
		begun <- struct{}{}
		<-ctx.Done()
		return agent.Result{}, context.Cause(ctx)
	})})
	rec.on = func(e Event) {
		if e.Kind == EventHeld {
			r.Finish()
		}
	}
	ran := make(chan error, 1)
	go func() { ran <- r.Run(t.Context()) }()
	<-begun
	if _, err := track.Stop(t.Context(), w, string(m.ID), "", "anna"); err != nil {
		t.Error(err)
	}
	if err := <-ran; err != nil {
		t.Error(err)
	}
	claims.want(t, "take 1", "stop")
}
