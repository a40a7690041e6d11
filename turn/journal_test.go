package turn

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/oacp-go/oacp/agent"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/turn/track"
)

// TestJournalOfLostInbox checks that a Runner that no longer holds its lock writes nothing, although
// the journal itself is in place, and even before the Runner checks its lock again.
func TestJournalOfLostInbox(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	send(t, w, question("one"))
	r, rec := newRunner(t, w, Config{NewDriver: plays(func(context.Context, agent.Request) (agent.Result, error) {
		return agent.Result{Text: "ok"}, os.RemoveAll(filepath.Join(w.Dir(), "state", "run"))
	})})
	r.poll = time.Hour
	rec.on = func(e Event) {
		if e.Kind == EventAcknowledged {
			r.Finish()
		}
	}
	if err := r.Run(t.Context()); !errors.Is(err, track.ErrStateLost) {
		t.Errorf("Run = %v, want ErrStateLost", err)
	}
	data, err := os.ReadFile(r.journal.Path)
	if err != nil {
		t.Fatal(err)
	}
	wantTexts(t, "facts", factKinds(t, data), "started")
}

// TestOnceWithoutJournal fills the disk during a turn. A run with Once ends: it must neither wait without
// end nor begin a second turn.
func TestOnceWithoutJournal(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	send(t, w, question("one"), question("two"))
	turns := 0
	var r *Runner
	r, rec := newRunner(t, w, Config{Once: true, NewDriver: plays(func(context.Context, agent.Request) (agent.Result, error) {
		turns++
		r.journal.MayWrite = func() error { return syscall.ENOSPC }
		return agent.Result{Text: "ok"}, nil
	})})
	r.poll = time.Hour
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := r.Run(ctx); !errors.Is(err, syscall.ENOSPC) || turns != 1 {
		t.Errorf("Run = %v after %d turns, want the error of the disk after one; events %s", err, turns, rec.kinds())
	}
	if got := len(subjects(t, w, "codex", mailbox.Inbox)); got != 2 {
		t.Errorf("%d messages in the inbox, want both", got)
	}
}

func TestJournalThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	if err := os.MkdirAll(filepath.Join(w.Dir(), track.TurnsFolder, "codex.jsonl"), 0o755); err != nil {
		t.Fatal(err)
	}
	send(t, w, question("q"))
	_, err := runOnce(t, w, Config{})
	if err == nil || !strings.Contains(err.Error(), "codex.jsonl") {
		t.Errorf("Run = %v, want an error naming the journal", err)
	}
	wantTexts(t, "inbox", subjects(t, w, "codex", "inbox"), "q")
}
