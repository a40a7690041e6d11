package track

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/oacp-go/oacp/internal/process"
	"github.com/oacp-go/oacp/mailbox"
)

// offer offers the inbox of codex to a holder, and returns the subjects of what that gets.
func offer(t *testing.T, w *mailbox.Workspace, by Holder, most int, again bool) (subjects []string) {
	t.Helper()
	pending, err := w.List(t.Context(), "codex", mailbox.Inbox)
	if err != nil {
		t.Fatal(err)
	}
	given, err := Offer(t.Context(), w, "codex", by, pending, most, again)
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range given {
		subjects = append(subjects, g.Message.Subject)
	}
	return subjects
}

// TestOffer checks what is new to an agent: what no living holder has, whatever turns it had.
func TestOffer(t *testing.T) {
	w := newWorkspace(t)
	sent := send(t, w, question("one"), question("two"), question("three"))
	us := HolderOf(process.Read(os.Getpid()).Process)
	if us.Process.Started == "" {
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
	ended := HolderOf(dead)
	steps := []struct {
		by    Holder
		most  int
		again bool
		want  int
	}{
		{ended, 1, false, 1}, {us, 1, false, 1}, {us, 0, false, 2}, {us, 0, false, 0}, {ended, 0, false, 0}, {us, 2, true, 2}, {us, 0, true, 3},
	}
	for i, step := range steps {
		if got := offer(t, w, step.by, step.most, step.again); len(got) != step.want {
			t.Errorf("step %d shows %q, want %d messages", i, got, step.want)
		}
	}
	var keys []Key
	for _, m := range sent {
		keys = append(keys, KeyOf(m))
	}
	if err := NoteNoticed(w, "codex", keys, Noticed{Holder: us}); err != nil {
		t.Fatal(err)
	}
	if open, err := NewsOf(w, "codex").Open(t.Context()); err != nil || len(open) != 3 || open[0].Shown.IsZero() {
		t.Errorf("%+v are open (%v), want three messages", open, err)
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
	if got := offer(t, w, us, 0, false); got != nil {
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
	if got := offer(t, w, us, 0, false); len(got) != 1 || got[0] != unknown.Subject {
		t.Errorf("after a turn, %q are shown, want %q", got, unknown.Subject)
	}
	if err := w.Acknowledge(pending[0]); err != nil {
		t.Fatal(err)
	}
	given, err := Offer(t.Context(), w, "codex", us, pending[:1], 0, true)
	if given != nil || err != nil {
		t.Errorf("a message that left the inbox is given: %v", err)
	}
}

// TestOfferElsewhere checks that a holder that cannot be seen from here keeps its messages for 30 minutes after its last sign,
// that unknown holders are never the same, and that what a dead one had noticed is said.
func TestOfferElsewhere(t *testing.T) {
	w := newWorkspace(t)
	sent := send(t, w, question("one"), question("two"))
	us := HolderOf(process.Read(os.Getpid()).Process)
	away := Holder{Process: us.Process, System: "another container"}
	if got := offer(t, w, away, 1, false); len(got) != 1 {
		t.Fatalf("%q are given, want one", got)
	}
	if got := offer(t, w, us, 0, false); len(got) != 1 || got[0] != sent[1].Subject {
		t.Errorf("%q are given, want the one that nobody has", got)
	}
	h, err := ReadHistory(w, "codex")
	if err != nil {
		t.Fatal(err)
	}
	rec, now := h.Records[KeyOf(sent[0])], time.Now()
	for after, want := range map[time.Duration]bool{holdFor - time.Minute: false, holdFor + time.Minute: true} {
		if got := h.isNew(rec, false, now.Add(after)); got != want {
			t.Errorf("%v after the offer, the message is new: %t, want %t", after, got, want)
		}
	}
	h.signs[away] = now.Add(time.Hour) // it does something else
	if h.isNew(rec, false, now.Add(time.Hour+time.Minute)) {
		t.Error("a holder that did something a minute ago counts as gone")
	}
	for n := range 2 { // each is somebody else
		unknown := Noticed{Holder{Session: "s", Program: "codex"}, now}
		if rec := (&Record{Noticed: []Noticed{unknown}}); h.isNew(rec, false, now) {
			t.Errorf("look %d: a message that an unknown process has is new", n)
		}
	}
}

// TestShowForgets checks that the journal of an agent that was shown many messages stays small, and keeps what is open.
func TestShowForgets(t *testing.T) {
	w := newWorkspace(t)
	open, next := send(t, w, question("open"))[0], send(t, w, question("next"))[0]
	us := HolderOf(process.Read(os.Getpid()).Process)
	facts := make([]Fact, 0, 3001)
	for n := range 3000 {
		facts = append(facts, Fact{Kind: noted, Envelope: Envelope{Key: recordNumber(n).Key}, Process: us.Process})
	}
	k := KeyOf(open)
	draft := question("once")
	facts = append(facts, noted.by(us, k), Started.About(recordNumber(5000)), Fact{Kind: once, Envelope: Envelope{Key: Key{Fingerprint: "key"}}, Send: &draft})
	if err := appendFacts(w, "codex", facts...); err != nil {
		t.Fatal(err)
	}
	if got := offer(t, w, us, 0, false); len(got) != 1 || got[0] != next.Subject {
		t.Errorf("%q are shown, want %q", got, next.Subject)
	}
	info, err := os.Stat(filepath.Join(w.Dir(), TurnsFolder, JournalName("codex")))
	if err != nil || info.Size() > compactNoticed/10 {
		t.Errorf("the journal has %d bytes: %v", info.Size(), err)
	}
	h, err := ReadHistory(w, "codex")
	if err != nil || len(h.Records) != 4 {
		t.Errorf("%d records are left, want those of two pending messages, of one with a turn and of a key: %v", len(h.Records), err)
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
	offer(t, w, us, 0, false)
	if info, err = os.Stat(filepath.Join(w.Dir(), TurnsFolder, JournalName("codex"))); err != nil || info.Size() < compactNoticed {
		t.Errorf("the journal of a Runner was compacted to %d bytes: %v", info.Size(), err)
	}
	if err := hold.Release(); err != nil {
		t.Fatal(err)
	}
}
