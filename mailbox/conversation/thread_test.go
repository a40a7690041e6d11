package conversation

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/oacp-go/oacp/internal/testing/mailboxtest"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

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
		{"a circle", exchange{{"aaaa", 0, "bbbb", ""}, {"bbbb", 0, "aaaa", ""}}, "bbbb", []string{"aaaa", "bbbb"}},
		{"its own parent", exchange{{"aaaa", 0, "aaaa", ""}}, "aaaa", []string{"aaaa"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := mailboxtest.NewBare(t, "claude", "codex", "gemini")
			for i, row := range test.messages {
				m := mailboxtest.Message(row.rand, row.second)
				m.ConversationID = row.conversation
				if row.parent != "" {
					m.ParentID = mailboxtest.Message(row.parent, 0).ID
				}
				name := fmt.Sprintf("%d.yaml", i)
				mailboxtest.Place(t, w, "codex", mailbox.Inbox, name, m)
				mailboxtest.Place(t, w, "gemini", mailbox.Archive, name, m)
				mailboxtest.Place(t, w, "claude", mailbox.Outbox, name, m)
			}
			thread, err := Thread(t.Context(), w, string(mailboxtest.Message(test.start, 0).ID))
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
	w := mailboxtest.NewBare(t, "claude", "codex", "gemini")
	first, second := mailboxtest.Message("aaaa", 0), mailboxtest.Message("bbbb", 1)
	second.ParentID = first.ID
	mailboxtest.Place(t, w, "codex", mailbox.Inbox, "a.yaml", first)
	mailboxtest.Place(t, w, "codex", mailbox.Inbox, "b.yaml", second)
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
