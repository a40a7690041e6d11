package watch

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/oacp-go/oacp/internal/testing/check"
	"github.com/oacp-go/oacp/internal/testing/mailboxtest"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// pending waits for messages of an agent.
func pending(t *testing.T, w *mailbox.Workspace, agent schema.AgentName, options PendingOptions) (subjects []string, err error) {
	t.Helper()
	found, err := AwaitPending(t.Context(), []Target{{Workspace: w, Agent: agent}}, options)
	for _, e := range found {
		subjects = append(subjects, e.Message.Subject)
	}
	return subjects, err
}

func TestAwaitPendingInOrder(t *testing.T) {
	t.Parallel()
	w := mailboxtest.NewBare(t, "claude", "codex")
	for _, subject := range []string{"a P2", "b P0", "c P1", "d P0"} {
		m := mailboxtest.Draft("codex")
		m.Subject, m.Priority = subject, schema.Priority(subject[2:])
		mailboxtest.Send(t, w, m)
	}
	old := mailboxtest.Draft("codex")
	old.Subject, old.Priority, old.CreatedAt, old.ExpiresAt = "expired", schema.P0, "2024-01-01T00:00:00Z", "2024-01-01T01:00:00Z"
	mailboxtest.Send(t, w, old)
	for _, test := range []struct {
		options PendingOptions
		want    []string
	}{
		{PendingOptions{}, []string{"b P0", "d P0", "c P1", "a P2"}},
		{PendingOptions{Most: 1}, []string{"b P0"}},
		{PendingOptions{Timeout: 1}, []string{"b P0", "d P0", "c P1", "a P2"}},
		{PendingOptions{Match: func(m *schema.Message) bool { return m.Priority != schema.P0 }}, []string{"c P1", "a P2"}},
	} {
		if got, err := pending(t, w, "codex", test.options); err != nil || !slices.Equal(got, test.want) {
			t.Errorf("%+v: got %q, %v, want %q", test.options, got, err, test.want)
		}
	}
}

// TestAwaitPendingEnds waits until the time is over or the context ends.
func TestAwaitPendingEnds(t *testing.T) {
	t.Parallel()
	w := mailboxtest.NewBare(t, "claude", "codex")
	if _, err := pending(t, w, "codex", PendingOptions{Timeout: time.Millisecond}); !errors.Is(err, ErrTimeout) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want ErrTimeout", err)
	}
	if _, err := pending(t, w, "nobody", PendingOptions{}); err == nil {
		t.Error("waiting for an unknown agent succeeded")
	}
	cause := errors.New("stopped")
	ctx, cancel := context.WithCancelCause(t.Context())
	idle := 0
	_, err := AwaitPending(ctx, []Target{{Workspace: w, Agent: "codex"}}, PendingOptions{Idle: func() { idle++; cancel(cause) }})
	if !errors.Is(err, cause) || idle != 1 {
		t.Errorf("got %v after %d times idle, want the cause after one", err, idle)
	}
	inbox := w.BoxPath("codex", mailbox.Inbox)
	if err := errors.Join(os.RemoveAll(inbox), os.WriteFile(inbox, nil, 0o644)); err != nil {
		t.Fatal(err)
	}
	if _, err := pending(t, w, "codex", PendingOptions{}); err == nil {
		t.Error("waiting for what is in an inbox that is no folder succeeded")
	}
}

// TestAwaitPendingArrival lets a message arrive after nothing was found, together with a file that
// is no message, in another inbox than the first.
func TestAwaitPendingArrival(t *testing.T) {
	t.Parallel()
	w := mailboxtest.NewBare(t, "claude", "codex")
	var problems []string
	found, err := AwaitPending(t.Context(), []Target{{Workspace: w, Agent: "claude"}, {Workspace: w, Agent: "codex"}}, PendingOptions{
		Match:   func(m *schema.Message) bool { return m.Subject == "wanted" },
		Problem: func(e mailbox.Entry) { problems = append(problems, e.Name) },
		Idle: func() {
			old := time.Now().Add(-time.Hour)
			path := filepath.Join(w.BoxPath("codex", mailbox.Inbox), "bad.yaml")
			check.WriteFile(t, path, "id: [")
			if err := os.Chtimes(path, old, old); err != nil {
				t.Error(err)
			}
			for _, subject := range []string{"other", "wanted"} {
				m := mailboxtest.Draft("codex")
				m.Subject = subject
				mailboxtest.Send(t, w, m)
			}
		},
	})
	if err != nil || len(found) != 1 || found[0].Message.Subject != "wanted" || found[0].Agent != "codex" {
		t.Errorf("got %+v, %v, want the message that matches", found, err)
	}
	if !slices.Equal(problems, []string{"bad.yaml"}) {
		t.Errorf("the problems are %q, want the bad file once", problems)
	}
}

// TestAwaitPendingInAnyInterleaving has a reader that acknowledges what it gets, while others send
// and acknowledge. The reader gets every message that nobody else takes, and nothing that was
// acknowledged before it looked.
func TestAwaitPendingInAnyInterleaving(t *testing.T) {
	t.Parallel()
	const senders, each = 4, 50
	w := mailboxtest.NewBare(t, "claude", "codex")
	var mu sync.Mutex
	acknowledged := make(map[schema.ID]bool)
	acknowledge := func(e mailbox.Entry) {
		mu.Lock()
		defer mu.Unlock()
		if err := w.Acknowledge(e); err == nil {
			acknowledged[e.Message.ID] = true
		} else if !mailbox.IsGone(err) {
			t.Error(err)
		}
	}
	var working sync.WaitGroup
	for i := range senders {
		working.Go(func() {
			random := rand.New(rand.NewPCG(uint64(i), 1))
			for n := range each {
				m := mailboxtest.Draft("codex")
				m.Subject = fmt.Sprintf("%d of %d", n, i)
				mailboxtest.Send(t, w, m)
				if entries, err := w.Inbox(t.Context(), "codex"); err != nil {
					t.Error(err)
				} else if len(entries) > 0 && random.IntN(4) == 0 {
					acknowledge(entries[random.IntN(len(entries))])
				}
			}
		})
	}
	for {
		mu.Lock()
		before, all := make(map[schema.ID]bool, len(acknowledged)), len(acknowledged) == senders*each
		for id := range acknowledged {
			before[id] = true
		}
		mu.Unlock()
		if all {
			break
		}
		found, err := AwaitPending(t.Context(), []Target{{Workspace: w, Agent: "codex"}}, PendingOptions{Most: 1, Timeout: time.Second})
		if errors.Is(err, ErrTimeout) {
			continue // the others took what there was
		}
		if err != nil {
			t.Fatal(err)
		}
		if before[found[0].Message.ID] {
			t.Errorf("got message %s, which was acknowledged before", found[0].Message.ID)
		}
		acknowledge(found[0])
	}
	working.Wait()
}
