package watch

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/oacp-go/oacp/internal/testing/check"
	"github.com/oacp-go/oacp/internal/testing/mailboxtest"
	"github.com/oacp-go/oacp/mailbox"
)

// TestSettledByTime checks how long a file without another copy counts as being written.
func TestSettledByTime(t *testing.T) {
	w := mailboxtest.NewBare(t, "codex")
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
	for _, first := range []struct {
		what          string
		modified, now time.Duration
		want          bool
	}{
		{"is a second old, which a new one is where times are whole seconds", -time.Second, 0, false},
		{"got an old time from its writer", -time.Hour, 0, false},
		{"is old", 0, oldAfter + time.Second, true},
		{"has a time to come", 2 * oldAfter, oldAfter + time.Second, false},
	} {
		seen = Sighting{}
		if got := look(now.Add(first.modified), now.Add(first.now)); got != first.want {
			t.Errorf("a file that %s counts as settled at first sight: %t", first.what, got)
		}
		if later := now.Add(first.now + Quiet); !Settled(w, entry, seen, later) {
			t.Errorf("a file that %s is not settled after %v", first.what, Quiet)
		}
	}
}

// TestSettledByCopy checks that another copy with the same bytes proves a file complete, and no other copy does.
func TestSettledByCopy(t *testing.T) {
	w := mailboxtest.NewBare(t, "claude", "codex", "gemini")
	r := mailboxtest.Send(t, w, mailboxtest.Draft("codex", "gemini"))
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
	text := check.ReadFile(t, r.Inboxes[0])
	check.WriteFile(t, r.Inboxes[0], strings.Replace(text, "100", "999", 1))
	want("an inbox copy of the same size with other bytes", inbox, false)
	want("an outbox copy that one of two recipients has", outbox, true)
	check.WriteFile(t, r.Inboxes[1], text[:len(text)-1])
	want("an outbox copy that no recipient has", outbox, false)
	check.WriteFile(t, r.Inboxes[0], text)
	want("the inbox copy again", inbox, true)
	check.WriteFile(t, r.Inboxes[0], text[:len(text)-3])
	want("the beginning of an inbox copy", inbox, false)
	if err := os.Rename(r.Outbox, filepath.Join(filepath.Dir(r.Outbox), "other.yaml")); err != nil {
		t.Fatal(err)
	}
	check.WriteFile(t, r.Inboxes[0], text)
	want("an inbox copy whose outbox copy has another name", inbox, false)
}

// TestSettledByUnfinishedCopy checks that a copy that may be unfinished itself proves nothing, for a
// program may be writing both.
func TestSettledByUnfinishedCopy(t *testing.T) {
	w := mailboxtest.NewBare(t, "claude", "codex")
	var boxes map[string]mailbox.Entry
	resend := func() *mailbox.Receipt {
		r := mailboxtest.Send(t, w, mailboxtest.Draft("codex"))
		boxes = map[string]mailbox.Entry{
			r.Inboxes[0]: {Agent: "codex", Box: mailbox.Inbox, Name: filepath.Base(r.Inboxes[0])},
			r.Outbox:     {Agent: "claude", Box: mailbox.Outbox, Name: filepath.Base(r.Outbox)},
		}
		return r
	}
	want := func(what string, age time.Duration, want bool) {
		t.Helper()
		for path, e := range boxes {
			now := time.Now().Add(age)
			if got := Settled(w, e, Sighting{Since: now}, now); got != want {
				t.Errorf("%s: %s is settled: %t", what, path, got)
			}
		}
	}
	text, old := check.ReadFile(t, resend().Outbox), time.Now().Add(-time.Hour)
	want("both were sent", 0, true)
	for path := range boxes {
		check.WriteFile(t, path, text[:len(text)-9])
	}
	want("both are being written", 0, false)
	want("both were written long ago", 2*oldAfter, true)
	for path := range boxes {
		if err := os.Chtimes(path, old, old); err != nil {
			t.Fatal(err)
		}
	}
	want("both got an old time from their writer", 0, false)
	r := resend()
	if err := errors.Join(os.Remove(r.Inboxes[0]), os.Link(r.Outbox, r.Inboxes[0])); err != nil {
		t.Fatal(err)
	}
	want("both are one file", 0, false)
}
