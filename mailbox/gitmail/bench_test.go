package gitmail_test

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oacp-go/oacp/internal/testing/check"
	"github.com/oacp-go/oacp/internal/testing/gittest"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/gitmail"
	"github.com/oacp-go/oacp/mailbox/watch"
	"github.com/oacp-go/oacp/schema"
)

var (
	benchHistory = flag.Int("bench-history", 100_000, "how many messages the large history of the benchmarks has")
	benchLatency = flag.Duration("bench-latency", 300*time.Millisecond, "the latency of the remote in BenchmarkMachines")
)

// newHistory makes a network of two machines whose history has that many acknowledged messages.
func newHistory(b *testing.B, messages int) *network {
	b.Helper()
	n := newRemote(b)
	if messages > 0 {
		n.importHistory(messages)
	}
	for _, name := range []string{"here", "there"} {
		start := time.Now()
		n.join(name, both...)
		n.machines[len(n.machines)-1].sync()
		if messages > 0 {
			b.Logf("%s joined in %v, with %d messages", name, time.Since(start), messages)
		}
	}
	n.settle()
	return n
}

// importHistory commits messages from claude to codex to the remote, a thousand a commit, 200 a day.
func (n *network) importHistory(messages int) {
	n.t.Helper()
	const each = 1000
	command := exec.Command("git", "fast-import", "--quiet")
	command.Dir, command.Env, command.Stderr = n.remote, gittest.Environment(), os.Stderr
	pipe, err := command.StdinPipe()
	if err != nil {
		n.t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		n.t.Fatal(err)
	}
	stream := bufio.NewWriter(pipe)
	for i := range messages {
		m, err := past(i)
		if err != nil {
			n.t.Fatal(err)
		}
		at := m.CreatedAt.Time()
		if i%each == 0 {
			fmt.Fprintf(stream, "commit %s\ncommitter A <a@example.com> %d +0000\ndata 0\n", mailRef, at.Unix())
			if i == 0 {
				fmt.Fprint(stream, "M 100644 inline .oacp-format\ndata 2\n2\n\n")
			}
		}
		name, nameErr := m.LongFileName()
		data, dataErr := schema.Encode(&m)
		if nameErr != nil || dataErr != nil {
			n.t.Fatal(nameErr, dataErr)
		}
		for _, box := range []string{"claude/outbox", "codex/inbox/archive"} {
			fmt.Fprintf(stream, "M 100644 inline agents/%s/%s/%s\ndata %d\n%s\n", box, at.Format("20060102"), name, len(data), data)
		}
	}
	if err := stream.Flush(); err != nil {
		n.t.Fatal(err)
	}
	if err := pipe.Close(); err != nil {
		n.t.Fatal(err)
	}
	if err := command.Wait(); err != nil {
		n.t.Fatal(err)
	}
}

// past returns message number i from claude to codex, of a history with 200 messages a day.
func past(i int) (m schema.Message, err error) {
	const aDay = 200
	at := time.Date(2024, 1, 1, 0, i%aDay, 0, 0, time.UTC).AddDate(0, 0, i/aDay)
	m = draft("claude", "codex")
	m.Priority, m.CreatedAt = schema.P2, schema.NewTimestamp(at)
	m.ID, err = schema.NewID(at, m.From, m.Type, schema.LongRand, rand.NewChaCha8([32]byte{byte(i), byte(i >> 8), byte(i >> 16)}))
	return m, err
}

// BenchmarkSync measures syncs that have nothing to do, or messages to send or to receive, with a small
// and with a large history. x-git is the time of a sync with nothing to do divided by that of the same
// git processes run by themselves.
func BenchmarkSync(b *testing.B) {
	for _, history := range []int{0, *benchHistory} {
		b.Run(fmt.Sprintf("history=%d", history), func(b *testing.B) {
			if history > 0 && testing.Short() {
				b.Skip("it takes minutes")
			}
			n := newHistory(b, history)
			b.Run("nothing", func(b *testing.B) { n.benchmarkNothing(b) })
			for _, messages := range []int{1, 1000} {
				b.Run(fmt.Sprintf("messages=%d", messages), func(b *testing.B) { n.benchmarkMessages(b, messages) })
			}
		})
	}
}

