package turn

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oacp-go/oacp/agent"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/trust"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/signing"
	"github.com/oacp-go/oacp/turn/track"
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
	options := trust.Options(func() (string, error) { return home, nil })
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

// enforce makes an agent read only verified messages.
func enforce(t *testing.T, w *mailbox.Workspace, agent schema.AgentName) {
	t.Helper()
	config := filepath.Join(w.Dir(), "agents", string(agent), "config.yaml")
	if err := os.WriteFile(config, []byte("signing: {verify_mode: enforce}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestEnforce checks that files that are not verified get no turns and no bounces, and that they stay.
func TestEnforce(t *testing.T) {
	t.Parallel()
	w, stub := signedWorkspace(t)
	if _, err := trust.Import(t.Context(), w, stub, "codex"); err != nil {
		t.Fatal(err)
	}
	enforce(t, w, "codex")
	plain := send(t, w, question("unsigned"))
	sendSigned(t, w, question("signed"))
	bad := filepath.Join(w.BoxPath("codex", mailbox.Inbox), "bad.yaml")
	if err := os.WriteFile(bad, []byte("subject: [bad"), 0o644); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		rec, err := runOnce(t, w, Config{})
		if err != nil {
			t.Fatal(err)
		}
		if held := rec.of(EventHeld); len(held) != 2 || rec.last(EventHeld).Subject != "" || !strings.Contains(rec.last(EventHeld).Reason, "it is not signed") {
			t.Errorf("held are %v; the last one is %+v", held, rec.last(EventHeld))
		}
	}
	if rec, _ := runOnce(t, w, Config{}); len(rec.of(EventSucceeded))+len(rec.of(EventDeadLetter))+len(rec.of(EventBounced)) > 0 {
		t.Errorf("a message that is not verified: %s", rec.kinds())
	}
	if names, err := os.ReadDir(w.BoxPath("codex", mailbox.Inbox)); err != nil || len(messageFiles(names)) != 2 {
		t.Errorf("the inbox has %v, %v; want both files", names, err)
	}
	if p := progress(t, w, plain[0].ID); p.Stage != track.StageHeld || !strings.Contains(p.Reason, "it is not signed") {
		t.Errorf("got %+v, want held with the reason", p)
	}
	if status, err := track.Status(t.Context(), w, "codex"); err != nil || status[0].Held != 2 || status[0].Invalid+status[0].Pending+status[0].DeadLetters != 0 {
		t.Errorf("got %+v, %v, want two held", status, err)
	}
}

// TestRevokedDuringItsTurn checks that a message whose key is revoked while it has its turn is acknowledged, and
// that another one that waits meanwhile is held.
func TestRevokedDuringItsTurn(t *testing.T) {
	t.Parallel()
	w, stub := signedWorkspace(t)
	if _, err := trust.Import(t.Context(), w, stub, "codex"); err != nil {
		t.Fatal(err)
	}
	enforce(t, w, "codex")
	sendSigned(t, w, question("first"))
	second := sendSigned(t, w, question("second"))
	revoke := func(context.Context, agent.Request) (agent.Result, error) {
		_, err := trust.Revoke(context.Background(), w, stub.KeyID, "codex")
		return agent.Result{}, err
	}
	rec, err := runOnce(t, w, Config{NewDriver: plays(revoke)})
	if err != nil {
		t.Fatal(err)
	}
	wantTexts(t, "turns", rec.of(EventSucceeded), "first")
	if names, err := os.ReadDir(w.BoxPath("codex", mailbox.Inbox)); err != nil || len(messageFiles(names)) != 1 {
		t.Errorf("the inbox has %v, %v; want the second message", names, err)
	}
	if p := progress(t, w, second.Message.ID); p.Stage != track.StageHeld || !strings.Contains(p.Reason, "revoked") {
		t.Errorf("got %+v, want held with the reason", p)
	}
}

func messageFiles(entries []os.DirEntry) []os.DirEntry {
	return slices.DeleteFunc(slices.Clone(entries), func(e os.DirEntry) bool { return !schema.IsMessageFile(e.Name()) })
}

// TestHeldUntilTheKeyIsTrusted checks that a Runner at work takes up held messages when the agent
// comes to trust their key.
func TestHeldUntilTheKeyIsTrusted(t *testing.T) {
	t.Parallel()
	w, stub := signedWorkspace(t)
	enforce(t, w, "codex")
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
	r, _ := newRunner(t, w, Config{Observe: rec.observe})
	if err := r.Run(ctx); err != nil {
		t.Fatal(err)
	}
	wantTexts(t, "turns", rec.of(EventSucceeded), "signed")
}

// TestAnswersAreSigned checks that a runner signs its answers if the agent signs what it sends.
func TestAnswersAreSigned(t *testing.T) {
	t.Parallel()
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

// TestNoticesAreSigned checks that an agent that signs sends the notice of a bound itself, so that it can be verified.
func TestNoticesAreSigned(t *testing.T) {
	t.Parallel()
	w, stub := signedWorkspace(t)
	if _, err := trust.Import(t.Context(), w, stub, "codex"); err != nil {
		t.Fatal(err)
	}
	enforce(t, w, "claude")
	enforce(t, w, "codex")
	c := &closer{workspace: w, config: &Config{Agent: "claude"}, now: time.Now}
	notice := c.boundNotice(&track.Envelope{From: "codex", Conversation: "conv-20260313-codex-000001"}, "too many turns", "Wait.")
	if notice.From != "claude" || len(notice.To) != 1 || !notice.IsFor("codex") || !notice.IsNotice() {
		t.Fatalf("the notice is %+v", notice)
	}
	if err := w.Seal(notice, false); err != nil {
		t.Fatal(err)
	}
	if _, err := c.send(notice); err != nil {
		t.Fatal(err)
	}
	if inbox, err := w.Inbox(t.Context(), "codex"); err != nil || len(inbox) != 1 || inbox[0].Err != nil || inbox[0].Message.Auth == "" {
		t.Errorf("the inbox of codex is %+v, %v", inbox, err)
	}
}
