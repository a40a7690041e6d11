package track

import (
	"encoding/json"
	"errors"
	"os"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/oacp-go/oacp/internal/process"
	"github.com/oacp-go/oacp/internal/testing/check"
	"github.com/oacp-go/oacp/schema"
)

// noticedBy returns the fact that a session noticed a message.
func noticedBy(rec *Record, session string) Fact {
	return Fact{Kind: noted, Envelope: Envelope{Key: rec.Key}, Session: session, Program: "codex"}
}

// TestNoticedIsForgotten checks that a message that a session noticed is forgotten some time after its last fact.
func TestNoticedIsForgotten(t *testing.T) {
	j := openJournal(t)
	now := time.Now()
	j.now = func() time.Time { return now }
	gone, pending := recordNumber(0), recordNumber(1)
	j.mustAppend(t, noticedBy(gone, "one"), noticedBy(pending, "one"), noticedBy(gone, "two"))
	now = now.Add(KeepFor + time.Hour)
	j.mustAppend(t, noticedBy(pending, "two"))
	if err := j.Compact(1); err != nil {
		t.Fatal(err)
	}
	if _, known := j.Get(gone.Key); known {
		t.Error("the history keeps a message that was noticed long ago")
	}
	if rec, _ := j.Get(pending.Key); len(rec.Noticed) != 2 {
		t.Error("the history forgot that a pending message was noticed")
	}
}

// TestNoticedLeavesTurnsAlone checks that for a Runner a noticed message is like any other.
func TestNoticedLeavesTurnsAlone(t *testing.T) {
	j := openJournal(t)
	rec := recordNumber(1)
	lostIt := Failed.About(rec)
	lostIt.RetryAt = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, f := range []Fact{Held.About(rec), Started.About(rec), lostIt, Succeeded.About(rec), {Kind: Acknowledged, Envelope: Envelope{Key: rec.Key}}, {Kind: Revived, Envelope: Envelope{Key: rec.Key}}} {
		j.mustAppend(t, f)
		before, _ := j.Get(rec.Key)
		released, failures := j.history.Released, j.history.failures
		j.mustAppend(t, noticedBy(rec, "one"))
		after, _ := j.Get(rec.Key)
		before.Noticed, after.Noticed = nil, nil
		before.Last = after.Last
		if !reflect.DeepEqual(after, before) || j.history.Released != released || j.history.failures != failures {
			t.Errorf("after %s, noticed made %+v of %+v", f.Kind, after, before)
		}
	}
}

// readCounter is a journal's file that counts the bytes that are read.
type readCounter struct {
	journalFile
	bytes int
}

func (r *readCounter) ReadAt(p []byte, at int64) (int, error) {
	n, err := r.journalFile.ReadAt(p, at)
	r.bytes += n
	return n, err
}

// TestNoticedDoesNotReadTheJournal checks that a fact is added after one byte is read, whatever the size
// of the journal.
func TestNoticedDoesNotReadTheJournal(t *testing.T) {
	j := openJournal(t)
	j.mustAppend(t, lifeOf(100)...)
	counter := &readCounter{journalFile: j.file}
	j.file = counter
	if err := j.write(true, noticedBy(recordNumber(1), "one")); err != nil || counter.bytes > 1 {
		t.Errorf("write = %v after %d bytes were read, want one at most", err, counter.bytes)
	}
}

// TestNotedOnAFaultyDisk checks that a message counts as noticed only if the whole fact is in the
// journal, and that noting it again is enough.
func TestNotedOnAFaultyDisk(t *testing.T) {
	facts := []Fact{noticedBy(recordNumber(1), "one"), noticedBy(recordNumber(2), "one")}
	line, err := json.Marshal(facts[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, room := range []int{0, 1, len(line) / 2, len(line) - 8, 2 * len(line)} {
		j, f := withJournalFaults(t)
		f.room = room
		if err := j.write(true, facts...); !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), j.Path) {
			t.Errorf("room for %d bytes: %v, want ENOSPC and the path", room, err)
		}
		if err := j.Refresh(); err != nil || len(j.history.Records) > room/len(line) {
			t.Errorf("room for %d bytes: %d records (%v)", room, len(j.history.Records), err)
		}
		f.failSync = true
		if err := j.write(true, facts...); !errors.Is(err, errFault) {
			t.Errorf("write = %v, want the error of the sync", err)
		}
		if err := j.write(true, facts...); err != nil {
			t.Error(err)
		}
		if err := j.Refresh(); err != nil {
			t.Error(err)
		}
		factKinds(t, []byte(check.ReadFile(t, j.Path))) // all lines are facts
		for n := range 2 {
			if rec, _ := j.Get(recordNumber(n + 1).Key); len(rec.Noticed) != 1 {
				t.Errorf("record %+v, want it noticed once", rec)
			}
		}
	}
}

