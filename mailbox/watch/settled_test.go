package watch

import (
	"os"
	"testing"
	"time"

	"github.com/oacp-go/oacp/internal/testing/check"
	"github.com/oacp-go/oacp/internal/testing/mailboxtest"
)

// TestSettledByTime checks how long a file without another copy counts as being written.
func TestSettledByTime(t *testing.T) {
	t.Parallel()
	w := mailboxtest.NewBare(t, "codex")
	path := put(t, w, "codex", "m.yaml", "one")
	now := time.Now()
	var seen Sighting
	look := func(modified, now time.Time) bool {
		t.Helper()
		if err := os.Chtimes(path, modified, modified); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		seen = seen.Seen(info, now)
		return seen.Settled(now)
	}
	for i, step := range []struct {
		modified, now time.Duration
		want          bool
	}{
		{0, 0, false}, {0, Quiet - 1, false}, {0, Quiet, true},
		{Quiet, Quiet, false}, {Quiet, 2*Quiet - 1, false}, {Quiet, 2 * Quiet, true},
		// Another file with an older time took its place.
		{-time.Hour, 3 * Quiet, false}, {-time.Hour, 4 * Quiet, true},
		// A file system with a clock that is ahead.
		{time.Hour, 4 * Quiet, false}, {time.Hour, 5*Quiet - 1, false}, {time.Hour, 5 * Quiet, true},
	} {
		if got := look(now.Add(step.modified), now.Add(step.now)); got != step.want {
			t.Errorf("step %d: settled %t, want %t", i, got, step.want)
		}
	}
	for _, first := range []struct {
		what          string
		modified, now time.Duration
		want          bool
	}{
		{"is a second old, which a new one is where times are whole seconds", now.Truncate(time.Second).Sub(now), 0, false},
		{"got an old time from its writer", -time.Hour, 0, false},
		{"is old", 0, oldAfter + time.Second, true},
		{"has a time to come", 2 * oldAfter, oldAfter + time.Second, false},
	} {
		seen = Sighting{}
		if got := look(now.Add(first.modified), now.Add(first.now)); got != first.want {
			t.Errorf("a file that %s counts as settled at first sight: %t", first.what, got)
		}
		if later := now.Add(first.now + Quiet); !seen.Settled(later) {
			t.Errorf("a file that %s is not settled after %v", first.what, Quiet)
		}
	}
}

// TestSettledByItsTimes checks that a file that was renamed into its place is complete at once, and one
// that is written in place is not.
func TestSettledByItsTimes(t *testing.T) {
	t.Parallel()
	w := mailboxtest.NewBare(t, "claude", "codex")
	r := mailboxtest.Send(t, w, mailboxtest.Draft("codex"))
	old := time.Now().Add(-time.Hour)
	want := func(what, path string, want bool) {
		t.Helper()
		info, err := os.Lstat(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := (Sighting{}).Seen(info, time.Now()).Settled(time.Now()); got != want {
			t.Errorf("%s counts as settled: %t", what, got)
		}
	}
	want("an inbox copy", r.Inboxes[0], true)
	want("an outbox copy", r.Outbox, true)
	text := check.ReadFile(t, r.Outbox)
	check.WriteFile(t, r.Outbox, text[:len(text)-9])
	want("a file that is being written", r.Outbox, false)
	if err := os.Chtimes(r.Outbox, old, old); err != nil {
		t.Fatal(err)
	}
	want("a file that got an old time from its writer", r.Outbox, false)
	if err := os.Mkdir(r.Outbox+".yaml", 0o755); err != nil {
		t.Fatal(err)
	}
	want("a folder", r.Outbox+".yaml", false)
}
