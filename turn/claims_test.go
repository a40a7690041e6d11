package turn

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oacp-go/oacp/agent"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/gitmail"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn/track"
)

// scriptedClaims are claims that do what a test says, and note what the Runner asks for.
type scriptedClaims struct {
	mu sync.Mutex
	// elsewhere are the machines that have messages, and attempts the numbers of turns if not 1.
	elsewhere map[schema.ID]string
	attempts  map[schema.ID]int
	// takeErr and startErr fail, and lost ends the claims when they are confirmed.
	takeErr, startErr error
	lost              bool
	changed           chan struct{}
	calls             []string
}

func newScriptedClaims() *scriptedClaims {
	return &scriptedClaims{elsewhere: make(map[schema.ID]string), attempts: make(map[schema.ID]int), changed: make(chan struct{}, 1)}
}

func (c *scriptedClaims) note(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls = append(c.calls, fmt.Sprintf(format, args...))
}

func (c *scriptedClaims) Start(context.Context, func(error)) error { return c.startErr }
func (c *scriptedClaims) Stop(context.Context) error {
	c.note("stop")
	return nil
}
func (c *scriptedClaims) Changed() <-chan struct{} { return c.changed }

func (c *scriptedClaims) Other(id schema.ID) (*gitmail.Claim, time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.elsewhere[id] == "" {
		return nil, time.Time{}
	}
	return &gitmail.Claim{Machine: c.elsewhere[id]}, time.Now().Add(time.Hour)
}

func (c *scriptedClaims) Take(ctx context.Context, wanted []gitmail.Wanted) (int, context.Context, error) {
	c.note("take %d", len(wanted))
	c.mu.Lock()
	defer c.mu.Unlock()
	attempt := max(1, c.attempts[wanted[0].ID], wanted[0].Attempts+1)
	return attempt, ctx, c.takeErr
}

func (c *scriptedClaims) Confirm(context.Context, schema.ID) error {
	c.note("confirm")
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lost {
		return gitmail.ErrClaimLost
	}
	return nil
}

func (c *scriptedClaims) Done(schema.ID)                 { c.note("done") }
func (c *scriptedClaims) Release(_ schema.ID, turns int) { c.note("release %d", turns) }

func (c *scriptedClaims) want(t *testing.T, calls ...string) {
	t.Helper()
	wantTexts(t, "calls", c.calls, calls...)
}

func TestClaimsOfATurn(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	send(t, w, question("q"))
	claims := newScriptedClaims()
	rec, err := runOnce(t, w, Config{Claims: claims, Reply: true})
	if err != nil {
		t.Error(err)
	}
	claims.want(t, "take 1", "confirm", "done", "stop")
	wantTexts(t, "answered", rec.of(EventAnswered), "q")
}

// TestClaimBatch checks that a run with Once claims the messages that are next ahead.
func TestClaimBatch(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	sent := send(t, w, question("1"), question("2"), question("3"), question("4"))
	claims := newScriptedClaims()
	claims.elsewhere[sent[1].ID] = "laptop"
	rec, err := runOnce(t, w, Config{Claims: claims})
	if err != nil {
		t.Error(err)
	}
	if got := claims.calls[0]; got != "take 3" {
		t.Errorf("the first call is %q, want the messages 1, 3 and 4", got)
	}
	wantTexts(t, "done", rec.of(EventSucceeded), "1", "3", "4")
	wantTexts(t, "elsewhere", rec.of(EventClaimedElsewhere), "2")
	if e := rec.last(EventClaimedElsewhere); e.Machine != "laptop" || e.Reason != "laptop has it" {
		t.Errorf("got %+v", e)
	}
}

// TestClaimChanges gives a message its turn when another machine has it no longer.
func TestClaimChanges(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	sent := send(t, w, question("q"))
	claims := newScriptedClaims()
	claims.elsewhere[sent[0].ID] = "laptop"
	r, rec := newRunner(t, w, Config{Claims: claims})
	rec.on = func(e Event) {
		switch e.Kind {
		case EventClaimedElsewhere:
			claims.mu.Lock()
			delete(claims.elsewhere, sent[0].ID)
			claims.mu.Unlock()
			claims.changed <- struct{}{}
		case EventAcknowledged:
			r.Finish()
		}
	}
	if err := r.Run(t.Context()); err != nil {
		t.Error(err)
	}
	wantTexts(t, "elsewhere", rec.of(EventClaimedElsewhere), "q")
	wantTexts(t, "done", rec.of(EventSucceeded), "q")
}

