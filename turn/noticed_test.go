package turn

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/oacp-go/oacp/agent"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/watch"
	"github.com/oacp-go/oacp/schema"
)

// noticedBy returns the fact that a session noticed a message.
func noticedBy(rec *record, session string) fact {
	return fact{Kind: noticed, key: rec.key, Session: session, Program: "codex"}
}

// keysOf returns the keys of messages.
func keysOf(t testing.TB, messages []*schema.Message) []Key {
	t.Helper()
	keys := make([]Key, len(messages))
	for i, m := range messages {
		var err error
		if keys[i], err = KeyOf(m); err != nil {
			t.Fatal(err)
		}
	}
	return keys
}

// noteNoticed notes that sessions noticed messages.
func noteNoticed(t testing.TB, w *mailbox.Workspace, messages []*schema.Message, sessions ...string) {
	t.Helper()
	for _, session := range sessions {
		if err := NoteNoticed(w, "codex", keysOf(t, messages), Noticed{Session: session, Program: "codex"}); err != nil {
			t.Error(err)
		}
	}
}

// wantNoticed checks the stage of a message, and which sessions noticed it.
func wantNoticed(t testing.TB, w *mailbox.Workspace, id schema.ID, stage Stage, sessions ...string) {
	t.Helper()
	p := progress(t, w, id)
	var got []string
	for _, n := range p.Noticed {
		got = append(got, n.Session)
	}
	if p.Stage != stage {
		t.Errorf("the stage is %s, want %s", p.Stage, stage)
	}
	wantTexts(t, "sessions", got, sessions...)
}

// failOnce gives messages a turn that fails, and stops before the next one.
func failOnce(t testing.TB, w *mailbox.Workspace) {
	t.Helper()
	fails := plays(func(context.Context, agent.Request) (agent.Result, error) { return agent.Result{}, errors.New("no") })
	r, rec := newRunner(t, w, Config{NewDriver: fails, FirstRetry: time.Hour})
	ctx, cancel := context.WithCancel(t.Context())
	rec.on = func(e Event) {
		if e.Kind == EventFailed {
			cancel()
		}
	}
	if err := r.Run(ctx); err != nil {
		t.Fatal(err)
	}
}

// TestNoticed follows a message that sessions notice through what may happen to it, also after the
// journal was compacted.
func TestNoticed(t *testing.T) {
	type step = func(*testing.T, *mailbox.Workspace, *schema.Message)
	noticedBy := func(sessions ...string) step {
		return func(t *testing.T, w *mailbox.Workspace, m *schema.Message) {
			noteNoticed(t, w, []*schema.Message{m}, sessions...)
		}
	}
	run := func(c Config) step {
		return func(t *testing.T, w *mailbox.Workspace, _ *schema.Message) {
			if _, err := runOnce(t, w, c); err != nil {
				t.Fatal(err)
			}
		}
	}
	fails := func(t *testing.T, w *mailbox.Workspace, _ *schema.Message) { failOnce(t, w) }
	acknowledged := func(t *testing.T, w *mailbox.Workspace, _ *schema.Message) {
		if err := w.Acknowledge(entries(t, w, "codex", mailbox.Inbox)[0]); err != nil {
			t.Fatal(err)
		}
	}
	restored := func(t *testing.T, w *mailbox.Workspace, m *schema.Message) { restoreOne(t, w, m.ID, "acknowledged") }
	others := Config{AllowFrom: []schema.AgentName{"codex"}}
	for _, test := range []struct {
		name     string
		steps    []step
		stage    Stage
		sessions []string
	}{
		{"not noticed", nil, StageWaiting, nil},
		{"noticed", []step{noticedBy("one")}, StageNoticed, []string{"one"}},
		{"noticed again", []step{noticedBy("one", "two", "one", "two")}, StageNoticed, []string{"one", "two"}},
		{"acknowledged", []step{noticedBy("one"), acknowledged}, StageAcknowledged, []string{"one"}},
		{"noticed when acknowledged", []step{acknowledged, noticedBy("one")}, StageAcknowledged, []string{"one"}},
		{"held", []step{noticedBy("one"), run(others), noticedBy("two")}, StageHeld, []string{"one", "two"}},
		{"answered", []step{noticedBy("one"), run(Config{Reply: true})}, StageAnswered, []string{"one"}},
		{"done", []step{noticedBy("one"), run(Config{}), noticedBy("two")}, StageDone, []string{"one", "two"}},
		{"a turn failed since", []step{noticedBy("one"), fails}, StageWaiting, []string{"one"}},
		{"a turn failed before", []step{fails, noticedBy("one")}, StageNoticed, []string{"one"}},
		{"restored", []step{noticedBy("one"), acknowledged, restored}, StageWaiting, nil},
		{"restored and noticed", []step{noticedBy("one"), acknowledged, restored, noticedBy("one")}, StageNoticed, []string{"one"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorkspace(t)
			m := send(t, w, question("port"))[0]
			for _, step := range test.steps {
				step(t, w, m)
			}
			wantNoticed(t, w, m.ID, test.stage, test.sessions...)
			compactJournal(t, w)
			wantNoticed(t, w, m.ID, test.stage, test.sessions...)
		})
	}
}

