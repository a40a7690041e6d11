package turn

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/oacp-go/oacp/agent"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/conversation"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn/track"
)

func statusFor(t *testing.T, w *mailbox.Workspace, name schema.AgentName) track.AgentStatus {
	t.Helper()
	all, err := track.Status(t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range all {
		if s.Agent == name {
			return s
		}
	}
	t.Fatalf("no status of %s in %+v", name, all)
	return track.AgentStatus{}
}

func TestStatus(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	if s := statusFor(t, w, "codex"); s.Running || s.Pending != 0 || s.Last != nil {
		t.Errorf("status of an agent that never ran: %+v, want nothing", s)
	}
	expired := question("expired")
	expired.CreatedAt, expired.ExpiresAt = "2020-01-01T00:00:00Z", "2020-01-02T00:00:00Z"
	// One conversation, so that the second message follows once the first is a dead letter.
	bad, never := question("bad"), question("never tried")
	bad.Priority, bad.ConversationID, never.ConversationID = schema.P0, "conv-20260101-claude-1", "conv-20260101-claude-1"
	send(t, w, expired, bad, never)
	inTurn := make(chan track.AgentStatus, 1)
	attempts := 0
	_, err := runOnce(t, w, Config{MaxAttempts: 2, NewDriver: plays(func(_ context.Context, request agent.Request) (agent.Result, error) {
		if variable(request, "OACP_MESSAGE_SUBJECT") == "never tried" {
			return agent.Result{}, agent.ErrUnavailable
		}
		if attempts++; attempts == 2 {
			inTurn <- statusFor(t, w, "codex")
			if p := progress(t, w, schema.ID(variable(request, "OACP_MESSAGE_ID"))); p.Stage != track.StageWorking || p.Attempts != 2 {
				t.Errorf("progress %+v, want in its second turn", p)
			}
		}
		return agent.Result{}, errors.New("exit status 3")
	})})
	if !errors.Is(err, agent.ErrUnavailable) {
		t.Errorf("Run = %v, want ErrUnavailable", err)
	}
	s := <-inTurn
	if !s.Running || s.Runner == nil || s.Runner.PID != os.Getpid() || len(s.InTurn) != 1 || s.InTurn[0].Subject != "bad" || s.InTurn[0].Attempt != 2 {
		t.Errorf("status in a turn %+v, want this process in the second turn on bad", s)
	}
	copyOf(t, w, []byte("{{{"), "garbage.yaml")
	s = statusFor(t, w, "codex")
	if s.Running || len(s.InTurn) != 0 || s.Pending != 1 || s.Expired != 1 || s.Invalid != 1 || s.DeadLetters != 1 || s.Oldest.IsZero() {
		t.Errorf("status afterwards %+v, want one pending, expired, invalid and dead each, and no runner", s)
	}
	if s.Last == nil || s.Last.Subject != "bad" || s.Last.Succeeded || s.Failures != 2 || !strings.Contains(s.Last.Reason, "3") {
		t.Errorf("last turn %+v after %d failures, want bad, failed twice", s.Last, s.Failures)
	}
	if _, err := track.Status(t.Context(), w, "nobody"); err == nil {
		t.Error("no error for an unknown agent")
	}
}

func TestTrackWhatNoRunnerSaw(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t, "claude", "codex", "gemini")
	m := question("q")
	m.To = []schema.AgentName{"codex", "gemini"}
	sent := send(t, w, m)[0]
	if err := w.Acknowledge(entries(t, w, "codex", mailbox.Inbox)[0]); err != nil {
		t.Fatal(err)
	}
	stages := func() string {
		all, err := track.Track(t.Context(), w, string(sent.ID))
		if err != nil {
			t.Fatal(err)
		}
		var text []string
		for _, p := range all {
			text = append(text, string(p.Agent)+" "+string(p.Stage))
		}
		return strings.Join(text, ", ")
	}
	if got, want := stages(), "codex done, gemini waiting"; got != want {
		t.Errorf("stages %s, want %s", got, want)
	}
	answer := conversation.Reply(sent, "codex", schema.Notification)
	answer.Body = schema.TextValue("by hand")
	send(t, w, answer)
	// A killed delivery leaves this file behind.
	inbox := entries(t, w, "gemini", mailbox.Inbox)[0]
	if err := os.Rename(inbox.Path, filepath.Join(w.Dir(), "state", "outgoing", string(sent.ID)+"@gemini@inbox")); err != nil {
		t.Fatal(err)
	}
	if got, want := stages(), "codex answered, gemini stored"; got != want {
		t.Errorf("stages %s, want %s", got, want)
	}
	if _, err := track.Track(t.Context(), w, "msg-20200101T0000Z-claude-none"); err == nil {
		t.Error("no error for an unknown id")
	}
}

// TestRunningIsNotClaimedOfTheDead checks that a turn whose Runner was killed does not show as
// running.
func TestRunningIsNotClaimedOfTheDead(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	send(t, w, question("q"))
	rec := leave(t, w, func(rec *track.Record) []track.Fact { return []track.Fact{track.Started.About(rec)} })
	hold, err := track.LockInbox(t.Context(), w, "codex", time.Now()) // a killed Runner leaves the same files
	if err == nil {
		err = hold.Release()
	}
	if err != nil {
		t.Fatal(err)
	}
	if p := progress(t, w, rec.ID); p.Stage != track.StageWaiting || p.Attempts != 1 {
		t.Errorf("progress %+v, want waiting after one attempt", p)
	}
	if s := statusFor(t, w, "codex"); s.Running || len(s.InTurn) != 0 || s.Pending != 1 {
		t.Errorf("status %+v, want no runner and one pending", s)
	}
}

// TestDeadTurnIsNotTakenForOurs checks the same while the next Runner tests whether the agent can
// start.
func TestDeadTurnIsNotTakenForOurs(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	send(t, w, question("q"))
	rec := leave(t, w, func(rec *track.Record) []track.Fact { return []track.Fact{track.Started.About(rec)} })
	looked := false
	_, err := runOnce(t, w, Config{NewDriver: func(schema.ConversationID, string) agent.Driver {
		return &puppet{start: func() error {
			looked = true
			if p := progress(t, w, rec.ID); p.Stage != track.StageWaiting {
				t.Errorf("progress %+v, want waiting", p)
			}
			if s := statusFor(t, w, "codex"); !s.Running || len(s.InTurn) != 0 {
				t.Errorf("status %+v, want a runner and nothing in a turn", s)
			}
			return nil
		}}
	}})
	if err != nil || !looked {
		t.Errorf("Run = %v, looked %t", err, looked)
	}
}

// TestDoneByHandAfterAFailure acknowledges a message whose turn failed. Its progress must not give
// the failure as the reason.
func TestDoneByHandAfterAFailure(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	send(t, w, question("q"))
	rec := leave(t, w, func(rec *track.Record) []track.Fact {
		f := track.Failed.About(rec)
		f.Reason, f.RetryAt = "the command ended with exit status 1", time.Now().Add(time.Hour)
		return []track.Fact{track.Started.About(rec), f}
	})
	if p := progress(t, w, rec.ID); p.Stage != track.StageWaiting || p.Reason == "" {
		t.Errorf("progress %+v, want waiting, with the reason", p)
	}
	if err := w.Acknowledge(entries(t, w, "codex", mailbox.Inbox)[0]); err != nil {
		t.Fatal(err)
	}
	if p := progress(t, w, rec.ID); p.Stage != track.StageDone || p.Reason != "" {
		t.Errorf("progress %+v, want done, without a reason", p)
	}
}
