package turn

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oacp-go/oacp/agent"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/watch"
	"github.com/oacp-go/oacp/schema"
)

func TestInvalidFiles(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	for name, text := range map[string]string{
		"garbage.yaml":      "{{{",
		"with-sender.yaml":  "id: msg-20260101T0000Z-claude-abcd\nfrom: claude\nto: codex\ntype: nonsense\npriority: P2\ncreated_at_utc: 2026-01-01T00:00:00Z\nsubject: s\nbody: b\n",
		"another-name.yml":  "not even read",
		"unfinished.yaml":   "id: msg-2026",
		".hidden-file.yaml": "id",
	} {
		copyOf(t, w, []byte(text), name)
	}
	begin := time.Now()
	rec, err := runOnce(t, w, Config{})
	var given *DeadLettersError
	if !errors.As(err, &given) || len(given.Messages) != 3 {
		t.Errorf("Run = %v, want three dead letters", err)
	}
	if took := time.Since(begin); took < watch.Quiet/2 {
		t.Errorf("the files became dead letters within %v, want them to be quiet first", took)
	}
	var names []string
	letters, err := w.List(t.Context(), "codex", mailbox.DeadLetters)
	if err != nil {
		t.Fatal(err)
	}
	for _, letter := range letters {
		names = append(names, letter.Name)
		if reason, err := w.Reason(letter); err != nil || !strings.Contains(reason.Reason, "not a valid message") {
			t.Errorf("reason of %s: %+v, %v, want that it is not a message", letter.Name, reason, err)
		}
	}
	slices.Sort(names)
	wantTexts(t, "dead letters", names, "garbage.yaml", "unfinished.yaml", "with-sender.yaml")
	bounces := entries(t, w, "claude", mailbox.Inbox)
	if len(bounces) != 1 || bounces[0].Message.Channel != schema.ChannelBounce {
		t.Errorf("%d messages to the sender that one file names, want a bounce: %s", len(bounces), rec.kinds())
	}
}

// TestSlowWriter writes a message in many small pieces. The message gets its turn once it is
// complete.
func TestSlowWriter(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	m := question("slow")
	m.ID, m.Priority, m.CreatedAt = "msg-20260101T0000Z-claude-abcd", schema.P2, "2026-01-01T00:00:00Z"
	data, err := schema.Encode(&m)
	if err != nil {
		t.Fatal(err)
	}
	r, rec := newRunner(t, w, Config{})
	rec.on = func(e Event) {
		if e.Kind == EventAcknowledged || e.Kind == EventDeadLetter {
			r.Finish()
		}
	}
	var writing sync.WaitGroup
	writing.Go(func() {
		for end := len(data) / 8; ; end = min(len(data), end+len(data)/8) {
			copyOf(t, w, data[:end], "slow.yaml")
			if end == len(data) {
				return
			}
			time.Sleep(watch.Quiet / 5)
		}
	})
	err = r.Run(t.Context())
	writing.Wait()
	if want := "turn_started turn_succeeded acknowledged"; err != nil || !strings.HasSuffix(rec.kinds(), want) {
		t.Errorf("Run = %v with %s, want %s in the end", err, rec.kinds(), want)
	}
}

// TestUnreadableFiles checks that a run with Once returns an error if it could not read a file.
func TestUnreadableFiles(t *testing.T) {
	t.Parallel()
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
	var unread *mailbox.UnreadableError
	if !errors.As(err, &unread) || !strings.Contains(err.Error(), "folder.yaml") || !strings.Contains(err.Error(), "link.yaml") {
		t.Errorf("Run = %v, want an error about both files", err)
	}
}

// TestInvalidFileThatWasRemoved checks that an invalid file is not a failure once it is removed.
func TestInvalidFileThatWasRemoved(t *testing.T) {
	t.Parallel()
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

// TestLongNames checks that files with long names become dead letters, too, and that their reasons
// are found. The name of the reason is longer by twelve bytes.
func TestLongNames(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	for _, length := range []int{237, 238, 242, 243} {
		copyOf(t, w, []byte("{{{"), strings.Repeat("ä", (length-5)/2)+strings.Repeat("x", (length-5)%2)+".yaml")
	}
	rec, err := runOnce(t, w, Config{})
	var given *DeadLettersError
	if !errors.As(err, &given) || len(given.Messages) != 4 {
		t.Errorf("Run = %v, want four dead letters", err)
	}
	wantTexts(t, "problems", rec.of(EventProblem))
	letters, err := w.List(t.Context(), "codex", mailbox.DeadLetters)
	if err != nil || len(letters) != 4 {
		t.Fatalf("%d dead letters (%v), want 4", len(letters), err)
	}
	for _, letter := range letters {
		reason, err := w.Reason(letter)
		if err != nil || !strings.Contains(reason.Reason, "not a valid message") || !strings.HasPrefix(letter.Name, "äää") {
			t.Errorf("reason of %s: %+v, %v, want that it is not a message", letter.Name, reason, err)
		}
	}
}
