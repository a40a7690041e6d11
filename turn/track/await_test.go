package track

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/oacp-go/oacp/internal/testing/check"
	"github.com/oacp-go/oacp/internal/testing/mailboxtest"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/conversation"
	"github.com/oacp-go/oacp/schema"
)

// An awaited message is from claude to codex.
type awaited struct {
	t *testing.T
	w *mailbox.Workspace
	m *schema.Message
}

func (a *awaited) check(err error) {
	a.t.Helper()
	if err != nil {
		a.t.Fatal(err)
	}
}

func (a *awaited) pending() mailbox.Entry {
	e, err := a.w.Pending(a.t.Context(), string(a.m.ID), "codex")
	a.check(err)
	return e
}

func (a *awaited) notice() {
	a.check(NoteNoticed(a.w, "codex", []Key{KeyOf(a.m)}, Noticed{}))
}

func (a *awaited) acknowledge() { a.check(a.w.Acknowledge(a.pending())) }

func (a *awaited) reply(change func(*schema.Message)) {
	m := conversation.Reply(a.m, "codex", schema.Notification)
	m.Body = schema.TextValue("Done.")
	if change != nil {
		change(&m)
	}
	mailboxtest.Send(a.t, a.w, m)
}

func (a *awaited) remove() { a.check(mailbox.RemoveAgent(a.t.Context(), a.w, "codex")) }

func (a *awaited) bury(reason mailbox.DeadLetterReason) {
	_, err := a.w.DeadLetter(a.pending(), reason)
	a.check(err)
}

// expire makes the message one that has expired, as if the time had come.
func (a *awaited) expire() {
	a.m.ExpiresAt = "2026-03-13T15:00:00Z"
	for agent, box := range map[schema.AgentName]mailbox.Box{"claude": mailbox.Outbox, "codex": mailbox.Inbox} {
		for _, name := range mailboxtest.Files(a.t, a.w, schema.BoxPath(agent, box)) {
			a.check(os.Remove(filepath.Join(a.w.BoxPath(agent, box), filepath.Base(name))))
		}
		mailboxtest.Place(a.t, a.w, agent, box, a.m.FileName(), *a.m)
	}
}

// The outcomes of a wait, besides the stages that end one.
const (
	goesOn  = "goes on"
	reached = "reached"
)

