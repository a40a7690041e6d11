package mailbox

import (
	"errors"
	"testing"

	"github.com/oacp-go/oacp/schema"
)

// TestPostmasterIsNoAgent checks that no agent can take the postmaster's name, and that only a
// program that sends notices can send under it.
func TestPostmasterIsNoAgent(t *testing.T) {
	if err := CheckNewAgent(Postmaster, nil); !errors.Is(err, ErrPostmaster) {
		t.Errorf("CheckNewAgent = %v, want ErrPostmaster", err)
	}
	w := newWorkspace(t, "claude")
	message := func(from, to schema.AgentName) schema.Message {
		return schema.Message{
			From: from, To: []schema.AgentName{to}, Type: schema.Notification, Subject: "s", Body: schema.TextValue("b"),
		}
	}
	refused := func() {
		t.Helper()
		for _, options := range []*SendOptions{nil, {Create: true}} {
			if _, err := w.Send(t.Context(), message(Postmaster, "claude"), options); !errors.Is(err, ErrPostmaster) {
				t.Errorf("Send from it with %+v = %v, want ErrPostmaster", options, err)
			}
		}
	}
	refused()
	if _, err := w.Send(t.Context(), message("claude", Postmaster), &SendOptions{Create: true}); !errors.Is(err, ErrPostmaster) {
		t.Errorf("Send to it = %v, want ErrPostmaster", err)
	}
	if w.Knows(Postmaster) {
		t.Error("it has a mailbox, want none")
	}
	if _, err := w.Send(t.Context(), message(Postmaster, "claude"), &SendOptions{Notices: true}); err != nil {
		t.Errorf("a notice: %v", err)
	}
	// Now it has a mailbox, but other programs still may not send from it.
	refused()
	if _, err := w.Send(t.Context(), message("claude", Postmaster), nil); !errors.Is(err, ErrPostmaster) {
		t.Errorf("an answer to a notice: %v, want ErrPostmaster: nobody would read it", err)
	}
}
