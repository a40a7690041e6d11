package turn

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oacp-go/oacp/agent"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// block puts a file in the place of a folder of the workspace.
func block(t *testing.T, w *mailbox.Workspace, folder string) {
	t.Helper()
	path := filepath.Join(w.Dir(), folder)
	if err := errors.Join(os.RemoveAll(path), os.WriteFile(path, nil, 0o644)); err != nil {
		t.Fatal(err)
	}
}

// TestMessageThatCannotLeaveTheInbox checks that a message whose acknowledgement or burial fails is not
// recorded as handled, and that the run says why.
func TestMessageThatCannotLeaveTheInbox(t *testing.T) {
	t.Parallel()
	for folder, driver := range map[string]func(schema.ConversationID, string) agent.Driver{
		"agents/codex/inbox/archive": says("ok"),
		"agents/codex/dead_letter": plays(func(context.Context, agent.Request) (agent.Result, error) {
			return agent.Result{}, errors.New("it fails")
		}),
	} {
		w := newWorkspace(t)
		send(t, w, question("q"))
		block(t, w, folder)
		rec, err := runOnce(t, w, Config{NewDriver: driver, MaxAttempts: 1})
		if err == nil || !strings.Contains(err.Error(), filepath.Base(folder)) {
			t.Errorf("%s: the run ends with %v, want an error that names it", folder, err)
		}
		for _, kind := range []EventKind{EventAcknowledged, EventDeadLetter} {
			if strings.Contains(rec.kinds(), string(kind)) {
				t.Errorf("%s: the events are %s, want no %s", folder, rec.kinds(), kind)
			}
		}
		if got := subjects(t, w, "codex", mailbox.Inbox); len(got) != 1 {
			t.Errorf("%s: the inbox holds %q, want the message", folder, got)
		}
	}
}

// TestRunWaitsForTurns checks that Run does not return while a turn works, however the run ends.
func TestRunWaitsForTurns(t *testing.T) {
	t.Parallel()
	ends := map[string]func(r *Runner, cancel context.CancelFunc){
		"finish": func(r *Runner, _ context.CancelFunc) { r.Finish() },
		"cancel": func(_ *Runner, cancel context.CancelFunc) { cancel() },
		"lost":   func(r *Runner, _ context.CancelFunc) { r.events.lost <- errors.New("the inbox is another's now") },
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			w := newWorkspace(t)
			send(t, w, question("a"), question("b"))
			began := make(chan struct{}, 2)
			release := make(chan struct{})
			var ended atomic.Int32
			r, _ := newRunner(t, w, Config{Parallel: 2, NewDriver: plays(func(context.Context, agent.Request) (agent.Result, error) {
				began <- struct{}{}
				<-release
				ended.Add(1)
				return agent.Result{Text: "ok"}, nil
			})})
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			returned := make(chan int32, 1)
			go func() {
				_ = r.Run(ctx) // how it ends is not what this test is about
				returned <- ended.Load()
			}()
			<-began
			<-began
			end(r, cancel)
			select {
			case n := <-returned:
				t.Errorf("Run returned after %d of 2 turns", n)
			case <-time.After(20 * r.poll):
			}
			close(release)
			if n := <-returned; n != 2 {
				t.Errorf("Run returned after %d of 2 turns", n)
			}
		})
	}
}