// TestWaits checks what each goal makes of all that may happen to a message.
func TestWaits(t *testing.T) {
	for _, test := range []struct {
		name                    string
		happen                  func(*awaited)
		noticed, handled, reply string
	}{
		{"nothing", func(*awaited) {}, goesOn, goesOn, goesOn},
		{"noticed", (*awaited).notice, reached, goesOn, goesOn},
		{"a turn failed", func(a *awaited) {
			key := Envelope{Key: KeyOf(a.m), From: "claude"}
			a.check(appendFacts(a.w, "codex", Fact{Kind: Started, Envelope: key}, Fact{Kind: Failed, Envelope: key}))
		}, reached, goesOn, goesOn},
		{"held", func(a *awaited) {
			a.check(appendFacts(a.w, "codex", Fact{Kind: Held, Envelope: Envelope{Key: KeyOf(a.m)}, Reason: "a person decides"}))
		}, goesOn, goesOn, goesOn},
		{"expired", (*awaited).expire, "expired", "expired", "expired"},
		{"expired, noticed before", func(a *awaited) { a.expire(); a.notice() }, reached, goesOn, goesOn},
		{"acknowledged", (*awaited).acknowledge, reached, reached, goesOn},
		{"deleted by another tool", func(a *awaited) { a.check(a.w.Remove(a.pending())) }, reached, reached, goesOn},
		{"asked back", func(a *awaited) { a.reply(func(m *schema.Message) { m.Type = schema.Question }) }, reached, goesOn, reached},
		{"answered", func(a *awaited) { a.reply(nil) }, reached, goesOn, reached},
		{"answered and acknowledged", func(a *awaited) { a.reply(nil); a.acknowledge() }, reached, reached, reached},
		{"declined", func(a *awaited) { a.reply((*schema.Message).Decline) }, reached, goesOn, "declined"},
		{"declined and acknowledged", func(a *awaited) { a.reply((*schema.Message).Decline); a.acknowledge() }, reached, reached, "declined"},
		{"declined, then answered", func(a *awaited) { a.reply((*schema.Message).Decline); a.reply(nil) }, reached, goesOn, reached},
		{"given up", func(a *awaited) { a.bury(mailbox.DeadLetterReason{Reason: "exit status 1", Attempts: 3}) }, "dead", "dead", "dead"},
		{"moved to the dead letters by another tool", func(a *awaited) {
			a.check(os.Rename(a.pending().Path, filepath.Join(a.w.BoxPath("codex", mailbox.DeadLetters), "moved.yaml")))
		}, "dead", "dead", "dead"},
		{"given up beside a dead letter of its name", func(a *awaited) {
			mailboxtest.Place(a.t, a.w, "codex", mailbox.DeadLetters, a.pending().Name, mailboxtest.Message("zzzz", 0))
			a.bury(mailbox.DeadLetterReason{Reason: "exit status 1"})
		}, "dead", "dead", "dead"},
		{"given up on another machine", func(a *awaited) {
			a.reply(func(m *schema.Message) { m.Type, m.Channel = schema.Notification, schema.ChannelBounce })
		}, "dead", "dead", "dead"},
		{"recalled", func(a *awaited) { a.check(mailbox.Recall(a.t.Context(), a.w, a.m, "codex")) }, "recalled", "recalled", "recalled"},
		{"the agent was removed", (*awaited).remove, "agent_removed", "agent_removed", "agent_removed"},
		{"acknowledged, then the agent was removed", func(a *awaited) { a.acknowledge(); a.remove() }, reached, reached, goesOn},
		{"recalled, then the agent was removed", func(a *awaited) {
			a.check(mailbox.Recall(a.t.Context(), a.w, a.m, "codex"))
			a.remove()
		}, "recalled", "recalled", "recalled"},
		{"answered, then the agent was removed", func(a *awaited) { a.reply(nil); a.acknowledge(); a.remove() }, reached, reached, reached},
		{"the box is away", func(a *awaited) {
			a.check(os.Rename(a.w.BoxPath("codex", mailbox.Inbox), filepath.Join(a.w.Dir(), "away")))
		}, goesOn, goesOn, goesOn},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := newWorkspace(t)
			test.happen(&awaited{t, w, send(t, w, question("one"))[0]})
			sent, err := w.List(t.Context(), "claude", mailbox.Outbox)
			if err != nil || len(sent) != 1 {
				t.Fatalf("%d sent messages (%v)", len(sent), err)
			}
			for goal, want := range map[Goal]string{GoalNoticed: test.noticed, GoalAcknowledged: test.handled, GoalReply: test.reply} {
				if got := outcome(t, w, sent[0].Message, goal); got != want {
					t.Errorf("waiting for %s: %s, want %s", goal, got, want)
				}
			}
		})
	}
}

// outcome returns what a wait makes of how far a message is now.
func outcome(t *testing.T, w *mailbox.Workspace, m *schema.Message, goal Goal) string {
	t.Helper()
	a, err := newAwaiting(w, m, goal, none)
	if err != nil {
		t.Fatal(err)
	}
	defer a.after.Close()
	isReached, err := a.look(t.Context())
	over, isOver := errors.AsType[*NothingComesError](err)
	switch {
	case isOver:
		return string(over.Stage)
	case err != nil:
		t.Fatal(err)
	case isReached:
		return reached
	}
	return goesOn
}

// none says that no other mail ends the wait for an answer.
func none(*schema.Message) bool { return false }

// TestWaitForSeveral checks that a wait for all recipients ends with the first that fails, and one for a reply with the last.
func TestWaitForSeveral(t *testing.T) {
	w := newWorkspace(t, "claude", "codex", "gemini")
	draft := question("one")
	draft.To = []schema.AgentName{"codex", "gemini"}
	m := send(t, w, draft)[0]
	want := func(what string, acknowledged, reply string) {
		t.Helper()
		for goal, want := range map[Goal]string{GoalAcknowledged: acknowledged, GoalReply: reply} {
			if got := outcome(t, w, m, goal); got != want {
				t.Errorf("%s, waiting for %s: %s, want %s", what, goal, got, want)
			}
		}
	}
	a := &awaited{t, w, m}
	a.acknowledge()
	want("handled by one", goesOn, goesOn)
	if err := mailbox.RemoveAgent(t.Context(), w, "gemini"); err != nil {
		t.Fatal(err)
	}
	want("one is removed", "agent_removed", goesOn)
	if _, err := Restore(t.Context(), w, string(m.ID), "codex"); err != nil {
		t.Fatal(err)
	}
	a.bury(mailbox.DeadLetterReason{Reason: "exit status 1"})
	want("the other one gave it up", "dead", "dead")
}

