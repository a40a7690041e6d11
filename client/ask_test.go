package client_test

import (
	"testing"

	"github.com/oacp-go/oacp/client"
	"github.com/oacp-go/oacp/internal/testing/mailboxtest"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// TestAsk sends a question and gets the copy of the answer in the inbox of the sender, who acknowledges it.
func TestAsk(t *testing.T) {
	w := mailboxtest.New(t, "claude", "codex")
	failed := make(chan error)
	go func() {
		r, err := newClient(t, w, "codex").Next(t.Context(), client.Filter{})
		if err == nil {
			a := r.Draft()
			a.Body, a.Acknowledge = schema.TextValue("8080"), true
			_, err = r.Answer(t.Context(), a)
		}
		failed <- err
	}()
	draft := mailboxtest.Draft("codex")
	draft.Type = schema.Question
	got, err := newClient(t, w, "claude").Ask(t.Context(), client.Draft{Message: draft})
	if answerErr := <-failed; err != nil || answerErr != nil {
		t.Fatal(err, answerErr)
	}
	if got.Message.BodyText() != "8080" || got.Entry.Agent != "claude" || got.Entry.Box != mailbox.Inbox {
		t.Errorf("got %q in the %s of %s", got.Message.BodyText(), got.Entry.Box, got.Entry.Agent)
	}
	if err := got.Shown(); err != nil {
		t.Error(err)
	}
	if done, err := got.Acknowledge(t.Context()); err != nil || done.Already {
		t.Errorf("acknowledged: %+v, %v", done, err)
	}
	if left := mailboxtest.Files(t, w, schema.BoxPath("claude", mailbox.Inbox)); len(left) > 0 {
		t.Errorf("the inbox has %q", left)
	}
}
