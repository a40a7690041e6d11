package project

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// testTime is the clock of the tests.
var testTime = time.Date(2026, 3, 13, 14, 30, 0, 0, time.UTC)

// newWorkspace makes a workspace with the agents in a temporary folder.
func newWorkspace(t testing.TB, agents ...schema.AgentName) *mailbox.Workspace {
	t.Helper()
	dir := t.TempDir()
	if _, err := Init(dir, InitOptions{Agents: agents, Now: testTime}); err != nil {
		t.Fatalf("making a workspace: %v", err)
	}
	return openWorkspace(t, dir)
}

func openWorkspace(t testing.TB, dir string) *mailbox.Workspace {
	t.Helper()
	w, err := mailbox.Open(dir, nil)
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

func readFile(t testing.TB, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func writeTestFile(t testing.TB, path, data string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(data), 0o644); err != nil {
		t.Fatal(err)
	}
}

// wantError fails the test unless the error's text holds all the words.
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

// contents returns the bytes of every file below the folder by its path, and the folders with a
// slash.
func contents(t testing.TB, dir string) map[string]string {
	t.Helper()
	found := make(map[string]string)
	err := filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		switch {
		case entry.IsDir():
			found[name+"/"] = ""
			return nil
		case entry.Type()&os.ModeSymlink != 0:
			found[name], err = os.Readlink(path)
			return err
		}
		data, err := os.ReadFile(path)
		found[name] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// wantContents fails the test if one of the files has changed or is missing.
func wantContents(t testing.TB, dir string, want map[string]string) {
	t.Helper()
	got := contents(t, dir)
	for name, data := range want {
		if there, ok := got[name]; !ok || there != data {
			t.Errorf("%s holds %q (is there: %t), want %q", name, there, ok, data)
		}
	}
}