// TestAwaitDelivery checks that the wait for a reply does not end with the copy in the outbox, which is there before the one in
// the sender's inbox.
func TestAwaitDelivery(t *testing.T) {
	w := newWorkspace(t)
	a := &awaited{t, w, send(t, w, question("one"))[0]}
	a.reply(nil)
	files := mailboxtest.Files(t, w, schema.BoxPath("claude", mailbox.Inbox))
	sent, err := w.List(t.Context(), "codex", mailbox.Outbox)
	if err != nil || len(sent) != 1 || len(files) != 1 {
		t.Fatalf("%d answers in %d files (%v)", len(sent), len(files), err)
	}
	inbox := filepath.Join(w.BoxPath("claude", mailbox.Inbox), filepath.Base(files[0]))
	staged := filepath.Join(w.Dir(), "state", "outgoing", string(sent[0].Message.ID)+"@claude@inbox")
	a.check(os.MkdirAll(filepath.Dir(staged), 0o755))
	a.check(os.Rename(inbox, staged))
	if got := outcome(t, w, a.m, GoalReply); got != goesOn {
		t.Errorf("before the delivery: %s, want %s", got, goesOn)
	}
	a.check(os.Rename(staged, inbox))
	arrived, err := Await(t.Context(), w, a.m, GoalReply, none)
	if err != nil || arrived.Box != mailbox.Inbox || arrived.Agent != "claude" {
		t.Errorf("waiting gave %+v, %v; want the copy in the inbox of claude", arrived, err)
	}
}

// TestAwait waits while something happens.
func TestAwait(t *testing.T) {
	w := newWorkspace(t, "claude", "codex", "gemini")
	// Before: an answer to something else, and a bad file.
	mailboxtest.Place(t, w, "claude", mailbox.Inbox, "20260313T1430Z_gemini_question.yaml", mailboxtest.Message("zzzz", 0))
	check.WriteFile(t, filepath.Join(w.BoxPath("claude", mailbox.Inbox), "bad.yaml"), "id: [")
	for _, goal := range []Goal{GoalNoticed, GoalAcknowledged, GoalReply} {
		m := send(t, w, question(string(goal)))[0]
		a := &awaited{t, w, m}
		type result struct {
			arrived Arrival
			err     error
		}
		done := make(chan result)
		go func() {
			arrived, err := Await(t.Context(), w, m, goal, none)
			done <- result{arrived, err}
		}()
		switch goal {
		case GoalNoticed:
			a.notice()
		case GoalAcknowledged:
			a.acknowledge()
		case GoalReply:
			a.reply(nil)
		}
		r := <-done
		if r.err != nil || goal == GoalReply && (r.arrived.Message == nil || r.arrived.Message.ParentID != m.ID || !r.arrived.Answers) {
			t.Errorf("waiting for %s gave %+v, %v", goal, r.arrived, r.err)
		}
		// The sender's own runner is quicker: its copy is in the archive. A tool that leaves none: the copy of the answering agent
		// remains.
		if goal == GoalReply {
			entries, err := w.Inbox(t.Context(), "claude")
			a.check(err)
			for _, e := range slices.DeleteFunc(entries, func(e mailbox.Entry) bool { return e.Err != nil }) {
				a.check(w.Acknowledge(e))
			}
			arrived, err := Await(t.Context(), w, m, goal, none)
			if err != nil || arrived.Box != mailbox.Archive || arrived.Agent != "claude" {
				t.Errorf("waiting gave %+v, %v; want the archived copy of claude", arrived, err)
			}
			a.check(os.Remove(arrived.Path))
			arrived, err = Await(t.Context(), w, m, goal, none)
			if err != nil || arrived.Box != mailbox.Outbox || arrived.Agent != "codex" {
				t.Errorf("waiting gave %+v, %v; want the copy in the outbox of codex", arrived, err)
			}
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := Await(ctx, w, send(t, w, question("last"))[0], GoalReply, none); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("waiting gave %v, want the end of the context", err)
	}
}
