package watch

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/oacp-go/oacp/mailbox"
)

// TestSettledByTime checks how long a file without another copy counts as being written.
func TestSettledByTime(t *testing.T) {
	w := newWorkspace(t, "codex")
	entry := mailbox.Entry{Agent: "codex", Box: mailbox.Inbox, Name: "m.yaml"}
	path := put(t, w, "codex", entry.Name, "one")
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
		return Settled(w, entry, seen, now)
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
	seen = Sighting{}
	if !look(now.Add(-Quiet), now) {
		t.Error("a file that was last written long before it is seen is not settled")
	}
}

// TestSettledByCopy checks that another copy with the same bytes proves a file complete, and no other copy does.
func TestSettledByCopy(t *testing.T) {
	w := newWorkspace(t, "claude", "codex", "gemini")
	r := send(t, w, draft("codex", "gemini"))
	inbox := mailbox.Entry{Agent: "codex", Box: mailbox.Inbox, Name: filepath.Base(r.Inboxes[0])}
	outbox := mailbox.Entry{Agent: "claude", Box: mailbox.Outbox, Name: filepath.Base(r.Outbox)}
	archived := mailbox.Entry{Agent: "codex", Box: mailbox.Archive, Name: inbox.Name}
	now := time.Now()
	young := Sighting{Since: now}
	want := func(what string, e mailbox.Entry, want bool) {
		t.Helper()
		if got := Settled(w, e, young, now); got != want {
			t.Errorf("%s: settled %t, want %t", what, got, want)
		}
	}
	want("an inbox copy", inbox, true)
	want("an outbox copy", outbox, true)
	want("a missing file", archived, false)
	text := readFile(t, r.Inboxes[0])
	writeFile(t, r.Inboxes[0], strings.Replace(text, "100", "999", 1))
	want("an inbox copy of the same size with other bytes", inbox, false)
	want("an outbox copy that one of two recipients has", outbox, true)
	writeFile(t, r.Inboxes[1], text[:len(text)-1])
	want("an outbox copy that no recipient has", outbox, false)
	writeFile(t, r.Inboxes[0], text)
	want("the inbox copy again", inbox, true)
	writeFile(t, r.Inboxes[0], text[:len(text)-3])
	want("the beginning of an inbox copy", inbox, false)
	if err := os.Rename(r.Outbox, filepath.Join(filepath.Dir(r.Outbox), "other.yaml")); err != nil {
		t.Fatal(err)
	}
	writeFile(t, r.Inboxes[0], text)
	want("an inbox copy whose outbox copy has another name", inbox, false)
}