func TestNoticedAndExpired(t *testing.T) {
	w := newWorkspace(t)
	expired := question("expired")
	expired.CreatedAt, expired.ExpiresAt = "2020-01-01T00:00:00Z", "2020-01-02T00:00:00Z"
	sent := send(t, w, expired)
	noteNoticed(t, w, sent, "one")
	wantNoticed(t, w, sent[0].ID, StageExpired, "one")
}

// TestNoticedAt checks what is recorded of a session, and that the first time counts.
func TestNoticedAt(t *testing.T) {
	w := newWorkspace(t)
	sent := send(t, w, question("one"), question("two"))
	first := Noticed{Session: "0193", Program: "claude", At: time.Date(2026, 3, 1, 10, 42, 0, 0, time.FixedZone("", 3600))}
	later := first
	later.At = later.At.Add(time.Hour)
	for _, by := range []Noticed{first, later} {
		if err := NoteNoticed(w, "codex", keysOf(t, sent), by); err != nil {
			t.Fatal(err)
		}
	}
	first.At = first.At.UTC()
	for _, m := range sent {
		if got := progress(t, w, m.ID).Noticed; !reflect.DeepEqual(got, []Noticed{first}) {
			t.Errorf("noticed %+v, want %+v", got, first)
		}
	}
	for name, err := range map[string]error{
		"no session":    NoteNoticed(w, "codex", keysOf(t, sent), Noticed{Program: "claude"}),
		"no program":    NoteNoticed(w, "codex", keysOf(t, sent), Noticed{Session: "0193"}),
		"unknown agent": NoteNoticed(w, "gemini", keysOf(t, sent), first),
		"no agent":      NoteNoticed(w, "../x", keysOf(t, sent), first),
	} {
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if err := NoteNoticed(w, "claude", nil, first); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(w.Dir(), turnsFolder, "claude.jsonl")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the journal of an agent that noticed nothing: %v, want none", err)
	}
}

// TestNoticedIsForgotten checks that a message that somebody removed is forgotten in time, although a
// session noticed it.
func TestNoticedIsForgotten(t *testing.T) {
	j := newJournal(t)
	now := time.Now()
	j.now = func() time.Time { return now }
	gone, pending := recordNumber(0), recordNumber(1)
	j.mustAppend(t, noticedBy(gone, "one"), noticedBy(pending, "one"), fact{Kind: removed, key: gone.key}, noticedBy(gone, "two"))
	now = now.Add(keepFor + time.Hour)
	if err := j.compact(1); err != nil {
		t.Fatal(err)
	}
	if _, known := j.get(gone.key); known {
		t.Error("the history keeps a message that was removed long ago")
	}
	if rec, _ := j.get(pending.key); len(rec.Noticed) != 1 {
		t.Error("the history forgot that a pending message was noticed")
	}
}