// BenchmarkNoteNoticed notes a message beside a journal of 8 MB.
func BenchmarkNoteNoticed(b *testing.B) {
	w := newWorkspace(b)
	k := KeyOf(send(b, w, question("one"))[0])
	j, err := OpenJournal(w, "codex", time.Now)
	if err != nil {
		b.Fatal(err)
	}
	line, err := json.Marshal(Started.About(recordNumber(1)))
	if err != nil {
		b.Fatal(err)
	}
	filler := []byte(strings.Repeat(string(line)+"\n", CompactAbove/len(line)))
	if err := errors.Join(os.WriteFile(j.Path, filler, 0o644), j.Close()); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if err := NoteNoticed(w, "codex", []Key{k}, Noticed{Holder: Holder{Session: "session", Program: "codex"}}); err != nil {
			b.Fatal(err)
		}
	}
}

// TestNoticedBy checks that a holder counts once, and that a session in another process is another holder.
func TestNoticedBy(t *testing.T) {
	first, second := process.Process{PID: 7, Started: "1"}, process.Process{PID: 8, Started: "2"}
	var rec Record
	var want []Noticed
	for _, by := range []Holder{
		{Process: first}, {Process: second}, {Process: first, System: "elsewhere"},
		{Session: "s", Program: "claude", Process: first}, {Session: "s", Program: "claude", Process: second}, {Session: "s", Program: "claude"},
	} {
		rec.addNoticed(Noticed{Holder: by})
		rec.addNoticed(Noticed{Holder: by})
		want = append(want, Noticed{Holder: by})
	}
	if !slices.Equal(rec.Noticed, want) {
		t.Errorf("noticed by %+v, want %+v", rec.Noticed, want)
	}
}

// TestReplyShowsNotice checks that a recipient that asked back has noticed the message, so that it cannot be taken back.
func TestReplyShowsNotice(t *testing.T) {
	w := newWorkspace(t)
	sent := send(t, w, question("one"))[0]
	asked := question("which one?")
	asked.From, asked.To, asked.ParentID = "codex", []schema.AgentName{"claude"}, sent.ID
	send(t, w, asked)
	progress, err := Recall(t.Context(), w, sent)
	if err != nil || progress[0].Stage != StageNoticed {
		t.Errorf("after a question back, the message is %s (%v), want %s", progress[0].Stage, err, StageNoticed)
	}
}

// TestReturn checks that a message that was noticed or worked on is new again once it is returned, that nothing else about
// it changes, and that its sender cannot take it back if it may have been seen.
func TestReturn(t *testing.T) {
	w := newWorkspace(t)
	m := send(t, w, question("one"))[0]
	k, by := KeyOf(m), HolderOf(process.Read(os.Getpid()).Process)
	news := NewsOf(w, "codex")
	for range 2 {
		for _, note := range []func() error{
			func() error {
				inbox, err := w.List(t.Context(), "codex", schema.Inbox)
				if err == nil {
					_, err = Offer(t.Context(), w, "codex", by, inbox, 0, true)
				}
				return errors.Join(err, NoteNoticed(w, "codex", []Key{k}, Noticed{Holder: by}))
			},
			func() error { return NoteWorking(w, "codex", k, "half done", by) },
		} {
			if err := note(); err != nil || news.Has(m) {
				t.Errorf("the message that was noticed is new: %v", err)
			}
			if err := Return(w, "codex", by, false, k); err != nil || !news.Has(m) {
				t.Errorf("the message that is returned is not new: %v", err)
			}
			if err := NoteNoticed(w, "codex", []Key{k}, Noticed{Holder: by}); err != nil || !news.Has(m) {
				t.Errorf("the message is not new because of what its holder had noticed before: %v", err)
			}
		}
	}
	p, err := Track(t.Context(), w, string(m.ID))
	if err != nil || len(p) != 1 || p[0].Stage != StageWaiting || len(p[0].Noticed) > 0 || p[0].Working != nil {
		t.Errorf("the progress of the message is %+v (%v), want none", p, err)
	}
	if p, err := Recall(t.Context(), w, m); err != nil || p[0].Stage != StageWaiting {
		t.Errorf("a message that may have been seen is taken back: %+v (%v)", p, err)
	}
	if err := Return(w, "nobody", by, false, k); err == nil {
		t.Error("an agent that does not exist returns mail")
	}
}

