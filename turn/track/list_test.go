package track

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oacp-go/oacp/internal/testing/mailboxtest"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// newListed makes a workspace whose agents have what the paths below agents say: each file is a
// message from claude with the last part of its id, to the agents that are named after it.
func newListed(t *testing.T, files map[string]string) *mailbox.Workspace {
	t.Helper()
	dir := t.TempDir()
	write := func(path, text string) {
		path = filepath.Join(dir, "agents", path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	for path, message := range files {
		rand, to, _ := strings.Cut(message, " ")
		write(path, fmt.Sprintf("id: msg-20260313T14%sZ-claude-%s\nfrom: claude\nto: [%s]\ntype: question\npriority: P2\n"+
			"created_at_utc: 2026-03-13T14:%s:00Z\nsubject: Which %s?\nbody: x\n", rand[:2], rand, to, rand[:2], rand))
	}
	for _, agent := range []string{"claude", "codex", "gemini", "ann"} {
		write(agent+"/inbox/.gitkeep", "")
	}
	return mailboxtest.Open(t, dir)
}

// messages returns what is found, a line for each message.
func messages(t *testing.T, w *mailbox.Workspace, q Query) (lines []string) {
	t.Helper()
	found, err := List(t.Context(), w, q)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range found {
		line := m.Message.ID.Short()
		for _, r := range m.Recipients {
			line += fmt.Sprintf(" %s:%s", r.Agent, r.Stage)
		}
		lines = append(lines, line)
	}
	return lines
}

func TestList(t *testing.T) {
	w := newListed(t, map[string]string{
		"claude/outbox/20260313T1430Z_claude_question.yaml":        "30aa codex, gemini, ann",
		"codex/inbox/20260313T1430Z_claude_question.yaml":          "30aa codex, gemini, ann",
		"gemini/inbox/archive/20260313T1430Z_claude_question.yaml": "30aa codex, gemini, ann",
		"claude/outbox/20260313T1431Z_claude_question.yaml":        "31bb codex",
		"codex/dead_letter/20260313T1431Z_claude_question.yaml":    "31bb codex",
		"codex/inbox/archive/20260313T1429Z_claude_question.yaml":  "29cc codex, gemini",
		"claude/outbox/20260313T1432Z_claude_question.yaml":        "32dd ann",
	})
	staged := filepath.Join(w.Dir(), "state/outgoing")
	if err := w.MakeStateFolder("state/outgoing"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(staged, "msg-20260313T1432Z-claude-32dd@ann@inbox"), []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	all := []string{
		"29cc codex:done gemini:unknown", "30aa codex:waiting gemini:done ann:done", "31bb codex:dead", "32dd ann:stored",
	}
	at := func(minute int) time.Time { return time.Date(2026, 3, 13, 14, minute, 0, 0, time.UTC) }
	for _, test := range []struct {
		name  string
		query Query
		want  []string
	}{
		{"all", Query{}, all},
		{"the newest", Query{Limit: 2}, all[2:]},
		{"since", Query{Since: at(31)}, all[2:]},
		{"since a second later", Query{Since: at(31).Add(time.Second)}, all[3:]},
		{"to", Query{To: "gemini"}, all[:2]},
		{"from", Query{From: "codex"}, nil},
		{"of an agent", Query{Agent: "ann"}, []string{all[1], all[3]}},
		{"with a subject", Query{Subject: "WHICH 31"}, all[2:3]},
		{"of a type", Query{Type: schema.TaskRequest}, nil},
		{"in inboxes", Query{Box: mailbox.Inbox}, []string{"30aa codex:waiting"}},
		{"in the archive of codex", Query{Box: mailbox.Archive, Agent: "codex"}, []string{"29cc codex:done"}},
		{"dead", Query{Box: mailbox.DeadLetters}, []string{"31bb codex:dead"}},
		{"in outboxes", Query{Box: mailbox.Outbox, Since: at(31)}, []string{"31bb codex:dead", "32dd ann:stored"}},
	} {
		if got := messages(t, w, test.query); !slices.Equal(got, test.want) {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}

// TestSinceOpensNoOldFiles checks that a query with a time skips a file whose name is older, even if the message in it
// is not.
func TestSinceOpensNoOldFiles(t *testing.T) {
	w := newListed(t, map[string]string{"codex/inbox/20260313T1430Z_claude_question.yaml": "59aa codex"})
	if got := messages(t, w, Query{Since: time.Date(2026, 3, 13, 14, 45, 0, 0, time.UTC)}); len(got) > 0 {
		t.Errorf("%q is found, though the name of the file is older", got)
	}
	if got := messages(t, w, Query{}); len(got) != 1 {
		t.Errorf("%q is found, want the message", got)
	}
}

// TestFilesThatAreNoMessages checks that a query with a box finds them by their names.
func TestFilesThatAreNoMessages(t *testing.T) {
	w := newListed(t, map[string]string{"codex/dead_letter/a.yaml": "30aa codex"})
	if err := os.WriteFile(filepath.Join(w.BoxPath("codex", mailbox.DeadLetters), "notes.yaml"), []byte("nothing"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		query Query
		want  []string
	}{
		{Query{}, []string{"30aa codex:dead"}},
		{Query{Box: mailbox.DeadLetters}, []string{" codex:dead", "30aa codex:dead"}},
		{Query{Box: mailbox.DeadLetters, Subject: "notes"}, []string{" codex:dead"}},
		{Query{Box: mailbox.DeadLetters, From: "claude"}, []string{"30aa codex:dead"}},
	} {
		if got := messages(t, w, test.query); !slices.Equal(got, test.want) {
			t.Errorf("%+v: %q, want %q", test.query, got, test.want)
		}
	}
}

// TestListsMessagesWithOneID checks that messages with one id are two if they say different things.
func TestListsMessagesWithOneID(t *testing.T) {
	w := newListed(t, map[string]string{
		"codex/inbox/a.yaml":  "30aa codex",
		"gemini/inbox/b.yaml": "30aa codex",
	})
	path := filepath.Join(w.BoxPath("gemini", mailbox.Inbox), "b.yaml")
	data, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(path, []byte(strings.Replace(string(data), "Which", "Another", 1)), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	if got := messages(t, w, Query{}); len(got) != 2 {
		t.Errorf("%q are found, want two messages", got)
	}
}
