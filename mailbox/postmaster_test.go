package mailbox

import (
	"errors"
	"testing"
	"time"

	"github.com/oacp-go/oacp/schema"
)

// TestPostmasterIsNoAgent: nobody gets the name of the postmaster, and nobody
// sends in it but a program that sends notices.
func TestPostmasterIsNoAgent(t *testing.T) {
	if _, err := Init(t.TempDir(), InitOptions{Agents: []schema.AgentName{"claude", Postmaster}, Now: time.Now()}); !errors.Is(err, ErrPostmaster) {
		t.Errorf("Init = %v, want ErrPostmaster", err)
	}
	dir := t.TempDir()
	if _, err := Init(dir, InitOptions{Agents: []schema.AgentName{"claude"}, Now: time.Now()}); err != nil {
		t.Fatal(err)
	}
	w, err := Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	if _, err := w.AddAgent(Postmaster, "", time.Now()); !errors.Is(err, ErrPostmaster) {
		t.Errorf("AddAgent = %v, want ErrPostmaster", err)
	}
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
	// Its mailbox gives nobody else the right to send.
	refused()
	if _, err := w.Send(t.Context(), message("claude", Postmaster), &SendOptions{Create: true}); err != nil {
		t.Errorf("an answer to a notice: %v", err)
	}
}
