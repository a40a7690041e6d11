package mailbox_test

import (
	"errors"
	"os"
	"slices"
	"testing"

	"github.com/oacp-go/oacp/internal/testing/mailboxtest"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// TestSendParts checks that the messages to many agents share a conversation, and that a failure in the middle says
// exactly who has a message.
func TestSendParts(t *testing.T) {
	t.Parallel()
	w := mailboxtest.New(t, "a", "b", "c", "d")
	draft := schema.Message{From: "a", Type: schema.Notification, Subject: "x", Body: schema.TextValue("y")}
	parts := [][]schema.AgentName{{"b"}, {"c"}, {"d"}}
	receipts, err := w.SendParts(t.Context(), draft, parts, nil)
	if err != nil || len(receipts) != 3 || receipts[2].Message.ConversationID != receipts[0].Message.ConversationID {
		t.Fatalf("%d receipts, %v; want 3 messages of one conversation", len(receipts), err)
	}
	if err := os.RemoveAll(w.Dir() + "/agents/c"); err != nil {
		t.Fatal(err)
	}
	receipts, err = w.SendParts(t.Context(), draft, parts, nil)
	partly, ok := errors.AsType[*mailbox.PartsError](err)
	if !ok || len(receipts) != 1 || !slices.Equal(partly.Sent, parts[0]) || !slices.Equal(partly.NotSent, []schema.AgentName{"c", "d"}) {
		t.Errorf("%d receipts, %v; want a message to b, none to c and d", len(receipts), err)
	}
	for agent, want := range map[schema.AgentName]int{"b": 2, "d": 1} {
		if there, err := w.List(t.Context(), agent, mailbox.Inbox); err != nil || len(there) != want {
			t.Errorf("%s has %d messages (%v), want %d", agent, len(there), err, want)
		}
	}
	if receipts, err = w.SendParts(t.Context(), draft, parts[1:], nil); len(receipts) > 0 || errors.As(err, &partly) || err == nil {
		t.Errorf("%d receipts, %v; want the error of the first, because nobody has a message", len(receipts), err)
	}
}
