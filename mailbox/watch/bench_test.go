package watch

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/oacp-go/oacp/internal/testing/mailboxtest"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// fill puts messages into codex's inbox that were written a minute ago.
func fill(b *testing.B, w *mailbox.Workspace, count int) {
	b.Helper()
	old := time.Now().Add(-time.Minute)
	for i := range count {
		path := put(b, w, "codex", fmt.Sprintf("20260313T1430Z_gemini_question_%05d.yaml", i), "lying there")
		if err := os.Chtimes(path, old, old); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkWatchArrival measures from before the rename into the inbox to the
// event, with a watcher that has nothing else to do.
func BenchmarkWatchArrival(b *testing.B) {
	for _, bench := range []struct {
		lying  int
		cursor bool
	}{{0, false}, {10000, false}, {0, true}, {10000, true}} {
		b.Run(fmt.Sprintf("lying=%d/cursor=%t", bench.lying, bench.cursor), func(b *testing.B) {
			w := mailboxtest.NewBare(b, "claude", "codex", "gemini")
			fill(b, w, bench.lying)
			watch := follow(b, w, Options{Cursor: bench.cursor, Since: time.Now().Add(-30 * time.Second)}, "codex")
			watch.want(EventArrived, sentName(mailboxtest.Send(b, w, mailboxtest.Draft("codex"))))
			var took []time.Duration
			for b.Loop() {
				b.StopTimer()
				name := fmt.Sprintf("arrival%06d.yaml", len(took))
				put(b, w, "codex", "."+name, "arriving")
				addFile(b, w.BoxPath("gemini", mailbox.Outbox), name, messageText("codex", "."+name, "arriving"))
				from := filepath.Join(w.BoxPath("codex", mailbox.Inbox), "."+name)
				to := filepath.Join(w.BoxPath("codex", mailbox.Inbox), name)
				b.StartTimer()
				began := time.Now()
				if err := os.Rename(from, to); err != nil {
					b.Fatal(err)
				}
				watch.want(EventArrived, name)
				took = append(took, time.Since(began))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
		})
	}
}

// BenchmarkScan measures a scan that reports all pending messages, with a cursor against one without.
func BenchmarkScan(b *testing.B) {
	for _, pending := range []int{1000, 8000} {
		w := mailboxtest.NewBare(b, "codex")
		fill(b, w, pending)
		files, err := filepath.Glob(w.BoxPath("codex", mailbox.Inbox) + "/*.yaml")
		for _, file := range files { // such a time shows that nobody is writing the file
			recent := time.Now().Add(-10 * time.Second)
			err = errors.Join(err, os.Chtimes(file, recent, recent))
		}
		if err != nil {
			b.Fatal(err)
		}
		took := map[bool]time.Duration{}
		b.Run(fmt.Sprintf("pending=%d", pending), func(b *testing.B) {
			for i := 0; b.Loop(); i++ {
				for _, cursor := range []bool{i%2 == 0, i%2 == 1} {
					began := time.Now()
					watcher := newTestWatcher(b, w, Options{Cursor: cursor, StateID: fmt.Sprintf("%d", time.Now().UnixNano())}, "codex")
					count := 0
					for range watcher.Scan(b.Context()) {
						count++
					}
					if err := watcher.Close(); err != nil || count != pending {
						b.Fatalf("%d events (%v), want %d", count, err, pending)
					}
					took[cursor] += time.Since(began)
				}
			}
			b.ReportMetric(float64(took[true])/float64(took[false]), "cursor/without")
		})
	}
}

// BenchmarkWatchIdle measures what a watcher does every tickEvery when nothing
// happens, and the memory it holds.
func BenchmarkWatchIdle(b *testing.B) {
	const mailboxes = 100
	var agents []schema.AgentName
	for i := range mailboxes {
		agents = append(agents, schema.AgentName(fmt.Sprintf("agent%d", i)))
	}
	w := mailboxtest.NewBare(b, agents...)
	long := time.Now().Add(-time.Hour)
	for _, agent := range agents {
		if err := os.Chtimes(w.BoxPath(agent, mailbox.Inbox), long, long); err != nil {
			b.Fatal(err)
		}
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	watcher := newTestWatcher(b, w, Options{Cursor: true}, agents...)
	for range watcher.Scan(b.Context()) {
		b.Fatal("an event, want none")
	}
	lookAll := func() {
		for next := time.Now(); !next.IsZero(); next = watcher.nextLook(time.Now()) {
			watcher.look(b.Context(), true)
		}
	}
	lookAll()
	for b.Loop() {
		if err := watcher.tick(b.Context(), time.Now(), true); err != nil {
			b.Fatal(err)
		}
		if lookAll(); len(watcher.queue) > 0 {
			b.Fatalf("%d events, want none", len(watcher.queue))
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	b.ReportMetric(100*float64(b.Elapsed())/float64(b.N)/float64(tickEvery), "%core")
	b.ReportMetric(float64(int64(after.HeapAlloc)-int64(before.HeapAlloc))/mailboxes, "B/mailbox")
	if err := watcher.Close(); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkWatchRescan measures a rescan of an inbox in which nothing has
// changed.
func BenchmarkWatchRescan(b *testing.B) {
	for _, size := range []int{100, 1000, 10000} {
		for name, how := range map[string]func(b *box){
			"names": func(b *box) { b.relist = true }, "files": func(b *box) { b.recheck = true },
		} {
			b.Run(fmt.Sprintf("%s/lying=%d", name, size), func(b *testing.B) {
				w := mailboxtest.NewBare(b, "codex")
				fill(b, w, size)
				watcher := newTestWatcher(b, w, Options{Since: time.Now()}, "codex")
				for range watcher.Scan(b.Context()) {
					b.Fatal("an event, want none")
				}
				for b.Loop() {
					how(watcher.boxes[0])
					for next := time.Now(); !next.IsZero(); next = watcher.nextLook(time.Now()) {
						watcher.look(b.Context(), true)
					}
				}
				if err := watcher.Close(); err != nil {
					b.Fatal(err)
				}
			})
		}
	}
}
