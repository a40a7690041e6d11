package turn

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oacp-go/oacp/agent"
	"github.com/oacp-go/oacp/mailbox"
)

func TestInvalidFiles(t *testing.T) {
	w := newWorkspace(t)
	old := time.Now().Add(-2 * invalidAfter)
	invalid := map[string]string{
		"garbage.yaml":      "{{{",
		"with-sender.yaml":  "id: msg-20260101T0000Z-claude-abcd\nfrom: claude\nto: codex\ntype: nonsense\npriority: P2\ncreated_at_utc: 2026-01-01T00:00:00Z\nsubject: s\nbody: b\n",
		"being-written.yml": "not even looked at",
	}
	for name, text := range invalid {
		copyOf(t, w, []byte(text), name)
		if err := os.Chtimes(filepath.Join(w.BoxPath("codex", mailbox.Inbox), name), old, old); err != nil {
			t.Fatal(err)
		}
	}
	copyOf(t, w, []byte("id: msg-2026"), "young.yaml")
	rec, err := runOnce(t, w, Config{})
	var given *DeadLettersError
	if !errors.As(err, &given) || len(given.Messages) != 2 {
		t.Errorf("Run = %v, want two dead letters", err)
	}
	var invalidFiles *InvalidFilesError
	if !errors.As(err, &invalidFiles) || !slices.Equal(invalidFiles.Files, []string{"young.yaml"}) {
		t.Errorf("Run = %v, want that young.yaml is no message", err)
	}
	wantTexts(t, "problems", rec.of(EventProblem), "young.yaml")
	names := make(map[string]bool)
	letters, err := w.List(t.Context(), "codex", mailbox.DeadLetters)
	if err != nil {
		t.Fatal(err)
	}
	for _, letter := range letters {
		names[letter.Name] = true
		if reason, err := w.Reason(letter); err != nil || !strings.Contains(reason.Reason, "no valid message") {
			t.Errorf("reason of %s: %+v, %v, want that it is no message", letter.Name, reason, err)
		}
	}
	if len(names) != 2 || !names["garbage.yaml"] || !names["with-sender.yaml"] {
		t.Errorf("dead letters %v, want the two old files", names)
	}
	bounces := entries(t, w, "claude", mailbox.Inbox)
	if len(bounces) != 1 || bounces[0].Message.Channel != ChannelBounce {
		t.Errorf("%d messages to the sender that one file names, want a bounce: %s", len(bounces), rec.kinds())
	}
	if _, err := os.Lstat(filepath.Join(w.BoxPath("codex", mailbox.Inbox), "young.yaml")); err != nil {
		t.Errorf("the young file: %v, want it to stay", err)
	}
}

// TestUnreadableFiles: a run with Once does not end well beside files that it
// could not read.
func TestUnreadableFiles(t *testing.T) {
	w := newWorkspace(t)
	inbox := w.BoxPath("codex", mailbox.Inbox)
	for _, err := range []error{
		os.Mkdir(filepath.Join(inbox, "folder.yaml"), 0o700),
		os.Symlink(filepath.Join(t.TempDir(), "elsewhere"), filepath.Join(inbox, "link.yaml")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	_, err := runOnce(t, w, Config{})
	var unread *UnreadableFilesError
	if !errors.As(err, &unread) || !slices.Equal(unread.Files, []string{"folder.yaml", "link.yaml"}) {
		t.Errorf("Run = %v, want that both could not be read", err)
	}
}

// TestInvalidFileThatWasRemoved: what is gone in the end is nobody's fault.
func TestInvalidFileThatWasRemoved(t *testing.T) {
	w := newWorkspace(t)
	copyOf(t, w, []byte("id: msg-2026"), "young.yaml")
	send(t, w, question("q"))
	rec, err := runOnce(t, w, Config{NewDriver: plays(func(context.Context, agent.Request) (agent.Result, error) {
		return agent.Result{}, os.Remove(filepath.Join(w.BoxPath("codex", mailbox.Inbox), "young.yaml"))
	})})
	if err != nil {
		t.Errorf("Run = %v with %s, want no error", err, rec.kinds())
	}
}