// TestLostClaim checks that a turn whose message another machine took over is not recorded as done or
// failed, that it does not count, and that nothing is answered.
func TestLostClaim(t *testing.T) {
	t.Parallel()
	for name, result := range map[string]error{"success": nil, "failure": errors.New("no")} {
		t.Run(name, func(t *testing.T) {
			w := newWorkspace(t)
			sent := send(t, w, question("q"))
			claims := newScriptedClaims()
			claims.lost = true
			r, rec := newRunner(t, w, Config{Claims: claims, Reply: true, MaxAttempts: 1})
			r.config.NewDriver = plays(func(context.Context, agent.Request) (agent.Result, error) {
				claims.mu.Lock()
				claims.elsewhere[sent[0].ID] = "laptop"
				claims.mu.Unlock()
				return agent.Result{Text: "ok"}, result
			})
			rec.on = func(e Event) {
				if e.Kind == EventClaimedElsewhere {
					r.Finish()
				}
			}
			if err := r.Run(t.Context()); err != nil {
				t.Error(err)
			}
			claims.want(t, "take 1", "confirm", "release 0", "stop")
			if got := rec.kinds(); got != "turn_started turn_interrupted claimed_elsewhere" {
				t.Errorf("events: %s", got)
			}
			if p := progress(t, w, sent[0].ID); p.Stage != track.StageWaiting || p.Attempts != 0 {
				t.Errorf("got %+v, want a message that waits", p)
			}
		})
	}
}

// TestTurnsElsewhereCount gives up a message whose turns on other machines never ended.
func TestTurnsElsewhereCount(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	sent := send(t, w, question("third"), question("fourth"))
	claims := newScriptedClaims()
	claims.attempts[sent[0].ID], claims.attempts[sent[1].ID] = 3, 4
	rec, err := runOnce(t, w, Config{Claims: claims, MaxAttempts: 3})
	if _, ok := errors.AsType[*DeadLettersError](err); !ok {
		t.Errorf("got %v, want a dead letter", err)
	}
	wantTexts(t, "done", rec.of(EventSucceeded), "third")
	if e := rec.last(EventStarted); e.Attempt != 3 {
		t.Errorf("the turn is number %d, want 3", e.Attempt)
	}
	if e := rec.last(EventDeadLetter); !strings.HasPrefix(e.Reason, "given up after 3 turns: the last one, on another machine or without its journal, never ended") {
		t.Errorf("given up because %q", e.Reason)
	}
}

// TestRemoteAway begins no turn while other machines cannot be asked.
func TestRemoteAway(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	send(t, w, question("q"))
	claims := newScriptedClaims()
	claims.takeErr = errors.New("no route to host")
	if _, err := runOnce(t, w, Config{Claims: claims}); !errors.Is(err, claims.takeErr) {
		t.Errorf("once: got %v, want %v", err, claims.takeErr)
	}
	claims.startErr = claims.takeErr
	r, rec := newRunner(t, w, Config{Claims: claims})
	rec.on = func(e Event) {
		switch e.Kind {
		case EventUnavailable:
			claims.mu.Lock()
			claims.takeErr = nil
			claims.mu.Unlock()
		case EventAcknowledged:
			r.Finish()
		}
	}
	if err := r.Run(t.Context()); err != nil {
		t.Error(err)
	}
	if got := rec.kinds(); got != "unavailable turn_started turn_succeeded acknowledged" {
		t.Errorf("events: %s", got)
	}
}

// TestHandledElsewhereAfterDeath forgets the answer of a Runner that died before it was sent, because
// another machine handled the message since.
func TestHandledElsewhereAfterDeath(t *testing.T) {
	t.Parallel()
	for name, outcome := range map[string]track.FactKind{"an answer": track.Succeeded, "a bounce": track.Dead} {
		t.Run(name, func(t *testing.T) {
			w := newWorkspace(t)
			send(t, w, question("q"))
			leaveUnsent(t, w, outcome, "")
			if err := w.Acknowledge(entries(t, w, "codex", mailbox.Inbox)[0]); err != nil { // a sync does it
				t.Fatal(err)
			}
			rec, err := runOnce(t, w, Config{Claims: newScriptedClaims(), Reply: true})
			if err != nil {
				t.Error(err)
			}
			if got := subjects(t, w, "claude", mailbox.Inbox); len(got) > 0 || rec.kinds() != "unsendable" {
				t.Errorf("claude has %q; events: %s", got, rec.kinds())
			}
		})
	}
}

// leaveUnsent leaves a message with an outcome whose answer or bounce was not sent.
func leaveUnsent(t *testing.T, w *mailbox.Workspace, outcome track.FactKind, reason string) {
	t.Helper()
	leave(t, w, func(rec *track.Record) []track.Fact {
		f := outcome.About(rec)
		f.Reason = reason
		f.Send = &schema.Message{
			ID: "msg-20260101T0000Z-codex-0123456789abcdef", CreatedAt: "2026-01-01T00:00:00Z", Priority: schema.P2,
			From: "codex", To: []schema.AgentName{"claude"}, Type: schema.Notification, Subject: "Re: q", Body: schema.TextValue("ok"), ParentID: rec.ID,
		}
		return []track.Fact{track.Started.About(rec), f}
	})
}

// TestBounceAfterDeath sends the bounce of a Runner that died after the message became a dead letter.
func TestBounceAfterDeath(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	send(t, w, question("q"))
	leaveUnsent(t, w, track.Dead, "it failed")
	if _, err := w.DeadLetter(entries(t, w, "codex", mailbox.Inbox)[0], mailbox.DeadLetterReason{Reason: "it failed"}); err != nil {
		t.Fatal(err)
	}
	if _, err := runOnce(t, w, Config{Claims: newScriptedClaims()}); err != nil {
		t.Error(err)
	}
	wantTexts(t, "bounces", subjects(t, w, "claude", mailbox.Inbox), "Re: q")
}