// TestNotedBesideARunner notes messages while a Runner works them: each has one turn, and no line of the
// journal is damaged.
func TestNotedBesideARunner(t *testing.T) {
	w := newWorkspace(t)
	var drafts []schema.Message
	for n := range 20 {
		drafts = append(drafts, question(fmt.Sprint(n)))
	}
	sent := send(t, w, drafts...)
	var noting sync.WaitGroup
	for session := range 4 {
		noting.Go(func() {
			for _, m := range sent {
				noteNoticed(t, w, []*schema.Message{m}, fmt.Sprint("session-", session))
			}
		})
	}
	rec, err := runOnce(t, w, Config{Parallel: 4})
	if err != nil {
		t.Errorf("Run = %v", err)
	}
	noting.Wait()
	if got := len(rec.of(EventStarted)); got != len(sent) {
		t.Errorf("%d turns, want %d: %s", got, len(sent), rec.kinds())
	}
	for _, m := range sent {
		if p := progress(t, w, m.ID); p.Stage != StageDone || p.Attempts != 1 || len(p.Noticed) != 4 {
			t.Errorf("progress %+v, want done after one turn, and noticed by four sessions", p)
		}
	}
	data, err := os.ReadFile(filepath.Join(w.Dir(), turnsFolder, "codex.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	if _, used, bad := historyOf(t, data); used != int64(len(data)) || bad > 0 {
		t.Errorf("read %d bytes of %d, with %d bad lines", used, len(data), bad)
	}
}

// TestNoticedLeavesTurnsAlone checks that for a Runner a noticed message is like any other.
func TestNoticedLeavesTurnsAlone(t *testing.T) {
	j := newJournal(t)
	rec := recordNumber(1)
	lostIt := failed.about(rec)
	lostIt.RetryAt = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, f := range []fact{held.about(rec), started.about(rec), lostIt, succeeded.about(rec), {Kind: acknowledged, key: rec.key}, {Kind: revived, key: rec.key}} {
		j.mustAppend(t, f)
		before, _ := j.get(rec.key)
		released, failures := j.history.released, j.history.failures
		j.mustAppend(t, noticedBy(rec, "one"))
		after, _ := j.get(rec.key)
		before.Noticed, after.Noticed = nil, nil
		if !reflect.DeepEqual(after, before) || j.history.released != released || j.history.failures != failures {
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
	j := newJournal(t)
	j.mustAppend(t, lifeOf(100)...)
	counter := &readCounter{journalFile: j.file}
	j.file = counter
	if err := j.appendUnread([]fact{noticedBy(recordNumber(1), "one")}); err != nil || counter.bytes > 1 {
		t.Errorf("appendUnread = %v after %d bytes were read, want one at most", err, counter.bytes)
	}
}

// TestNotedOnAFaultyDisk checks that a message counts as noticed only if the whole fact is in the
// journal, and that noting it again is enough.
func TestNotedOnAFaultyDisk(t *testing.T) {
	facts := []fact{noticedBy(recordNumber(1), "one"), noticedBy(recordNumber(2), "one")}
	line, err := json.Marshal(facts[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, room := range []int{0, 1, len(line) / 2, len(line) - 8, 2 * len(line)} {
		j, f := withJournalFaults(t)
		f.room = room
		if err := j.appendUnread(facts); !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), j.path) {
			t.Errorf("room for %d bytes: %v, want ENOSPC and the path", room, err)
		}
		if err := j.refresh(); err != nil || j.bad > 0 || len(j.history.records) > room/len(line) {
			t.Errorf("room for %d bytes: %d records and %d bad lines (%v)", room, len(j.history.records), j.bad, err)
		}
		f.failSync = true
		if err := j.appendUnread(facts); !errors.Is(err, errFault) {
			t.Errorf("appendUnread = %v, want the error of the sync", err)
		}
		if err := j.appendUnread(facts); err != nil {
			t.Error(err)
		}
		if err := j.refresh(); err != nil || j.bad > 0 {
			t.Errorf("%d bad lines (%v)", j.bad, err)
		}
		for n := range 2 {
			if rec, _ := j.get(recordNumber(n + 1).key); len(rec.Noticed) != 1 {
				t.Errorf("record %+v, want it noticed once", rec)
			}
		}
	}
}

// TestNotedAfterACrash cuts a journal in its last line at every byte: the next fact is on a line of its
// own.
func TestNotedAfterACrash(t *testing.T) {
	w := newWorkspace(t)
	sent := send(t, w, question("one"), question("two"))
	noteNoticed(t, w, sent[:1], "session")
	path := filepath.Join(w.Dir(), turnsFolder, "codex.jsonl")
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for size := range len(whole) + 1 {
		if err := os.WriteFile(path, whole[:size], 0o644); err != nil {
			t.Fatal(err)
		}
		noteNoticed(t, w, sent[1:], "session")
		first := StageWaiting
		if size >= len(whole)-1 { // at most the end of the line was missing
			first = StageNoticed
		}
		if p := progress(t, w, sent[0].ID); p.Stage != first {
			t.Errorf("cut at %d: the torn fact makes the stage %s, want %s", size, p.Stage, first)
		}
		if p := progress(t, w, sent[1].ID); p.Stage != StageNoticed {
			t.Errorf("cut at %d: the next message is %s, want it noticed", size, p.Stage)
		}
	}
}

// TestAwaitNoticed waits for two recipients, of which each gets further with the message in another way.
func TestAwaitNoticed(t *testing.T) {
	noteIt := func(t *testing.T, w *mailbox.Workspace, m *schema.Message) {
		noteNoticed(t, w, []*schema.Message{m}, "session")
	}
	for _, test := range []struct {
		name   string
		happen func(*testing.T, *mailbox.Workspace, *schema.Message)
		stage  Stage
	}{
		{"noticed", noteIt, StageNoticed},
		{"noticed and compacted", func(t *testing.T, w *mailbox.Workspace, m *schema.Message) {
			noteIt(t, w, m)
			compactJournal(t, w)
		}, StageNoticed},
		{"acknowledged", func(t *testing.T, w *mailbox.Workspace, _ *schema.Message) {
			if err := w.Acknowledge(entries(t, w, "codex", mailbox.Inbox)[0]); err != nil {
				t.Error(err)
			}
		}, StageAcknowledged},
		{"a turn that fails", func(t *testing.T, w *mailbox.Workspace, _ *schema.Message) { failOnce(t, w) }, StageWaiting},
		{"a dead letter", func(t *testing.T, w *mailbox.Workspace, _ *schema.Message) {
			if _, err := w.DeadLetter(entries(t, w, "codex", mailbox.Inbox)[0], mailbox.DeadLetterReason{Reason: "no"}); err != nil {
				t.Error(err)
			}
		}, StageDead},
	} {
		for _, journal := range []string{"new", "old"} {
			t.Run(test.name+"/"+journal, func(t *testing.T) {
				w := newWorkspace(t, "claude", "codex", "gemini")
				if journal == "old" {
					noteNoticed(t, w, send(t, w, question("before")), "session")
					if err := w.Acknowledge(entries(t, w, "codex", mailbox.Inbox)[0]); err != nil {
						t.Fatal(err)
					}
				}
				draft := question("port")
				draft.To = append(draft.To, "gemini")
				r, err := w.Send(t.Context(), draft, nil)
				if err != nil {
					t.Fatal(err)
				}
				noted := Noticed{Session: "session", Program: "codex"}
				if err := NoteNoticed(w, "gemini", keysOf(t, []*schema.Message{r.Message}), noted); err != nil {
					t.Fatal(err)
				}
				waited := make(chan error, 1)
				go func() { waited <- AwaitNoticed(t.Context(), w, r) }()
				test.happen(t, w, r.Message)
				err = <-waited
				if dead := new(watch.DeadLetterError); errors.As(err, &dead) != (test.stage == StageDead) || err != nil && test.stage != StageDead {
					t.Errorf("AwaitNoticed = %v for a message that is %s", err, test.stage)
				}
				all, err := Track(t.Context(), w, string(r.Message.ID))
				if err != nil || all[0].Stage != test.stage || all[1].Stage != StageNoticed {
					t.Errorf("progress %+v (%v), want %s and noticed", all, err, test.stage)
				}
			})
		}
	}
}

func TestAwaitNoticedEndsWithItsContext(t *testing.T) {
	w := newWorkspace(t, "claude", "codex", "gemini")
	draft := question("port")
	draft.To = append(draft.To, "gemini")
	r, err := w.Send(t.Context(), draft, nil)
	if err != nil {
		t.Fatal(err)
	}
	noteNoticed(t, w, []*schema.Message{r.Message}, "session") // one of two
	ctx, cancel := context.WithCancel(t.Context())
	waited := make(chan error, 1)
	go func() { waited <- AwaitNoticed(ctx, w, r) }()
	cancel()
	if err := <-waited; !errors.Is(err, context.Canceled) {
		t.Errorf("AwaitNoticed = %v, want context.Canceled", err)
	}
}

// BenchmarkNoteNoticed notes a message beside a journal of 8 MB.
func BenchmarkNoteNoticed(b *testing.B) {
	w := newWorkspace(b)
	sent := send(b, w, question("one"))
	j, err := openJournal(w, "codex", time.Now)
	if err != nil {
		b.Fatal(err)
	}
	line, err := json.Marshal(started.about(recordNumber(1)))
	if err != nil {
		b.Fatal(err)
	}
	filler := []byte(strings.Repeat(string(line)+"\n", compactAbove/len(line)))
	if err := errors.Join(j.add(filler), j.close()); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		noteNoticed(b, w, sent, "session")
	}
}
