package watch

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// newWorkspace makes a workspace with the agents in a temporary folder.
func newWorkspace(t testing.TB, agents ...schema.AgentName) *mailbox.Workspace {
	t.Helper()
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "agents"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, agent := range agents {
		for _, box := range []mailbox.Box{mailbox.Inbox, mailbox.Outbox} {
			if err := os.MkdirAll(filepath.Join(dir, mailbox.BoxName(agent, box)), 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}
	return openWorkspace(t, dir)
}

func openWorkspace(t testing.TB, dir string) *mailbox.Workspace {
	t.Helper()
	w, err := mailbox.Open(dir, &mailbox.Options{NoSync: true})
	if err != nil {
		t.Fatalf("opening the workspace: %v", err)
	}
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Errorf("closing the workspace: %v", err)
		}
	})
	return w
}

// draft returns a valid message from claude.
func draft(to ...schema.AgentName) schema.Message {
	return schema.Message{
		From: "claude", To: to, Type: schema.TaskRequest,
		Subject: "Implement rate limiting", Body: schema.TextValue("Token bucket, 100 requests a minute.\n"),
	}
}

// send sends the draft and fails the test if it is not accepted.
func send(t testing.TB, w *mailbox.Workspace, m schema.Message) *mailbox.Receipt {
	t.Helper()
	r, err := w.Send(t.Context(), m, nil)
	if err != nil {
		t.Fatalf("sending: %v", err)
	}
	return r
}

// sentName is the name of the file in the first inbox.
func sentName(r *mailbox.Receipt) string { return filepath.Base(r.Inboxes[0]) }

// wantFiles fails the test unless a folder below the workspace has exactly these entries.
func wantFiles(t testing.TB, w *mailbox.Workspace, folder string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(w.Dir(), folder))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	var got []string
	for _, entry := range entries {
		got = append(got, entry.Name())
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s holds %q, want %q", folder, got, want)
	}
}

func readFile(t testing.TB, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func writeFile(t testing.TB, path, data string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(data), 0o644)); err != nil {
		t.Fatal(err)
	}
}

// addFile adds a whole file to a folder, as a sender does.
func addFile(t testing.TB, folder, name, data string) {
	t.Helper()
	dir, err := durable.OpenPath(folder)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(durable.AddFile(durable.Disk{}, dir, name, []byte(data)), dir.Close()); err != nil {
		t.Fatal(err)
	}
}

// wantError fails the test unless the error's text has all the words.
func wantError(t testing.TB, err error, words ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one with %q", words)
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("error %q does not say %q", err, word)
		}
	}
}

// crashAfterCommit kills a delivery to codex right after the message counts as sent: the inbox copy
// is still staged.
func crashAfterCommit(t *testing.T, w *mailbox.Workspace) *mailbox.Receipt {
	t.Helper()
	r := send(t, w, draft("codex"))
	staged := filepath.Join(w.Dir(), "state", "outgoing", string(r.Message.ID)+"@codex@inbox")
	if err := os.Rename(r.Inboxes[0], staged); err != nil {
		t.Fatal(err)
	}
	return r
}
