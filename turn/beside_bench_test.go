package turn

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/oacp-go/oacp/internal/testing/mailboxtest"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/conversation"
	"github.com/oacp-go/oacp/mailbox/watch"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn/track"
)

// fillHandled makes n messages from claude that codex has handled, as files alone, and returns the ids.
func fillHandled(b *testing.B, w *mailbox.Workspace, n int) []schema.ID {
	b.Helper()
	archive := w.BoxPath("codex", mailbox.Archive)
	if err := os.MkdirAll(archive, 0o755); err != nil {
		b.Fatal(err)
	}
	ids := make([]schema.ID, n)
	for i := range n {
		m := question("handled")
		m.Type, m.Priority = schema.Notification, schema.P2
		at := time.Now().Add(time.Duration(i-n) * time.Minute)
		m.CreatedAt = schema.NewTimestamp(at)
		var err error
		if m.ID, err = schema.NewID(at, m.From, m.Type, schema.LongRand, rand.Reader); err != nil {
			b.Fatal(err)
		}
		data, err := schema.Encode(&m)
		if err != nil {
			b.Fatal(err)
		}
		name, err := m.LongFileName()
		if err != nil {
			b.Fatal(err)
		}
		for _, folder := range []string{archive, w.BoxPath("claude", mailbox.Outbox)} {
			if err := os.WriteFile(filepath.Join(folder, name), data, 0o644); err != nil {
				b.Fatal(err)
			}
		}
		ids[i] = m.ID
	}
	return ids
}

// BenchmarkBeside measures what concerns one message beside others, which are handled.
func BenchmarkBeside(b *testing.B) {
	for _, n := range []int{100, 100_000} {
		w := mailboxtest.New(b, "claude", "codex")
		handled := fillHandled(b, w, n)[n/2]
		pending := send(b, w, question("What is it?"))[0]
		ctx := context.Background()
		old := time.Now().Add(-time.Hour) // owed leaves no hints about folders that changed just now
		for _, agent := range []schema.AgentName{"claude", "codex"} {
			for _, box := range schema.Boxes() {
				if err := os.Chtimes(w.BoxPath(agent, box), old, old); err != nil && !os.IsNotExist(err) {
					b.Fatal(err)
				}
			}
		}
		named := func(id string) func() error {
			return func() error {
				_, err := w.FindNamed(ctx, id, "")
				return err
			}
		}
		progressOf := func(id schema.ID) func() error {
			return func() error {
				_, err := track.Track(ctx, w, string(id))
				return err
			}
		}
		thread := func(id schema.ID) func() error {
			return func() error {
				_, err := track.Thread(ctx, w, string(id))
				return err
			}
		}
		restore := func() error {
			_, err := track.Restore(ctx, w, string(pending.ID), "codex")
			return err
		}
		for _, work := range []struct {
			name     string
			do, undo func() error
		}{
			{"owed", func() error {
				_, err := track.OwedBy(ctx, w, "codex")
				return err
			}, nil},
			{"next", func() error {
				found, err := watch.AwaitPending(ctx, []watch.Target{{Workspace: w, Agent: "codex"}}, watch.PendingOptions{Most: 1, Timeout: time.Minute})
				if err == nil {
					_, err = conversation.Responses(ctx, w, "codex", found)
				}
				return err
			}, nil},
			{"inbox", func() error {
				entries, err := w.Inbox(ctx, "codex")
				if err == nil {
					_, err = conversation.Responses(ctx, w, "codex", entries)
				}
				return err
			}, nil},
			{"ack", func() error {
				e, err := w.Pending(ctx, pending.ID.Short(), "codex")
				if err == nil {
					err = w.Acknowledge(e)
				}
				return err
			}, restore},
			{"reply", func() error {
				found, err := w.Find(ctx, pending.ID.Short())
				if err != nil {
					return err
				}
				answer := conversation.Reply(found[0].Message, "codex", schema.Notification)
				answer.Type, answer.Body = schema.Question, schema.TextValue("Which one?")
				_, err = w.Send(ctx, answer, nil)
				return err
			}, nil},
			{"read-short", named(pending.ID.Short()), nil},
			{"read", named(string(pending.ID)), nil},
			{"read-handled", named(string(handled)), nil},
			{"read-handled-short", named(string(handled.Short())), nil},
			{"status", progressOf(pending.ID), nil},
			{"status-handled", progressOf(handled), nil},
			{"thread", thread(pending.ID), nil},
			{"thread-handled", thread(handled), nil},
			{"list", func() error {
				_, err := track.List(ctx, w, track.Query{Limit: 5})
				return err
			}, nil},
		} {
			b.Run(fmt.Sprintf("%s/handled=%d", work.name, n), func(b *testing.B) {
				if err := work.do(); err != nil { // the first time leaves hints
					b.Fatal(err)
				}
				if work.undo != nil {
					if err := work.undo(); err != nil {
						b.Fatal(err)
					}
				}
				for b.Loop() {
					if err := work.do(); err != nil {
						b.Fatal(err)
					}
					if work.undo == nil {
						continue
					}
					b.StopTimer()
					if err := work.undo(); err != nil {
						b.Fatal(err)
					}
					b.StartTimer()
				}
			})
		}
	}
}
