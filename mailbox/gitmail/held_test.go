package gitmail_test

import (
	"flag"
	"fmt"
	"runtime"
	"testing"
	"time"
)

var benchHeld = flag.Int("bench-held", 100_000, "how many handled messages the machine of BenchmarkHeld holds")

// BenchmarkHeld measures a machine that holds what it says: the files of a hundred handled messages of one agent, or of many. It
// reports the first publish, and the CPU time, with that of git, of a sync with one message to send and of the next one, and for
// the large machine these as multiples of the small one's.
func BenchmarkHeld(b *testing.B) {
	small := make(map[string]float64)
	for _, messages := range []int{100, *benchHeld} {
		b.Run(fmt.Sprintf("messages=%d", messages), func(b *testing.B) {
			if messages > 100 && testing.Short() {
				b.Skip("it takes minutes")
			}
			n := newNetwork(b, 1, both...)
			here := n.machines[0]
			here.hold(messages)
			runtime.GC()
			start := time.Now()
			first := n.runOnce(child{Role: "once", Dir: here.dir})
			b.ReportMetric(time.Since(start).Seconds(), "s-publish")
			for _, line := range first.lines {
				var memory int64
				if _, err := fmt.Sscanf(line, "memory: %d KiB", &memory); err == nil {
					b.ReportMetric(float64(memory>>10), "MiB-publish")
				}
			}
			total := make(map[string]time.Duration)
			measure := func(what string) {
				p := n.runOnce(child{Role: "once", Dir: here.dir}).command.ProcessState
				total[what] += p.UserTime() + p.SystemTime()
			}
			for b.Loop() {
				<-time.After(3 * time.Second) // the times of folders settle
				n.runOnce(child{Role: "once", Dir: here.dir})
				here.send("claude", "codex")
				measure("one")
				measure("next")
				<-time.After(3 * time.Second)
				measure("settled")
			}
			for what, spent := range total {
				each := spent.Seconds() * 1000 / float64(b.N)
				b.ReportMetric(each, "ms-cpu-"+what)
				if messages == 100 {
					small[what] = each
				} else if small[what] > 0 {
					b.ReportMetric(each/small[what], "x-cpu-"+what)
				}
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}