func (n *network) benchmarkNothing(b *testing.B) {
	here := n.machines[0]
	n.settle()
	here.openAndSync(b) // it notes the times of folders
	commands := n.commands(b, func() { here.openAndSync(b) })
	var syncs, gits time.Duration
	for b.Loop() {
		start := time.Now()
		here.openAndSync(b)
		syncs += time.Since(start)
		start = time.Now()
		for _, arguments := range commands {
			command := exec.Command(arguments[0], arguments[1:]...)
			command.Dir, command.Env = here.dir, gittest.Environment()
			_ = command.Run() // some report with their exit status
		}
		gits += time.Since(start)
	}
	b.ReportMetric(float64(len(commands)), "processes")
	b.ReportMetric(syncs.Seconds()/gits.Seconds(), "x-git")
	b.ReportMetric(float64(syncs.Microseconds())/1000/float64(b.N), "ms/sync")
	b.ReportMetric(0, "ns/op") // half of it is the other
}

// openAndSync does what oacp sync does.
func (m *machine) openAndSync(b *testing.B) gitmail.Result {
	result, err := m.trySync()
	if err != nil {
		b.Fatal(err)
	}
	return result
}

// commands returns the git processes that f starts itself, with their arguments.
func (n *network) commands(b *testing.B, f func()) (commands [][]string) {
	trace := filepath.Join(n.dir, "trace")
	config, before := filepath.Join(n.dir, "traced"), os.Getenv("GIT_CONFIG_GLOBAL")
	check.WriteFile(b, config, gittest.Settings+"[trace2]\n\teventTarget = "+trace+"\n")
	b.Setenv("GIT_CONFIG_GLOBAL", config)
	f()
	b.Setenv("GIT_CONFIG_GLOBAL", before)
	for line := range strings.Lines(check.ReadFile(b, trace)) {
		var event struct {
			Event, SID string
			Argv       []string
		}
		if err := json.Unmarshal([]byte(line), &event); err != nil {
			b.Fatal(err)
		}
		if event.Event == "start" && !strings.Contains(event.SID, "/") {
			commands = append(commands, event.Argv)
		}
	}
	check.Remove(b, trace)
	return commands
}

// benchmarkMessages sends that many messages here, syncs here, and syncs there. Codex there
// acknowledges them afterwards.
func (n *network) benchmarkMessages(b *testing.B, messages int) {
	here, there := n.machines[0], n.machines[1]
	drafts := make([]schema.Message, messages)
	for i := range drafts {
		drafts[i] = draft("claude", "codex")
	}
	var sending, receiving time.Duration
	for b.Loop() {
		for _, result := range here.w.SendAll(b.Context(), drafts, nil) {
			if result.Err != nil {
				b.Fatal(result.Err)
			}
		}
		start := time.Now()
		here.openAndSync(b)
		sending += time.Since(start)
		start = time.Now()
		there.openAndSync(b)
		receiving += time.Since(start)
		entries, err := there.w.Inbox(b.Context(), "codex")
		if err != nil || len(entries) != messages {
			b.Fatalf("%d messages arrived (%v), want %d", len(entries), err, messages)
		}
		for _, e := range entries {
			if err := there.w.Acknowledge(e); err != nil {
				b.Fatal(err)
			}
		}
		there.openAndSync(b)
		here.openAndSync(b)
	}
	b.ReportMetric(float64(sending.Microseconds())/1000/float64(b.N), "ms/sending")
	b.ReportMetric(float64(receiving.Microseconds())/1000/float64(b.N), "ms/receiving")
	b.ReportMetric(0, "ns/op") // the rest prepares it
}

