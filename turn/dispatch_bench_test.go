package turn

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/watch"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn/track"
	"github.com/oacp-go/oacp/validate"
)

// BenchmarkDispatch measures one arrival in an inbox that holds other messages: from senders that
// get no turns, or waiting for their next attempt. The file of the arrival does not exist, so its
// work ends at once.
func BenchmarkDispatch(b *testing.B) {
	for _, why := range []string{"not-allowed", "retry"} {
		for _, lying := range []int{0, 1_000, 10_000, 100_000} {
			b.Run(fmt.Sprintf("%s/lying=%d", why, lying), func(b *testing.B) { benchmarkDispatch(b, why, lying) })
		}
	}
}

func benchmarkDispatch(b *testing.B, why string, lying int) {
	c := Config{Observe: func(Event) {}}
	if why == "not-allowed" {
		c.AllowFrom = []schema.AgentName{"claude"}
	}
	r, _ := newRunner(b, newWorkspace(b), c)
	var err error
	if r.journal, err = track.OpenJournal(r.workspace, "codex", r.now); err != nil {
		b.Fatal(err)
	}
	r.reset()
	r.watcher = new(watch.Watcher)
	defer func() {
		if err := r.journal.Close(); err != nil {
			b.Error(err)
		}
	}()
	before := heapInUse()
	for n := range lying {
		e := lyingEntry(b, "gemini", n)
		r.schedule.add(newItem(e.Name, e.Message))
	}
	taken := heapInUse() - before
	for _, it := range r.schedule.items {
		if why == "retry" {
			it.notBefore = r.now().Add(time.Hour)
		} else {
			it.reported = "messages from gemini get no turns here" // otherwise the journal records each
		}
	}
	r.dispatch(b.Context())
	for n := 0; b.Loop(); n++ {
		b.StopTimer()
		e := lyingEntry(b, "claude", n)
		b.StartTimer()
		r.schedule.add(newItem(e.Name, e.Message))
		r.dispatch(b.Context())
		if r.working != 1 {
			b.Fatalf("%d are worked on, want 1", r.working)
		}
		r.finished(<-r.done)
	}
	if lying > 0 {
		b.ReportMetric(float64(taken)/float64(lying), "B/lying")
	}
}

func heapInUse() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// lyingEntry returns a message of 2 kB as a watch reports it after reading its file.
func lyingEntry(b *testing.B, sender schema.AgentName, n int) mailbox.Entry {
	m := question(fmt.Sprint("subject ", n))
	m.ID, m.From = schema.ID(fmt.Sprintf("msg-20260313T1430Z-%s-%010d", sender, n)), sender
	m.Priority, m.CreatedAt = schema.P2, schema.NewTimestamp(time.Date(2026, 3, 13, 14, 30, n, 0, time.UTC))
	m.Body = schema.TextValue(strings.Repeat("A line of the body.\n", 100))
	name, err := m.LongFileName()
	if err != nil {
		b.Fatal(err)
	}
	data, err := schema.Encode(&m)
	if err != nil {
		b.Fatal(err)
	}
	read, err := validate.Read(data)
	if err != nil {
		b.Fatal(err)
	}
	return mailbox.Entry{Agent: "codex", Box: mailbox.Inbox, Name: name, Message: read}
}
