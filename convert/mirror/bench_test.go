package mirror

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/convert"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// benchSizes are the numbers of messages already there. CONVERT_BENCH_LARGE=1 adds the long ones.
func benchSizes() []int {
	if os.Getenv("CONVERT_BENCH_LARGE") != "" {
		return []int{1_000, 10_000, 100_000}
	}
	return []int{1_000, 10_000}
}

// batchSize is how many messages one turn of a throughput benchmark carries.
const batchSize = 2_000

func numbered(i int) schema.Message {
	m := message(schema.TaskRequest)
	at := time.Unix(1_700_000_000+int64(i), 0).UTC()
	m.CreatedAt = schema.NewTimestamp(at)
	m.ID = schema.ID(fmt.Sprintf("msg-%s-claude-%010d", at.Format("20060102T1504Z"), i))
	m.Body = schema.TextValue(fmt.Sprintf("Check the format, show an error, disable the button until it is valid. Case %d.\n", i))
	return m
}

// fill writes messages into an outbox.
func (p *place) fill(from, to int) {
	p.t.Helper()
	for i := from; i < to; i++ {
		m := numbered(i)
		name, err := m.LongFileName()
		if err != nil {
			p.t.Fatal(err)
		}
		data, err := schema.Encode(&m)
		if err != nil {
			p.t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(p.workspace.BoxPath("claude", mailbox.Outbox), name), data, 0o644); err != nil {
			p.t.Fatal(err)
		}
	}
}

// synced opens the place again such that everything waits for the disk.
func synced(b *testing.B, p *place) *place {
	b.Helper()
	w, err := mailbox.Open(p.workspace.Dir(), nil)
	if err != nil {
		b.Fatal(err)
	}
	log, err := bridge.Open(p.log.Path(), &bridge.Options{RunID: 1})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _, _ = w.Close(), log.Close() })
	return &place{b, w, log}
}

func perSecond(b *testing.B, each int) {
	b.ReportMetric(float64(each*b.N)/b.Elapsed().Seconds(), "messages/s")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkOut measures the mirror, and simply appending the same records.
func BenchmarkOut(b *testing.B) {
	b.Run("mirror", func(b *testing.B) {
		for b.Loop() {
			b.StopTimer()
			p := synced(b, newPlace(b, "claude", "codex"))
			p.fill(0, batchSize)
			b.StartTimer()
			if report := p.run(Out); report.Recorded != batchSize {
				b.Fatalf("got %+v", report)
			}
		}
		perSecond(b, batchSize)
	})
	b.Run("append", func(b *testing.B) {
		var records []bridge.Record
		for i := range batchSize {
			m := numbered(i)
			made, err := convert.ToBridge(&m, 1)
			if err != nil {
				b.Fatal(err)
			}
			records = append(records, made...)
		}
		for b.Loop() {
			b.StopTimer()
			p := synced(b, newPlace(b, "claude", "codex"))
			b.StartTimer()
			for start := 0; start < len(records); start += appendBatch {
				p.append(records[start:min(start+appendBatch, len(records))]...)
			}
		}
		perSecond(b, batchSize)
	})
}

// BenchmarkIn measures the mirror, and simply sending the same messages.
func BenchmarkIn(b *testing.B) {
	var records []bridge.Record
	var messages []schema.Message
	for i := range batchSize {
		r := record(bridge.TypeTask, "", "claude", "codex", fmt.Sprintf("Check the format, show an error, disable the button until it is valid. Case %d.\n", i))
		m, err := convert.Derive(r, []schema.AgentName{"codex"}, 0)
		if err != nil {
			b.Fatal(err)
		}
		records, messages = append(records, r), append(messages, *m)
	}
	b.Run("mirror", func(b *testing.B) {
		for b.Loop() {
			b.StopTimer()
			p := synced(b, newPlace(b, "claude", "codex"))
			p.append(records...)
			b.StartTimer()
			if report := p.run(In); report.Delivered != batchSize {
				b.Fatalf("got %+v", report)
			}
		}
		perSecond(b, batchSize)
	})
	b.Run("send", func(b *testing.B) {
		for b.Loop() {
			b.StopTimer()
			p := synced(b, newPlace(b, "claude", "codex"))
			b.StartTimer()
			for _, result := range p.workspace.SendAll(context.Background(), messages, nil) {
				if result.Err != nil {
					b.Fatal(result.Err)
				}
			}
		}
		perSecond(b, batchSize)
	})
}

// BenchmarkRun measures a run in both directions after everything was mirrored.
func BenchmarkRun(b *testing.B) {
	for _, size := range benchSizes() {
		p := newPlace(b, "claude", "codex")
		p.fill(0, size)
		p.run(Both)
		open := func() *place { return openPlace(b, p.workspace.Dir(), p.log.Path()) }
		settle := func() {
			old := time.Now().Add(-time.Minute)
			for _, agent := range []schema.AgentName{"claude", "codex"} {
				if err := os.Chtimes(p.workspace.BoxPath(agent, mailbox.Outbox), old, old); err != nil {
					b.Fatal(err)
				}
			}
		}
		b.Run(fmt.Sprintf("nothing new/%d", size), func(b *testing.B) {
			settle()
			open().run(Both)
			for b.Loop() {
				again := open()
				if report := again.run(Both); !report.quiet() || report.AlreadyRecorded > 0 {
					b.Fatalf("got %+v", report)
				}
			}
		})
		next := size
		b.Run(fmt.Sprintf("one new/%d", size), func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				p.fill(next, next+1)
				next++
				b.StartTimer()
				if report := open().run(Both); report.Recorded != 1 {
					b.Fatalf("got %+v", report)
				}
			}
		})
		b.Run(fmt.Sprintf("all forgotten/%d", size), func(b *testing.B) {
			for b.Loop() {
				p.forget()
				if report := open().run(Both); report.Recorded != 0 || report.Delivered != 0 {
					b.Fatalf("got %+v", report)
				}
			}
		})
	}
}
