package turn

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/oacp-go/oacp/agent"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/turn/track"
)

func removeState(t *testing.T, w *mailbox.Workspace) {
	t.Helper()
	if err := os.RemoveAll(filepath.Join(w.Dir(), "state")); err != nil {
		t.Error(err)
	}
}

// TestStateRemoved removes the state of a running Runner, as `git clean` does. The Runner must stop
// before another one, which finds no lock, begins a second turn.
func TestStateRemoved(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	send(t, w, question("one"), question("two"))
	turns := 0
	r, rec := newRunner(t, w, Config{NewDriver: plays(func(ctx context.Context, _ agent.Request) (agent.Result, error) {
		turns++
		removeState(t, w)
		<-ctx.Done()
		return agent.Result{}, context.Cause(ctx)
	})})
	if err := r.Run(t.Context()); !errors.Is(err, track.ErrStateLost) {
		t.Errorf("Run = %v, want ErrStateLost", err)
	}
	if want := "turn_started turn_interrupted"; rec.kinds() != want || turns != 1 {
		t.Errorf("events %s, want %s: %v", rec.kinds(), want, rec.events)
	}
	if got := len(subjects(t, w, "codex", mailbox.Inbox)); got != 2 {
		t.Errorf("%d messages in the inbox, want both", got)
	}
	rec, err := runOnce(t, w, Config{})
	if got := len(rec.of(EventAcknowledged)); err != nil || got != 2 {
		t.Errorf("the next Run = %v with %s, want both handled", err, rec.kinds())
	}
}

// TestNoTurnAfterStateWasRemoved checks that no turn begins or counts after the state was removed,
// even before the Runner checks its lock again.
func TestNoTurnAfterStateWasRemoved(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	send(t, w, question("one"), question("two"))
	r, rec := newRunner(t, w, Config{NewDriver: plays(func(context.Context, agent.Request) (agent.Result, error) {
		removeState(t, w)
		hold, err := track.LockInbox(t.Context(), w, "codex", time.Now())
		if err == nil {
			t.Cleanup(func() {
				if err := hold.Release(); err != nil {
					t.Error(err)
				}
			})
		}
		return agent.Result{Text: "ok"}, err
	})})
	r.poll = time.Hour
	if err := r.Run(t.Context()); !errors.Is(err, track.ErrStateLost) {
		t.Errorf("Run = %v, want ErrStateLost", err)
	}
	if want := "turn_started"; rec.kinds() != want {
		t.Errorf("events %s, want %s", rec.kinds(), want)
	}
	if got := len(subjects(t, w, "codex", mailbox.Inbox)); got != 2 {
		t.Errorf("%d messages in the inbox, want both", got)
	}
	if s := statusFor(t, w, "codex"); !s.Running || s.Runner == nil {
		t.Errorf("held %t by %v, want the other lock unchanged", s.Running, s.Runner)
	}
}

// TestJournalOnItsOwn checks that a journal that is removed, replaced or emptied ends the run.
func TestJournalOnItsOwn(t *testing.T) {
	t.Parallel()
	other := `{"at":"2026-01-01T00:00:00Z","fact":"started","id":"msg-20260101T0000Z-claude-abcd"}` + "\n"
	tests := map[string]func(path string) error{
		"removed": os.Remove,
		"replaced": func(path string) error {
			return errors.Join(os.WriteFile(path+".new", []byte(other), 0o644), os.Rename(path+".new", path))
		},
		"emptied": func(path string) error { return os.Truncate(path, 0) },
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorkspace(t)
			send(t, w, question("q"))
			path := filepath.Join(w.Dir(), track.TurnsFolder, track.JournalName("codex"))
			var r *Runner
			r, rec := newRunner(t, w, Config{NewDriver: plays(func(context.Context, agent.Request) (agent.Result, error) {
				return agent.Result{}, change(path)
			})})
			r.poll = time.Hour
			rec.on = func(e Event) {
				if e.Kind == EventAcknowledged {
					r.Finish()
				}
			}
			if err := r.Run(t.Context()); !errors.Is(err, track.ErrStateLost) || !strings.Contains(err.Error(), path) {
				t.Errorf("Run = %v, want ErrStateLost and the path", err)
			}
		})
	}
}