// TestReturnUnwritten checks that a message of which a holder was shown nothing can be taken back, and that an earlier version's
// fact makes a message new.
func TestReturnUnwritten(t *testing.T) {
	w := newWorkspace(t)
	m, other := send(t, w, question("one"))[0], send(t, w, question("two"))[0]
	by := HolderOf(process.Read(os.Getpid()).Process)
	given := offer(t, w, by, 0, false)
	if len(given) != 2 {
		t.Fatalf("%q are given, want both", given)
	}
	if p, err := Recall(t.Context(), w, m); err != nil || p[0].Stage != StageWaiting {
		t.Errorf("a message that a living holder has is taken back: %+v (%v)", p, err)
	}
	if err := Return(w, "codex", by, true, KeyOf(m)); err != nil {
		t.Fatal(err)
	}
	if p, err := Recall(t.Context(), w, m); err != nil || p[0].Stage != StageRecalled {
		t.Errorf("a message of which nothing was written is not taken back: %+v (%v)", p, err)
	}
	if err := appendFacts(w, "codex", Fact{Kind: unread, Envelope: Envelope{Key: KeyOf(other)}}); err != nil || !NewsOf(w, "codex").Has(other) {
		t.Errorf("after unread, the message is not new: %v", err)
	}
}

// TestLandedLedger reads what a version without offers wrote: a living process keeps what it noticed, a dead one does not, and
// what counts as unread is new.
func TestLandedLedger(t *testing.T) {
	w := newWorkspace(t)
	sent := send(t, w, question("living"), question("dead"), question("unread"))
	us := process.Read(os.Getpid()).Process
	dead := process.Process{PID: us.PID, Started: "before"}
	for i, f := range []Fact{{Kind: noted, Process: us}, {Kind: noted, Process: dead}, {Kind: noted, Process: us}, {Kind: unread}} {
		f.Key = KeyOf(sent[min(i, 2)])
		if err := appendFacts(w, "codex", f); err != nil {
			t.Fatal(err)
		}
	}
	news := NewsOf(w, "codex")
	if news.Has(sent[0]) || !news.Has(sent[1]) || !news.Has(sent[2]) {
		t.Errorf("new: %t, %t, %t; want the last two", news.Has(sent[0]), news.Has(sent[1]), news.Has(sent[2]))
	}
	for _, m := range sent {
		if p, err := Recall(t.Context(), w, m); err != nil || p[0].Stage == StageRecalled {
			t.Errorf("%s was noticed, and is taken back (%v)", m.Subject, err)
		}
	}
}

// TestClockSetBack checks that a holder that cannot be seen does not keep a message until a clock catches up that was set back.
func TestClockSetBack(t *testing.T) {
	away := Holder{Process: process.Process{PID: 1}, System: "another container"}
	now := time.Now()
	for ahead, want := range map[time.Duration]bool{time.Minute: true, 24 * time.Hour: false, -time.Minute: true, -time.Hour: false} {
		if got := away.lives(now.Add(ahead), now); got != want {
			t.Errorf("with a sign %v ahead, it lives: %t", ahead, got)
		}
	}
}

// TestReturnOfOne checks that a holder returns only what it has itself: neither what another one has nor what it was given before.
func TestReturnOfOne(t *testing.T) {
	w := newWorkspace(t)
	m := send(t, w, question("one"))[0]
	by, other := HolderOf(process.Read(os.Getpid()).Process), HolderOf(process.Read(os.Getppid()).Process)
	offer(t, w, by, 0, false)
	offer(t, w, other, 0, true)
	if err := Return(w, "codex", other, false, KeyOf(m)); err != nil || NewsOf(w, "codex").Has(m) {
		t.Errorf("a message that a living holder has is new: %v", err)
	}
	offer(t, w, by, 0, true)
	if err := Return(w, "codex", by, true, KeyOf(m)); err != nil || !NewsOf(w, "codex").Has(m) {
		t.Errorf("a message that all have returned is not new: %v", err)
	}
	if p, err := Recall(t.Context(), w, m); err != nil || p[0].Stage != StageWaiting {
		t.Errorf("a message that its holder was given before is taken back: %+v (%v)", p, err)
	}
}
