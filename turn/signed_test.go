package turn

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/oacp-go/oacp/agent"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/trust"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/signing"
)

// signedWorkspace returns a workspace in which claude signs what it sends on request, and its key.
func signedWorkspace(t *testing.T) (*mailbox.Workspace, signing.PublicStub) {
	t.Helper()
	home := t.TempDir()
	stored, err := signing.NewStore(home).Generate("claude", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(stored.StubPath())
	if err != nil {
		t.Fatal(err)
	}
	stub, err := signing.ParsePublicStub(data)
	if err != nil {
		t.Fatal(err)
	}
	dir := newWorkspace(t).Dir()
	options := trust.Options(func(*mailbox.Workspace) (string, error) { return home, nil })
	options.NoSync = true
	w, err := mailbox.Open(dir, &options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	return w, stub
}

func sendSigned(t *testing.T, w *mailbox.Workspace, draft schema.Message) *mailbox.Receipt {
	t.Helper()
	receipt, err := w.Send(t.Context(), draft, &mailbox.SendOptions{Sign: true})
	if err != nil {
		t.Fatal(err)
	}
	return receipt
}

// TestRequireSigned checks that only messages with a verified signature get turns, and that the
// others wait with the reason.
func TestRequireSigned(t *testing.T) {
	w, stub := signedWorkspace(t)
	if _, err := trust.Import(t.Context(), w, stub, "codex"); err != nil {
		t.Fatal(err)
	}
	send(t, w, question("unsigned"))
	sendSigned(t, w, question("signed"))
	changed := sendSigned(t, w, question("changed"))
	data, err := os.ReadFile(changed.Inboxes[0])
	if err == nil {
		err = os.WriteFile(changed.Inboxes[0], []byte(strings.Replace(string(data), "the body", "The body", 1)), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	rec, err := runOnce(t, w, Config{RequireSigned: true})
	if err != nil {
		t.Fatal(err)
	}
	wantTexts(t, "turns", rec.of(EventSucceeded), "signed")
	wantTexts(t, "inbox", subjects(t, w, "codex", mailbox.Inbox), "unsigned", "changed")
	if p := progress(t, w, changed.Message.ID); p.Stage != StageHeld || !strings.Contains(p.Reason, "changed after it was signed") {
		t.Errorf("got %+v, want held with the reason", p)
	}
	if _, err := trust.Revoke(t.Context(), w, stub.KeyID, "codex"); err != nil {
		t.Fatal(err)
	}
	sendSigned(t, w, question("revoked"))
	if rec, _ = runOnce(t, w, Config{RequireSigned: true}); len(rec.of(EventSucceeded)) > 0 || !strings.Contains(rec.last(EventHeld).Reason, "revoked") {
		t.Errorf("a message signed with a revoked key: %s", rec.kinds())
	}
}

// TestHeldUntilTheKeyIsTrusted checks that a Runner at work takes up held messages when the agent
// comes to trust their key.
func TestHeldUntilTheKeyIsTrusted(t *testing.T) {
	w, stub := signedWorkspace(t)
	sendSigned(t, w, question("signed"))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	rec := &recorder{on: func(e Event) {
		switch e.Kind {
		case EventHeld:
			if _, err := trust.Import(ctx, w, stub, "codex"); err != nil {
				t.Error(err)
			}
		case EventAcknowledged:
			cancel()
		}
	}}
	r, _ := newRunner(t, w, Config{RequireSigned: true, Observe: rec.observe})
	if err := r.Run(ctx); err != nil {
		t.Fatal(err)
	}
	wantTexts(t, "turns", rec.of(EventSucceeded), "signed")
}

// TestAnswersAreSigned checks that a runner signs its answers if the agent signs what it sends.
func TestAnswersAreSigned(t *testing.T) {
	w, _ := signedWorkspace(t)
	config := filepath.Join(w.Dir(), "agents", "claude", "config.yaml")
	if err := os.WriteFile(config, []byte("signing: {sign_messages: true}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	draft := question("question")
	draft.From, draft.To = "codex", []schema.AgentName{"claude"}
	send(t, w, draft)
	ask := func(context.Context, agent.Request) (agent.Result, error) { return agent.Result{Text: "42"}, nil }
	if _, err := runOnce(t, w, Config{Agent: "claude", Reply: true, NewDriver: plays(ask)}); err != nil {
		t.Fatal(err)
	}
	entries, err := w.List(t.Context(), "codex", mailbox.Inbox)
	if err != nil || len(entries) != 1 || entries[0].Message.Auth == "" {
		t.Errorf("the answer is %+v, %v; want it signed", entries, err)
	}
}
