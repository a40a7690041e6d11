package gitmail_test

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oacp-go/oacp/internal/testing/gittest"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/gitmail"
)

var benchHeld = flag.Int("bench-held", 100_000, "how many handled messages the machine of BenchmarkHeld holds")

// TestNextSyncListsNothing syncs right after a sync that sent a message.
func TestNextSyncListsNothing(t *testing.T) {
	n := newNetwork(t, 1, both...)
	here := n.machines[0]
	here.send("claude", "codex")
	at := time.Now().Add(-time.Second).Truncate(time.Second).Add(123_456_789) // a file system that keeps nanoseconds
	for _, agent := range both {
		for _, box := range []mailbox.Box{mailbox.Inbox, mailbox.Archive, mailbox.Outbox, mailbox.DeadLetters} {
			if err := os.Chtimes(here.w.BoxPath(agent, box), at, at); err != nil && !os.IsNotExist(err) {
				t.Fatal(err)
			}
		}
	}
	steps := func() (names []string) {
		r, err := gitmail.Open(t.Context(), here.w)
		if err != nil {
			t.Fatal(err)
		}
		r.SetStep(func(name string) { names = append(names, name) })
		if _, err := r.Sync(t.Context(), gitmail.Options{}); err != nil {
			t.Fatal(err)
		}
		return names
	}
	if first, next := steps(), steps(); !slices.Contains(first, "pushed") || slices.Contains(next, "merged") {
		t.Errorf("the steps are %v, then %v", first, next)
	}
}

// BenchmarkHeld measures a machine that holds what it says: the files of a hundred handled messages of one agent, or of many. It
// reports the first publish, and the CPU time, with that of git on both machines, of a sync with one message to send and of the
// next one, and for the large machine these as multiples of the small one's. x-git is the sync with one message as a multiple of
// git fast-import and git push of one file.
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
			published := time.Since(start)
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
				total["git"] += here.commitFile()
				<-time.After(3 * time.Second)
				measure("settled")
			}
			b.ReportMetric(published.Seconds(), "s-publish") // the loop removes what was reported before
			for _, line := range first.lines {
				var memory int64
				if _, err := fmt.Sscanf(line, "memory: %d KiB", &memory); err == nil {
					b.ReportMetric(float64(memory>>10), "MiB-publish")
				}
			}
			b.ReportMetric(total["one"].Seconds()/total["git"].Seconds(), "x-git")
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

// commitFile commits one file on the branch with git alone, pushes the commit to a branch of its own, and returns the CPU time.
func (m *machine) commitFile() (spent time.Duration) {
	const ref = "refs/heads/bare"
	commands := [][]string{{"fast-import", "--quiet", "--done", "--force"}, {"push", "--quiet", "--force", "oacp", ref}}
	for i, arguments := range append([][]string{{"push", "--quiet", "--force", "oacp", baseRef + ":" + ref}}, commands...) {
		command := exec.Command("git", append([]string{"-C", m.dir, "-c", "gc.auto=0"}, arguments...)...)
		command.Env = gittest.Environment()
		command.Stdin = strings.NewReader("commit " + ref + "\ncommitter A <a@example.com> 1700000000 +0000\ndata 1\nx\nfrom " + baseRef +
			"^0\nM 100644 inline agents/claude/outbox/20261128/file\ndata 2\nhi\n\ndone\n")
		if out, err := command.CombinedOutput(); err != nil {
			m.n.t.Fatalf("git %v: %v: %s", arguments, err, out)
		}
		if i > 0 { // the first push only makes the branch
			spent += command.ProcessState.UserTime() + command.ProcessState.SystemTime()
		}
	}
	return spent
}
