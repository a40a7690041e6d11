package doctor

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/schema"
)

// testTime is the clock of the tests.
var testTime = time.Date(2026, 3, 13, 14, 30, 0, 0, time.UTC)

// newWorkspace makes a workspace with the agents in a temporary folder.
func newWorkspace(t testing.TB, agents ...schema.AgentName) *mailbox.Workspace {
	t.Helper()
	dir := t.TempDir()
	if _, err := project.Init(dir, project.InitOptions{Agents: agents, Now: testTime}); err != nil {
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

// files returns the names of a folder's entries below the workspace, sorted and without hidden
// placeholders. A missing folder has none.
func files(t testing.TB, w *mailbox.Workspace, folder string) []string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(w.Dir(), folder))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	var names []string
	for _, entry := range entries {
		if entry.Name() != ".gitkeep" && entry.Name() != ".synced" {
			names = append(names, entry.Name())
		}
	}
	slices.Sort(names)
	return names
}

// place encodes a message and puts it into a box under a name, as another tool would.
func place(t testing.TB, w *mailbox.Workspace, agent schema.AgentName, box mailbox.Box, name string, m schema.Message) {
	t.Helper()
	data, err := schema.Encode(&m)
	if err != nil {
		t.Fatal(err)
	}
	writeTestFile(t, filepath.Join(w.BoxPath(agent, box), name), string(data))
}

// message returns a message from claude to codex. Its id ends in rand, and it was created at the
// given second of testTime's minute.
func message(rand string, second int) schema.Message {
	m := draft("codex")
	m.ID = schema.ID("msg-20260313T1430Z-claude-" + rand)
	m.Priority = schema.P2
	m.CreatedAt = schema.Timestamp(fmt.Sprintf("2026-03-13T14:30:%02dZ", second))
	return m
}

// unpublish moves copies of a sent message back to state/outgoing, as a killed delivery leaves
// them.
func unpublish(t testing.TB, w *mailbox.Workspace, id schema.ID, agent schema.AgentName, box mailbox.Box, path string) {
	t.Helper()
	staged := filepath.Join(w.Dir(), outgoingName, string(id)+"@"+string(agent)+"@"+string(box))
	if err := os.Rename(path, staged); err != nil {
		t.Fatal(err)
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
