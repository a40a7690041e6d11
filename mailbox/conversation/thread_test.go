package conversation

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// newWorkspace makes a workspace with the agents in a temporary folder.
func newWorkspace(t testing.TB, agents ...schema.AgentName) *mailbox.Workspace {
	t.Helper()
	dir := t.TempDir()
	for _, agent := range agents {
		for _, box := range []mailbox.Box{mailbox.Inbox, mailbox.Outbox} {
			if err := os.MkdirAll(filepath.Join(dir, mailbox.BoxName(agent, box)), 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}
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

// message returns a message from claude to codex. Its id ends in rand, and it was created at the
// given second of one minute.
func message(rand string, second int) schema.Message {
	m := draft("codex")
	m.ID = schema.ID("msg-20260313T1430Z-claude-" + rand)
	m.Priority = schema.P2
	m.CreatedAt = schema.Timestamp(fmt.Sprintf("2026-03-13T14:30:%02dZ", second))
	return m
}

// place encodes a message and puts it into a box under a name, as another tool would.
func place(t testing.TB, w *mailbox.Workspace, agent schema.AgentName, box mailbox.Box, name string, m schema.Message) {
	t.Helper()
	data, err := schema.Encode(&m)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(w.BoxPath(agent, box), name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, data, 0o644)); err != nil {
		t.Fatal(err)
	}
}

// exchange is a conversation as rows of: rand, second, parent's rand, conversation.
type exchange []struct {
	rand         string
	second       int
	parent       string
	conversation schema.ConversationID
}

func TestThread(t *testing.T) {
	const own, other = "conv-20260313-claude-1", "conv-20260313-codex-2"
	tests := []struct {
		name     string
		messages exchange
		start    string
		want     []string
	}{
		{"alone", exchange{{"aaaa", 0, "", ""}, {"bbbb", 0, "", ""}}, "aaaa", []string{"aaaa"}},
		{"by conversation", exchange{{"aaaa", 2, "", own}, {"bbbb", 1, "", own}, {"cccc", 0, "", other}}, "aaaa", []string{"bbbb", "aaaa"}},
		{"by parent, from the end", exchange{{"aaaa", 0, "", ""}, {"bbbb", 1, "aaaa", ""}, {"cccc", 2, "bbbb", ""}}, "cccc", []string{"aaaa", "bbbb", "cccc"}},
		{"by parent, from the start", exchange{{"aaaa", 0, "", ""}, {"bbbb", 1, "aaaa", ""}, {"cccc", 2, "bbbb", ""}}, "aaaa", []string{"aaaa", "bbbb", "cccc"}},
		{"siblings of a missing parent", exchange{{"bbbb", 1, "gone", ""}, {"cccc", 0, "gone", ""}}, "bbbb", []string{"cccc", "bbbb"}},
		{"parent of one of a conversation", exchange{{"aaaa", 0, "", ""}, {"bbbb", 1, "aaaa", own}, {"cccc", 2, "", own}}, "cccc", []string{"aaaa", "bbbb", "cccc"}},
		{"all in one second", exchange{{"cccc", 0, "", ""}, {"bbbb", 0, "cccc", ""}, {"aaaa", 0, "bbbb", ""}}, "aaaa", []string{"cccc", "bbbb", "aaaa"}},
		{"a fork in one second", exchange{{"dddd", 0, "", ""}, {"bbbb", 0, "dddd", ""}, {"aaaa", 0, "dddd", ""}, {"cccc", 0, "bbbb", ""}}, "cccc", []string{"dddd", "aaaa", "bbbb", "cccc"}},
		{"an answer from a clock that is behind", exchange{{"aaaa", 10, "", own}, {"bbbb", 5, "aaaa", own}, {"cccc", 7, "", own}}, "aaaa", []string{"cccc", "aaaa", "bbbb"}},
		{"a circle", exchange{{"aaaa", 0, "bbbb", ""}, {"bbbb", 0, "aaaa", ""}}, "bbbb", []string{"bbbb", "aaaa"}},
		{"its own parent", exchange{{"aaaa", 0, "aaaa", ""}}, "aaaa", []string{"aaaa"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := newWorkspace(t, "claude", "codex", "gemini")
			for i, row := range test.messages {
				m := message(row.rand, row.second)
				m.ConversationID = row.conversation
				if row.parent != "" {
					m.ParentID = message(row.parent, 0).ID
				}
				name := fmt.Sprintf("%d.yaml", i)
				place(t, w, "codex", mailbox.Inbox, name, m)
				place(t, w, "gemini", mailbox.Archive, name, m)
				place(t, w, "claude", mailbox.Outbox, name, m)
			}
			thread, err := Thread(t.Context(), w, string(message(test.start, 0).ID))
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, e := range thread {
				id := string(e.Message.ID)
				got = append(got, id[len(id)-4:])
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("the thread is %v, want %v", got, test.want)
			}
		})
	}
}

// TestThreadBesideUnreadableFolders checks that a broken mailbox does not hide the messages in the
// others.
func TestThreadBesideUnreadableFolders(t *testing.T) {
	w := newWorkspace(t, "claude", "codex", "gemini")
	first, second := message("aaaa", 0), message("bbbb", 1)
	second.ParentID = first.ID
	place(t, w, "codex", mailbox.Inbox, "a.yaml", first)
	place(t, w, "codex", mailbox.Inbox, "b.yaml", second)
	for _, folder := range []string{w.BoxPath("gemini", mailbox.Inbox), w.BoxPath("codex", mailbox.Outbox)} {
		if err := errors.Join(os.RemoveAll(folder), os.WriteFile(folder, []byte("no folder"), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	thread, err := Thread(t.Context(), w, string(first.ID))
	var unreadable *mailbox.UnreadableError
	if len(thread) != 2 || thread[1].Message.ID != second.ID || !errors.As(err, &unreadable) {
		t.Errorf("the thread is %v (%v), want both messages and an UnreadableError", thread, err)
	}
	for _, folder := range []string{"gemini/inbox", "codex/outbox"} {
		if err != nil && !strings.Contains(filepath.ToSlash(err.Error()), folder) {
			t.Errorf("the error %q does not name %s", err, folder)
		}
	}
}
