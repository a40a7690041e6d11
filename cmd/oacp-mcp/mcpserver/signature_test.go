package mcpserver_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/trust"
	"github.com/oacp-go/oacp/signing"
)

// TestSignatures checks that the tools sign as the agent's settings say, and say what signatures are
// worth.
func TestSignatures(t *testing.T) {
	r := newRoom(t, "claude", "codex")
	dir := r.workspace.Dir()
	options := trust.Options(func() (string, error) { return r.dir, nil })
	options.NoSync = true
	w, err := mailbox.Open(dir, &options)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close() // after the servers, which have nothing left to write
	r.workspace = w
	stored, err := signing.NewStore(r.dir).Generate("claude", time.Now())
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
	if _, err := trust.Import(t.Context(), w, stub, "codex"); err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(dir, "agents", "claude", "config.yaml")
	if err := os.WriteFile(config, []byte("signing: {sign_messages: true}\n"), 0o644); err != nil {
		t.Fatal(err)
	}

	claude, codex := r.client(t, "claude"), r.client(t, "codex")
	var sent sentMessage
	claude.call(t, "send_message", arguments{"to": "codex", "type": "question", "subject": "Which port?", "body": "Of the server."}, &sent)
	type worth struct {
		Signature string
		Reason    string `json:"signature_reason"`
	}
	look := func(want, reason string) {
		t.Helper()
		var list struct{ Messages []worth }
		codex.call(t, "list_inbox", nil, &list)
		if len(list.Messages) != 1 || list.Messages[0].Signature != want || !strings.Contains(list.Messages[0].Reason, reason) {
			t.Errorf("listed %+v, want %s", list, want)
		}
		var read worth
		text := codex.call(t, "read_message", arguments{"message_id": sent.MessageID}, &read)
		if read.Signature != want || !strings.Contains(read.Reason, reason) || strings.Contains(text, `"auth"`) {
			t.Errorf("read %+v, want %s:\n%s", read, want, text)
		}
	}
	look("verified", "")
	path := r.file(t, sent.MessageID, mailbox.Inbox)
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	changed := []byte(strings.Replace(string(file), "server", "printer", 1))

	// A changed copy elsewhere is not what the agent reads.
	elsewhere := filepath.Join(dir, "agents", "claude", "inbox", filepath.Base(path))
	if err := os.WriteFile(elsewhere, changed, 0o644); err != nil {
		t.Fatal(err)
	}
	look("verified", "")
	wantText(t, "the message", codex.call(t, "read_message", arguments{"message_id": sent.MessageID}, nil), "Of the server.")

	if err := os.WriteFile(path, changed, 0o644); err != nil {
		t.Fatal(err)
	}
	look("bad", "changed after it was signed")

	if err := os.WriteFile(config, []byte("signing: {sign_messages: 1}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	text := claude.refuse(t, "send_message", arguments{"to": "codex", "type": "question", "subject": "S", "body": "B"})
	wantText(t, "the refusal", text, "signing.sign_messages")
}
