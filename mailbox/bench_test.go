package mailbox

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/schema"
)

// fillInbox puts n messages of one sender into an inbox, as files alone, and returns their ids.
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

func BenchmarkSend(b *testing.B) {
	for _, sync := range []bool{true, false} {
		b.Run(map[bool]string{true: "durable", false: "no-sync"}[sync], func(b *testing.B) {
			w := newWorkspace(b, "claude", "codex")
			w.files = durable.Disk{Sync: sync}
			for b.Loop() {
				send(b, w, draft("codex"))
			}
		})
	}
}

// bulk is how many messages one sender sends in BenchmarkBulk; -short takes a tenth.
const bulk = 20_000

// BenchmarkBulk compares sending with the speed of the disk. The metric x-raw is the rate of
// sending divided by the rate of writing, syncing and linking the same two files per message, one
// after the other. The two alternate, so that both see the disk in the same state.
func BenchmarkBulk(b *testing.B) {
	n, turn := bulk, 500
	if testing.Short() {
		n /= 10
	}
	drafts := make([]schema.Message, turn)
	for i := range drafts {
		drafts[i] = draft("codex")
	}
	elsewhere := make([]Received, n)
	for i := range elsewhere {
		m := message(fmt.Sprintf("%016d", i), 0)
		data, err := schema.Encode(&m)
		if err != nil {
			b.Fatal(err)
		}
		name, err := m.LongFileName()
		if err != nil {
			b.Fatal(err)
		}
		elsewhere[i] = Received{From: m.From, Name: name, Data: data, Pending: m.To}
	}
	ways := []struct {
		name string
		send func(b *testing.B, w *Workspace, from int)
	}{
		{"Send", func(b *testing.B, w *Workspace, _ int) {
			for _, m := range drafts {
				send(b, w, m)
			}
		}},
		{"SendAll", func(b *testing.B, w *Workspace, _ int) {
			for _, result := range w.SendAll(b.Context(), drafts, nil) {
				if result.Err != nil {
					b.Fatal(result.Err)
				}
			}
		}},
		{"Receive", func(b *testing.B, w *Workspace, from int) {
			for _, result := range w.Receive(b.Context(), elsewhere[from:from+turn]) {
				if result.Err != nil {
					b.Fatal(result.Err)
				}
			}
		}},
	}
	for _, way := range ways {
		b.Run(way.name, func(b *testing.B) {
			var raw, sending time.Duration
			for b.Loop() {
				w, dir := newWorkspace(b, "claude", "codex"), b.TempDir()
				for from := 0; from < n; from += turn {
					start := time.Now()
					writeRaw(b, dir, from, from+turn)
					raw += time.Since(start)
					start = time.Now()
					way.send(b, w, from)
					sending += time.Since(start)
				}
				if got := len(files(b, w, "agents/codex/inbox")); got != n {
					b.Fatalf("the inbox has %d files, want %d", got, n)
				}
			}
			b.ReportMetric(float64(n*b.N)/sending.Seconds(), "messages/s")
			b.ReportMetric(float64(n*b.N)/raw.Seconds(), "raw/s")
			b.ReportMetric(raw.Seconds()/sending.Seconds(), "x-raw")
			b.ReportMetric(0, "ns/op") // half of it is writeRaw
		})
	}
}

// writeRaw writes, syncs and links two files for each message.
func writeRaw(b *testing.B, dir string, from, to int) {
	b.Helper()
	m := message("0123456789", 0)
	data, err := schema.Encode(&m)
	if err != nil {
		b.Fatal(err)
	}
	for _, folder := range []string{"outbox", "inbox", "staging"} {
		if err := os.MkdirAll(filepath.Join(dir, folder), 0o755); err != nil {
			b.Fatal(err)
		}
	}
	for i := from; i < to; i++ {
		for _, box := range []string{"outbox", "inbox"} {
			staged := filepath.Join(dir, "staging", fmt.Sprintf("%d-%s", i, box))
			err := errors.Join(writeSynced(staged, data), os.Link(staged, filepath.Join(dir, box, fmt.Sprint(i))), os.Remove(staged))
			if err != nil {
				b.Fatal(err)
			}
		}
	}
}

func writeSynced(path string, data []byte) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	return errors.Join(err, file.Sync(), file.Close())
}
