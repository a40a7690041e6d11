package mailbox

import (
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/oacp-go/oacp/schema"
)

// fillInbox puts n messages of one sender into an inbox, as files alone, and
// returns their ids.
func fillInbox(b testing.TB, w *Workspace, agent schema.AgentName, n int) []schema.ID {
	b.Helper()
	ids := make([]schema.ID, n)
	inbox := w.BoxPath(agent, Inbox)
	for i := range n {
		m := draft(agent)
		at := testTime.Add(time.Duration(i) * time.Second)
		m.Priority, m.CreatedAt = schema.Priorities()[i%4], schema.NewTimestamp(at)
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
		if err := os.WriteFile(filepath.Join(inbox, name), data, 0o644); err != nil {
			b.Fatal(err)
		}
		ids[i] = m.ID
	}
	return ids
}

func BenchmarkInbox(b *testing.B) {
	for _, n := range []int{10, 100, 1_000, 10_000, 20_000, 100_000} {
		b.Run(fmt.Sprintf("messages=%d", n), func(b *testing.B) {
			w := newWorkspace(b, "claude", "codex")
			fillInbox(b, w, "codex", n)
			for b.Loop() {
				entries, err := w.Inbox(b.Context(), "codex")
				if err != nil || len(entries) != n {
					b.Fatalf("%d entries (%v), want %d", len(entries), err, n)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/message")
		})
	}
}

func BenchmarkFind(b *testing.B) {
	const n = 10_000
	w := newWorkspace(b, "claude", "codex")
	ids := fillInbox(b, w, "codex", n)
	for b.Loop() {
		if found, err := w.Find(b.Context(), string(ids[n/2])); err != nil || len(found) != 1 {
			b.Fatalf("%d entries (%v), want 1", len(found), err)
		}
	}
}
