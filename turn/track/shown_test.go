package track

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/oacp-go/oacp/internal/process"
	"github.com/oacp-go/oacp/mailbox"
)

// showAll shows the inbox of codex, and returns the subjects of what it showed.
func showAll(t *testing.T, w *mailbox.Workspace, by process.Process, most int, again bool) (subjects []string) {
	t.Helper()
	pending, err := w.List(t.Context(), "codex", mailbox.Inbox)
	if err != nil {
		t.Fatal(err)
	}
	shown, err := Show(t.Context(), w, "codex", Noticed{Process: by}, pending, most, again, func(chosen []mailbox.Entry) error {
		for _, e := range chosen {
			subjects = append(subjects, e.Message.Subject)
		}
		return nil
	})
	if err != nil || shown != (len(subjects) > 0) {
		t.Fatalf("shown %v with %v: %v", shown, subjects, err)
	}
	return subjects
}

// TestShow checks what is new to an agent: what no living process of it was shown, whatever turns it had.
func TestShow(t *testing.T) {
	w := newWorkspace(t)
	sent := send(t, w, question("one"), question("two"), question("three"))
	us := process.Read(os.Getpid()).Process
	if us.Started == "" {
		t.Skip("this system does not tell when a process began")
	}
	var dead process.Process
	for dead.Started == "" { // unless it ended before it was read
		gone := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^$")
		if err := gone.Start(); err != nil {
			t.Fatal(err)
		}
		dead = process.Read(gone.Process.Pid).Process
		if err := gone.Wait(); err != nil {
			t.Fatal(err)
		}
	}
	steps := []struct {
		by    process.Process
		most  int
		again bool
		want  int
	}{
		{dead, 1, false, 1}, {us, 1, false, 1}, {us, 0, false, 2}, {us, 0, false, 0}, {dead, 0, false, 0}, {us, 2, true, 2}, {us, 0, true, 3},
	}
	for i, step := range steps {
		if got := showAll(t, w, step.by, step.most, step.again); len(got) != step.want {
			t.Errorf("step %d shows %q, want %d messages", i, got, step.want)
		}
	}
	inbox, err := w.Inbox(t.Context(), "codex")
	if err != nil {
		t.Fatal(err)
	}
	if open := NewsOf(w, "codex").Open(inbox); len(open) != 3 || open[0].Shown.IsZero() {
		t.Errorf("%+v are open, want three messages", open)
	}
	// A failed turn makes the message new only if no living process was shown it. A message that is gone is not shown.
	k := KeyOf(sent[0])
	rec := &Record{Envelope: Envelope{Key: k}}
	began, failed := Started.About(rec), Failed.About(rec)
	if err := appendFacts(w, "codex", began, failed); err != nil {
		t.Fatal(err)
	}
	pending, err := w.List(t.Context(), "codex", mailbox.Inbox)
	if err != nil {
		t.Fatal(err)
	}
	if got := showAll(t, w, us, 0, false); got != nil {
		t.Errorf("after a turn, %q are shown again to the same process", got)
	}
	unknown := send(t, w, question("shown to an unknown process"))[0]
	k = KeyOf(unknown)
	if err := NoteNoticed(w, "codex", []Key{k}, Noticed{}); err != nil {
		t.Fatal(err)
	}
	if NewsOf(w, "codex").Has(unknown) {
		t.Error("a message is new to an unknown process that was shown it")
	}
	rec = &Record{Envelope: Envelope{Key: k}}
	if err := appendFacts(w, "codex", Started.About(rec), Failed.About(rec)); err != nil {
		t.Fatal(err)
	}
	if got := showAll(t, w, us, 0, false); len(got) != 1 || got[0] != unknown.Subject {
		t.Errorf("after a turn, %q are shown, want %q", got, unknown.Subject)
	}
	if err := w.Acknowledge(pending[0]); err != nil {
		t.Fatal(err)
	}
	shown, err := Show(t.Context(), w, "codex", Noticed{Process: us}, pending[:1], 0, true, func([]mailbox.Entry) error { return errors.New("shown") })
	if shown || err != nil {
		t.Errorf("a message that left the inbox is shown: %v", err)
	}
	// What cannot be shown stays new.
	later := send(t, w, question("later"))
	pending, err = w.List(t.Context(), "codex", mailbox.Inbox)
	if err != nil {
		t.Fatal(err)
	}
	closed := errors.New("the pipe is closed")
	if _, err := Show(t.Context(), w, "codex", Noticed{Process: us}, pending, 0, false, func([]mailbox.Entry) error { return closed }); !errors.Is(err, closed) {
		t.Errorf("got %v, want %v", err, closed)
	}
	if !NewsOf(w, "codex").Has(later[0]) {
		t.Error("a message that could not be shown is not new")
	}
}

// TestShowForgets checks that the journal of an agent that was shown many messages stays small, and keeps what is open.
func TestShowForgets(t *testing.T) {
	w := newWorkspace(t)
	open, next := send(t, w, question("open"))[0], send(t, w, question("next"))[0]
	us := process.Process{PID: os.Getpid(), Started: process.Read(os.Getpid()).Started}
	facts := make([]Fact, 0, 3001)
	for n := range 3000 {
		facts = append(facts, Fact{Kind: noted, Envelope: Envelope{Key: recordNumber(n).Key}, Process: us})
	}
	k := KeyOf(open)
	facts = append(facts, Fact{Kind: noted, Envelope: Envelope{Key: k}, Process: us}, Started.About(recordNumber(5000)))
	if err := appendFacts(w, "codex", facts...); err != nil {
		t.Fatal(err)
	}
	if got := showAll(t, w, us, 0, false); len(got) != 1 || got[0] != next.Subject {
		t.Errorf("%q are shown, want %q", got, next.Subject)
	}
	info, err := os.Stat(filepath.Join(w.Dir(), TurnsFolder, JournalName("codex")))
	if err != nil || info.Size() > compactNoticed/10 {
		t.Errorf("the journal has %d bytes: %v", info.Size(), err)
	}
	h, err := ReadHistory(w, "codex")
	if err != nil || len(h.Records) != 3 {
		t.Errorf("%d records are left, want those of two pending messages and of one with a turn: %v", len(h.Records), err)
	}
	// A Runner that works the inbox has the journal open.
	hold, err := LockInbox(t.Context(), w, "codex", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if err := appendFacts(w, "codex", facts[:3000]...); err != nil {
		t.Fatal(err)
	}
	send(t, w, question("last"))
	showAll(t, w, us, 0, false)
	if info, err = os.Stat(filepath.Join(w.Dir(), TurnsFolder, JournalName("codex"))); err != nil || info.Size() < compactNoticed {
		t.Errorf("the journal of a Runner was compacted to %d bytes: %v", info.Size(), err)
	}
	if err := hold.Release(); err != nil {
		t.Fatal(err)
	}
}
