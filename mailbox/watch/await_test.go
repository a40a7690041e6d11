package watch

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/oacp-go/oacp/internal/testing/check"
	"github.com/oacp-go/oacp/internal/testing/mailboxtest"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/conversation"
	"github.com/oacp-go/oacp/schema"
)

// dealings are the ways to take a message out of an inbox.
var dealings = []struct {
	name string
	deal func(w *mailbox.Workspace, e mailbox.Entry) error
}{
	{"acknowledge", (*mailbox.Workspace).Acknowledge},
	{"delete", (*mailbox.Workspace).Remove},
	{"bury", func(w *mailbox.Workspace, e mailbox.Entry) error {
		_, err := w.DeadLetter(e, mailbox.DeadLetterReason{Reason: "the command failed"})
		return err
	}},
}

// TestNumberedDeadLetterIsOne waits for a message that becomes a dead letter under another name, because an older one has its
// name, and for one that another tool moved there without a reason.
func TestNumberedDeadLetterIsOne(t *testing.T) {
	t.Parallel()
	for _, byOther := range []bool{false, true} {
		w := mailboxtest.NewBare(t, "claude", "codex")
		r := mailboxtest.Send(t, w, mailboxtest.Draft("codex"))
		name := filepath.Base(r.Inboxes[0])
		other := mailboxtest.Message("zzzz", 0)
		mailboxtest.Place(t, w, "codex", mailbox.DeadLetters, name, other)
		e := mailbox.Entry{Agent: "codex", Box: mailbox.Inbox, Name: name, Message: r.Message}
		var err error
		if byOther {
			err = os.Rename(r.Inboxes[0], filepath.Join(w.BoxPath("codex", mailbox.DeadLetters), "moved.yaml"))
		} else {
			_, err = w.DeadLetter(e, mailbox.DeadLetterReason{Reason: "the command failed"})
		}
		if err != nil {
			t.Fatal(err)
		}
		var dead *DeadLetterError
		if err := AwaitAcknowledged(t.Context(), w, r); !errors.As(err, &dead) || dead.Reason.ID != r.Message.ID {
			t.Errorf("waiting gave %v, want a DeadLetterError of the message", err)
		}
	}
}

// awaiting waits while something happens, and returns what the wait returns.
func awaiting(t *testing.T, happen func() error, wait func() error) error {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- wait() }()
	if err := happen(); err != nil {
		t.Fatal(err)
	}
	return <-done
}

func TestAwaitAcknowledged(t *testing.T) {
	t.Parallel()
	for _, dealing := range dealings {
		t.Run(dealing.name, func(t *testing.T) {
			w := mailboxtest.NewBare(t, "claude", "codex", "gemini")
			r := mailboxtest.Send(t, w, mailboxtest.Draft("codex", "gemini"))
			err := awaiting(t, func() error {
				var errs []error
				for _, agent := range r.Message.To {
					entries, err := w.Inbox(t.Context(), agent)
					errs = append(errs, err)
					for _, e := range entries {
						errs = append(errs, dealing.deal(w, e))
					}
				}
				return errors.Join(errs...)
			}, func() error { return AwaitAcknowledged(t.Context(), w, r) })
			var dead *DeadLetterError
			if dealing.name == "bury" {
				if !errors.As(err, &dead) || dead.Reason.ID != r.Message.ID {
					t.Fatalf("waiting gave %v, want a DeadLetterError of the message", err)
				}
				check.Error(t, err, string(dead.Agent), string(r.Message.ID), "the command failed")
			} else if err != nil {
				t.Errorf("waiting gave %v, want nil", err)
			}
		})
	}
}

// TestAwaitLooksBeforeItWaits checks that Await does not miss earlier changes.
func TestAwaitLooksBeforeItWaits(t *testing.T) {
	t.Parallel()
	w := mailboxtest.NewBare(t, "claude", "codex")
	r := mailboxtest.Send(t, w, mailboxtest.Draft("codex"))
	if err := os.Remove(r.Inboxes[0]); err != nil {
		t.Fatal(err)
	}
	if err := AwaitAcknowledged(t.Context(), w, r); err != nil {
		t.Errorf("waiting for an earlier change gave %v", err)
	}
}

func TestAwaitEndsWithItsContext(t *testing.T) {
	t.Parallel()
	w := mailboxtest.NewBare(t, "claude", "codex", "gemini")
	r := mailboxtest.Send(t, w, mailboxtest.Draft("codex", "gemini"))
	if err := os.Remove(r.Inboxes[0]); err != nil {
		t.Fatal(err)
	}
	for name, wait := range map[string]func(context.Context) error{
		"acknowledged by one of two": func(ctx context.Context) error { return AwaitAcknowledged(ctx, w, r) },
		"a reply": func(ctx context.Context) error {
			_, err := AwaitReply(ctx, w, r, none)
			return err
		},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		if err := awaiting(t, func() error { cancel(); return nil }, func() error { return wait(ctx) }); !errors.Is(err, context.Canceled) {
			t.Errorf("waiting for %s gave %v, want context.Canceled", name, err)
		}
	}
}

