package watch

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oacp-go/oacp/internal/testing/mailboxtest"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// arrivals is the number of messages that the restart tests send.
var arrivals = flag.Int("arrivals", 1200, "messages to send while watchers are restarted")

const senders = 8

// sendInBursts sends messages to codex from several senders at once, in bursts of up to a hundred,
// and returns their ids when all are sent.
func sendInBursts(t *testing.T, dir string, count int) func() map[schema.ID]bool {
	t.Helper()
	w, err := mailbox.Open(dir, &mailbox.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	var mutex sync.Mutex
	sent := make(map[schema.ID]bool, count)
	var running sync.WaitGroup
	for sender := range senders {
		random := rand.New(rand.NewPCG(uint64(sender), 7))
		running.Go(func() {
			m := mailboxtest.Draft("codex")
			m.From = schema.AgentName(fmt.Sprintf("sender%d", sender))
			for left := count / senders; left > 0; {
				burst := min(left, 1+random.IntN(100))
				left -= burst
				for range burst {
					r, err := w.Send(context.Background(), m, &mailbox.SendOptions{Create: true})
					if err != nil {
						t.Errorf("sending: %v", err)
						return
					}
					mutex.Lock()
					sent[r.Message.ID] = true
					mutex.Unlock()
				}
				time.Sleep(time.Duration(random.IntN(20)) * time.Millisecond) // between two bursts
			}
		})
	}
	return sync.OnceValue(func() map[schema.ID]bool {
		running.Wait()
		if err := w.Close(); err != nil {
			t.Errorf("closing: %v", err)
		}
		return sent
	})
}

// TestWatchRestarts stops watchers at random and starts others, which follow or scan, while
// messages arrive: each is seen exactly once.
func TestWatchRestarts(t *testing.T) {
	t.Parallel()
	w := mailboxtest.NewBare(t, "codex")
	finished := sendInBursts(t, w.Dir(), *arrivals)
	done := make(chan struct{})
	go func() { finished(); close(done) }()
	seen := make(map[schema.ID]int, *arrivals)
	random := rand.New(rand.NewPCG(1, 2))
	watchers := 0
	for last := false; !last; watchers++ {
		select {
		case <-done:
			last = true
		default:
		}
		watchOnce(t, w, random, last, seen)
	}
	wantScan(t, w, Options{Cursor: true}, "codex")
	wantSeenOnce(t, seen, finished())
	t.Logf("%d messages, %d watchers", len(seen), watchers)
}

// watchOnce runs one watcher for one or two loops, each of which ends after a random number of
// events or of milliseconds. The last watcher scans.
func watchOnce(t *testing.T, w *mailbox.Workspace, random *rand.Rand, last bool, seen map[schema.ID]int) {
	t.Helper()
	watcher := newTestWatcher(t, w, Options{Cursor: true}, "codex")
	for range 1 + random.IntN(2) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(1+random.IntN(100))*time.Millisecond)
		events, left := watcher.Events(ctx), random.IntN(max(2, *arrivals/20))
		if last {
			events, left = watcher.Scan(t.Context()), -1
		} else if random.IntN(4) == 0 {
			events = watcher.Scan(ctx)
		}
		for event, err := range events {
			if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
				break
			}
			if err != nil || event.Kind != EventArrived {
				t.Fatalf("unexpected error %v or event %s", err, describe(event))
			}
			seen[event.Message.ID]++
			if left--; left == 0 {
				cancel()
			}
		}
		cancel()
	}
	if err := watcher.Close(); err != nil {
		t.Fatal(err)
	}
}

func wantSeenOnce(t *testing.T, seen map[schema.ID]int, sent map[schema.ID]bool) {
	t.Helper()
	for id := range sent {
		if seen[id] != 1 {
			t.Errorf("message %s was seen %d times, want once", id, seen[id])
		}
	}
	if len(seen) != len(sent) {
		t.Errorf("%d messages were seen, want %d", len(seen), len(sent))
	}
}

const watchChildDir = "OACP_TEST_WATCH_DIR"

// TestWatchChild is the process that TestWatchKilled kills. It prints the id of each message.
func TestWatchChild(t *testing.T) {
	t.Parallel()
	dir := os.Getenv(watchChildDir)
	if dir == "" {
		t.Skip("it runs as a process of TestWatchKilled")
	}
	w := mailboxtest.Open(t, dir)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // it ends when the parent does
		cancel()
	}()
	for event, err := range newTestWatcher(t, w, Options{Cursor: true}, "codex").Events(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		fmt.Println("saw", event.Message.ID)
	}
}

// TestWatchKilled kills watchers at random while messages arrive: none is missed, though some may
// be seen twice.
func TestWatchKilled(t *testing.T) {
	t.Parallel()
	w := mailboxtest.NewBare(t, "codex")
	finished := sendInBursts(t, w.Dir(), *arrivals/2)
	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	seen := make(map[schema.ID]int)
	random := rand.New(rand.NewPCG(3, 4))
	total := *arrivals / 2 / senders * senders
	lines, kills := 0, 0
	for ; len(seen) < total; kills++ {
		child := exec.Command(executable, "-test.run=^TestWatchChild$")
		child.Env = append(os.Environ(), watchChildDir+"="+w.Dir())
		if _, err := child.StdinPipe(); err != nil {
			t.Fatal(err)
		}
		out, err := child.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		left := 1 + random.IntN(total/2)
		// Its output before the kill counts, too.
		for scanner := bufio.NewScanner(out); scanner.Scan(); {
			if id, ok := strings.CutPrefix(scanner.Text(), "saw "); ok {
				seen[schema.ID(id)]++
				lines++
				left--
			}
			if left == 0 || len(seen) == total {
				left = -1
				if err := child.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
		}
		_ = child.Wait() // it was killed
	}
	for id := range finished() {
		if seen[id] == 0 {
			t.Errorf("message %s was never seen", id)
		}
	}
	t.Logf("%d messages, %d watchers killed, %d repeated", len(seen), kills, lines-len(seen))
	entries, err := filepath.Glob(filepath.Join(w.Dir(), cursorsName, "codex.json"))
	if err != nil || len(entries) != 1 {
		t.Errorf("the cursors are %q, %v, want one", entries, err)
	}
}