// BenchmarkSize measures what a message that is sent and acknowledged, each with a commit of its own,
// adds to the repository of the remote, before and after git gc.
func BenchmarkSize(b *testing.B) {
	for _, history := range []int{0, *benchHistory} {
		b.Run(fmt.Sprintf("history=%d", history), func(b *testing.B) {
			if history > 0 && testing.Short() {
				b.Skip("it takes minutes")
			}
			n := newHistory(b, history)
			n.git(n.remote, "gc", "--quiet", "--prune=now")
			objects, bytes := n.size(b)
			messages := 0
			for b.Loop() {
				r := n.machines[0].send("claude", "codex")
				n.machines[0].openAndSync(b)
				n.machines[1].openAndSync(b)
				n.machines[1].acknowledge("codex", r.Message.ID)
				n.machines[1].openAndSync(b)
				messages++
			}
			loose, looseBytes := n.size(b)
			n.git(n.remote, "gc", "--quiet", "--prune=now")
			_, packedBytes := n.size(b)
			b.ReportMetric(float64(loose-objects)/float64(messages), "objects/message")
			b.ReportMetric(float64(looseBytes-bytes)/float64(messages)/1024, "KiB-loose/message")
			b.ReportMetric(float64(packedBytes-bytes)/float64(messages)/1024, "KiB-packed/message")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// size returns the number of objects of the remote, and their size on disk in bytes.
func (n *network) size(b *testing.B) (objects, bytes int) {
	for line := range strings.SplitSeq(n.git(n.remote, "count-objects", "-v"), "\n") {
		var name string
		var value int
		if _, err := fmt.Sscanf(line, "%s %d", &name, &value); err != nil {
			b.Fatalf("%q: %v", line, err)
		}
		switch name {
		case "count:", "in-pack:":
			objects += value
		case "size:", "size-pack:":
			bytes += value << 10
		}
	}
	return objects, bytes
}

// BenchmarkArrival measures the time from sending a message on one machine to its arrival on another
// one, with a process on each that syncs every second.
func BenchmarkArrival(b *testing.B) {
	n := newNetwork(b, 2, both...)
	n.settle()
	here, there := n.machines[0], n.machines[1]
	watcher, err := watch.New([]watch.Target{{Workspace: there.w, Agent: "codex"}}, nil)
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	arrivals := make(chan schema.ID)
	go func() {
		defer close(arrivals)
		for event, err := range watcher.Events(ctx) {
			if err == nil && event.Kind == watch.EventArrived {
				arrivals <- event.Message.ID
			}
		}
	}()
	var processes []*process
	for _, m := range n.machines {
		processes = append(processes, n.start(child{Role: "every", Dir: m.dir, Interval: time.Second}))
	}
	var times []time.Duration
	for b.Loop() {
		<-time.After(rand.N(time.Second)) // anywhere between two syncs
		start := time.Now()
		r := here.send("claude", "codex")
		if got := <-arrivals; got != r.Message.ID {
			b.Fatalf("%s arrived, want %s", got, r.Message.ID)
		}
		times = append(times, time.Since(start))
	}
	for _, p := range processes {
		if err := p.end(); err != nil {
			b.Error(err)
		}
	}
	cancel()
	for range arrivals {
	}
	if err := watcher.Close(); err != nil {
		b.Error(err)
	}
	slices.Sort(times)
	for _, percent := range []int{50, 90, 99} {
		at := times[min(len(times)-1, len(times)*percent/100)]
		b.ReportMetric(float64(at.Milliseconds()), fmt.Sprintf("ms-p%d", percent))
	}
	b.ReportMetric(0, "ns/op")
}

// BenchmarkMachines lets machines race on a remote with latency: each sends ten messages and syncs
// after each. It measures the time until all have all, and the pushes that others were faster than.
func BenchmarkMachines(b *testing.B) {
	const each = 10
	for _, machines := range []int{5, 10, 20} {
		b.Run(fmt.Sprintf("machines=%d", machines), func(b *testing.B) {
			var converged time.Duration
			for b.Loop() {
				n := newNetwork(b, machines, both...)
				n.settle()
				for _, m := range n.machines {
					for _, service := range []string{"upload-pack", "receive-pack"} {
						script := writeScript(b, filepath.Join(n.dir, service), fmt.Sprintf("sleep %v; exec git-%s \"$@\"", benchLatency.Seconds(), service))
						n.git(m.clone, "config", "remote.oacp."+strings.ReplaceAll(service, "-", ""), script)
					}
				}
				start := time.Now()
				n.inParallel(func(_ int, m *machine) {
					for range each {
						m.send("claude", "codex")
						if _, err := m.syncWithin(10 * time.Minute); err != nil {
							b.Errorf("%s: %v", m.name, err)
						}
					}
				})
				n.inParallel(func(_ int, m *machine) {
					if _, err := m.trySync(); err != nil {
						b.Errorf("%s: %v", m.name, err)
					}
				})
				converged += time.Since(start)
				for _, m := range n.machines {
					if got := len(m.ids("codex", mailbox.Inbox)); got != machines*each {
						b.Errorf("%s has %d messages, want %d", m.name, got, machines*each)
					}
				}
			}
			b.ReportMetric(converged.Seconds()/float64(b.N), "s-to-converge")
			b.ReportMetric(0, "ns/op")
		})
	}
}