// TestAwaitIsWokenByEvents changes the folder only after the first look.
func TestAwaitIsWokenByEvents(t *testing.T) {
	t.Parallel()
	w := mailboxtest.NewBare(t, "claude")
	inbox := w.BoxPath("claude", mailbox.Inbox)
	looks := 0
	err := Await(t.Context(), []string{inbox, filepath.Join(w.Dir(), "missing")}, func() (bool, error) {
		if looks++; looks == 1 {
			return false, os.WriteFile(filepath.Join(inbox, "new"), nil, 0o644)
		}
		_, err := os.Stat(filepath.Join(inbox, "new"))
		return err == nil, err
	})
	if err != nil || looks < 2 {
		t.Errorf("waiting gave %v after %d looks, want nil after two", err, looks)
	}
	failure := errors.New("no")
	if err := Await(t.Context(), nil, func() (bool, error) { return false, failure }); !errors.Is(err, failure) {
		t.Errorf("a look that fails gave %v, want its error", err)
	}
}

func TestAwaitReply(t *testing.T) {
	t.Parallel()
	w := mailboxtest.NewBare(t, "claude", "codex", "gemini")
	// Before: an answer to something else, and a bad file.
	put(t, w, "claude", "20260313T1430Z_gemini_question.yaml", "something else")
	check.WriteFile(t, filepath.Join(w.BoxPath("claude", mailbox.Inbox), "bad.yaml"), "id: [")
	r := mailboxtest.Send(t, w, mailboxtest.Draft("codex", "gemini"))
	answer := conversation.Reply(r.Message, "codex")
	answer.Body = schema.TextValue("Done.")
	var got Arrival
	err := awaiting(t, func() error {
		_, err := w.Send(t.Context(), answer, nil)
		return err
	}, func() (err error) {
		got, err = AwaitReply(t.Context(), w, r, none)
		return err
	})
	if err != nil || got.Message == nil || got.Message.ParentID != r.Message.ID || got.Message.From != "codex" {
		t.Errorf("waiting gave %+v, %v; want the answer", got, err)
	}

	// The sender's own runner is quicker: only the copy of the answering agent remains.
	entries, err := w.Inbox(t.Context(), "claude")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if err := w.Acknowledge(e); err != nil {
			t.Fatal(err)
		}
	}
	if got, err = AwaitReply(t.Context(), w, r, none); err != nil || got.Box != mailbox.Outbox || got.Agent != "codex" {
		t.Errorf("waiting gave %+v, %v; want the copy in the outbox of codex", got, err)
	}
}

func TestAwaitReplyFromADeadLetter(t *testing.T) {
	t.Parallel()
	w := mailboxtest.NewBare(t, "claude", "codex")
	r := mailboxtest.Send(t, w, mailboxtest.Draft("codex"))
	err := awaiting(t, func() error {
		entries, err := w.Inbox(t.Context(), "codex")
		if err != nil || len(entries) != 1 {
			return errors.Join(err, errors.New("the message is not in the inbox"))
		}
		_, err = w.DeadLetter(entries[0], mailbox.DeadLetterReason{Reason: "exit status 1", Attempts: 3})
		return err
	}, func() error {
		_, err := AwaitReply(t.Context(), w, r, none)
		return err
	})
	var dead *DeadLetterError
	if !errors.As(err, &dead) || dead.Agent != "codex" || dead.Reason.Attempts != 3 {
		t.Errorf("waiting gave %v, want the dead letter of codex", err)
	}
}

// TestAwaitReplyFromANotice checks that the notice of a dead letter, which is on another machine, is no
// answer.
func TestAwaitReplyFromANotice(t *testing.T) {
	t.Parallel()
	w := mailboxtest.NewBare(t, "claude", "codex")
	r := mailboxtest.Send(t, w, mailboxtest.Draft("codex"))
	notice := conversation.Reply(r.Message, "codex")
	notice.Type, notice.Channel, notice.Body = schema.Notification, schema.ChannelBounce, schema.TextValue("Given up.")
	if _, err := w.Send(t.Context(), notice, nil); err != nil {
		t.Fatal(err)
	}
	_, err := AwaitReply(t.Context(), w, r, none)
	var dead *DeadLetterError
	if !errors.As(err, &dead) || dead.Agent != "codex" || dead.Reason.ID != r.Message.ID {
		t.Errorf("waiting gave %v, want the dead letter of codex", err)
	}
}

// none says that no other mail ends the wait for an answer.
func none(*schema.Message) bool { return false }
