package track

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/oacp-go/oacp/internal/testing/mailboxtest"
	"github.com/oacp-go/oacp/schema"
)

func openJournal(t testing.TB) *Journal {
	t.Helper()
	j, err := OpenJournal(newWorkspace(t), "codex", time.Now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := j.Close(); err != nil {
			t.Errorf("closing: %v", err)
		}
	})
	return j
}

func (j *Journal) mustAppend(t testing.TB, facts ...Fact) {
	t.Helper()
	for _, f := range facts {
		if err := j.Append(f, false); err != nil {
			t.Fatal(err)
		}
	}
}

func recordNumber(n int) *Record {
	return &Record{Envelope: Envelope{
		Key:  Key{ID: schema.ID(fmt.Sprintf("msg-20260101T0000Z-claude-%04d", n)), Fingerprint: fmt.Sprintf("%016x", n)},
		File: fmt.Sprint(n, ".yaml"), From: "claude", Type: schema.Question, Subject: "s",
		Conversation: schema.ConversationID(fmt.Sprintf("conv-20260101-claude-%d", n%5)),
	}}
}

// lifeOf returns facts of messages in all states.
func lifeOf(messages int) []Fact {
	var facts []Fact
	for n := range messages {
		rec := recordNumber(n)
		answer := &schema.Message{ID: rec.ID + "x", From: "codex", To: []schema.AgentName{"claude"}, Subject: "Re: s", Body: schema.TextValue("b")}
		won := Succeeded.About(rec)
		won.Session, won.Send, won.DurationMS = fmt.Sprint("session ", n), answer, 12
		lostIt := Failed.About(rec)
		lostIt.Reason, lostIt.Output, lostIt.RetryAt = "exit status 1", "tail", time.Date(2026, 1, 1, 0, 0, n, 0, time.UTC)
		gaveUp := Dead.About(rec)
		gaveUp.Reason = "enough"
		kept := Held.About(rec)
		kept.Reason = "not allowed"
		life := [][]Fact{
			{},
			{kept},
			{Started.About(rec)},
			{Started.About(rec), lostIt},
			{Started.About(rec), Interrupted.About(rec)},
			{Started.About(rec), won},
			{Started.About(rec), won, {Kind: Answered, Envelope: Envelope{Key: rec.Key}, Sent: answer.ID}, {Kind: Acknowledged, Envelope: Envelope{Key: rec.Key}}},
			{Started.About(rec), lostIt, gaveUp, {Kind: Buried, Envelope: Envelope{Key: rec.Key}}},
			{Started.About(rec), gaveUp, {Kind: Buried, Envelope: Envelope{Key: rec.Key}}, {Kind: Revived, Envelope: Envelope{Key: rec.Key}}, Started.About(rec)},
			{noticedBy(rec, "s1"), noticedBy(rec, "s2"), noticedBy(rec, "s1")},
			{noticedBy(rec, "s1"), Started.About(rec), won, {Kind: Acknowledged, Envelope: Envelope{Key: rec.Key}}, noticedBy(rec, "s2")},
			{Started.About(rec), {Kind: Bound, Envelope: Envelope{Conversation: rec.Conversation}, Send: answer}, {Kind: Bound, Envelope: Envelope{From: "claude"}}},
		}
		facts = append(facts, life[n%len(life)]...)
	}
	return facts
}

func TestJournalIsReadAgain(t *testing.T) {
	j := openJournal(t)
	j.mustAppend(t, lifeOf(40)...)
	data, err := os.ReadFile(j.Path)
	if err != nil {
		t.Fatal(err)
	}
	again := historyOf(t, data)
	if again.end != int64(len(data)) {
		t.Errorf("read %d bytes, want all %d", again.end, len(data))
	}
	wantSameHistory(t, again, j.history)
}

// historyOf returns the history of a journal.
func historyOf(t testing.TB, data []byte) *History {
	t.Helper()
	h := NewHistory()
	if err := h.Read(bytes.NewReader(data)); err != nil {
		t.Fatal(err)
	}
	return h
}

func wantSameHistory(t *testing.T, got, want *History) {
	t.Helper()
	for k, rec := range want.Records {
		if !reflect.DeepEqual(got.Records[k], rec) {
			t.Errorf("record %+v, want %+v", got.Records[k], rec)
		}
	}
	if len(got.Records) != len(want.Records) || !reflect.DeepEqual(got.Conversations, want.Conversations) || !reflect.DeepEqual(got.Senders, want.Senders) {
		t.Errorf("%d records, conversations %+v and senders %+v, want %d, %+v and %+v",
			len(got.Records), got.Conversations, got.Senders, len(want.Records), want.Conversations, want.Senders)
	}
}

// TestJournalAfterACrash cuts a journal at every byte. Complete lines stay, a torn line is skipped,
// and the next line starts on its own.
func TestJournalAfterACrash(t *testing.T) {
	j := openJournal(t)
	j.mustAppend(t, Started.About(recordNumber(1)), Started.About(recordNumber(2)))
	whole, err := os.ReadFile(j.Path)
	if err != nil {
		t.Fatal(err)
	}
	for size := range len(whole) + 1 {
		if err := os.WriteFile(j.Path, whole[:size], 0o644); err != nil {
			t.Fatal(err)
		}
		cut, err := OpenJournal(mailboxtest.Open(t, filepath.Dir(filepath.Dir(filepath.Dir(j.Path)))), "codex", time.Now)
		if err != nil {
			t.Fatal(err)
		}
		before := len(cut.history.Records)
		if want := bytes.Count(whole[:size], []byte("\n")); before != want {
			t.Errorf("cut at %d: %d records, want %d", size, before, want)
		}
		cut.mustAppend(t, Started.About(recordNumber(3)))
		want := before + 1
		if size < len(whole) && whole[size] == '\n' {
			want++ // only the end of the line was missing
		}
		if got := len(cut.history.Records); got != want {
			t.Errorf("cut at %d: %d records after another line, want %d", size, got, want)
		}
		if err := cut.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestJournalTakesInWhatOthersAppend(t *testing.T) {
	w := newWorkspace(t)
	var journals []*Journal
	for range 2 {
		j, err := OpenJournal(w, "codex", time.Now)
		if err != nil {
			t.Fatal(err)
		}
		journals = append(journals, j)
		defer func() { _ = j.Close() }()
	}
	journals[0].mustAppend(t, Started.About(recordNumber(1)))
	journals[1].mustAppend(t, Started.About(recordNumber(2)))
	if err := journals[0].Refresh(); err != nil {
		t.Fatal(err)
	}
	for i, j := range journals {
		if got := len(j.history.Records); got != 2 {
			t.Errorf("journal %d knows %d messages, want 2", i, got)
		}
	}
}

func TestJournalIsCompacted(t *testing.T) {
	j := openJournal(t)
	// The last state leaves a bound that a sender's next turn lifts.
	j.mustAppend(t, lifeOf(40)...)
	data, err := os.ReadFile(j.Path)
	if err != nil {
		t.Fatal(err)
	}
	before := historyOf(t, data)
	if err := j.Compact(int64(len(data))); err != nil || len(j.history.Records) != len(before.Records) {
		t.Fatalf("compacting a small journal: %v", err)
	}
	if same, err := os.ReadFile(j.Path); err != nil || !bytes.Equal(same, data) {
		t.Errorf("a small journal became %d bytes (%v), want no change", len(same), err)
	}
	for range 2 {
		if err := j.Compact(1); err != nil {
			t.Fatal(err)
		}
	}
	after, err := os.ReadFile(j.Path)
	if err != nil || len(after) >= len(data) {
		t.Errorf("%d bytes after %d (%v), want fewer", len(after), len(data), err)
	}
	wantSameHistory(t, j.history, before)
	j.mustAppend(t, Started.About(recordNumber(99)))
	if data, err = os.ReadFile(j.Path); err != nil {
		t.Fatal(err)
	}
	again := historyOf(t, data)
	wantSameHistory(t, again, j.history)
}

func TestOldMessagesAreForgotten(t *testing.T) {
	j := openJournal(t)
	now := time.Now()
	j.now = func() time.Time { return now }
	old, waiting := recordNumber(0), recordNumber(1)
	j.mustAppend(t, Started.About(old), Succeeded.About(old), Fact{Kind: Acknowledged, Envelope: Envelope{Key: old.Key}}, Started.About(waiting))
	now = now.Add(KeepFor + time.Hour)
	if err := j.Compact(1); err != nil {
		t.Fatal(err)
	}
	if _, known := j.Get(old.Key); known {
		t.Error("the history keeps a message that was done long ago")
	}
	if _, known := j.Get(waiting.Key); !known {
		t.Error("the history forgot a message that is not done")
	}
}

func FuzzHistory(f *testing.F) {
	var lines bytes.Buffer
	for _, fact := range lifeOf(10) {
		if err := json.NewEncoder(&lines).Encode(&fact); err != nil {
			f.Fatal(err)
		}
	}
	f.Add(lines.Bytes())
	f.Add([]byte("{\"fact\":\"snapshot\"}\n{\"fact\":\"answered\"}\nnull\n{}\n\x00\n{\"fact\":\"interrupted\",\"id\":\"x\"}\n"))
	f.Add([]byte(`{"fact":"snapshot","record":{"id":"x"}}` + "\n" + `{"fact":"interrupted","id":"x"}` + "\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		whole := historyOf(t, data)
		if whole.end > int64(len(data)) {
			t.Errorf("read %d of %d bytes", whole.end, len(data))
		}
		// Reading in two pieces gives the same result as reading at once.
		pieces := historyOf(t, data[:len(data)/2])
		err := pieces.Read(bytes.NewReader(data))
		if pieces.end != whole.end || len(pieces.Records) != len(whole.Records) || err != nil {
			t.Errorf("in two pieces: %d bytes, %d records, %v; at once: %d, %d",
				pieces.end, len(pieces.Records), err, whole.end, len(whole.Records))
		}
	})
}

// TestRecordedJournal reads a journal, and the same one compacted, that an earlier version wrote.
func TestRecordedJournal(t *testing.T) {
	var histories []*History
	for _, name := range []string{"journal.jsonl", "compacted.jsonl"} {
		data, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		factKinds(t, data) // all lines are facts
		h := historyOf(t, data)
		if h.end != int64(len(data)) {
			t.Errorf("%s: read %d of %d bytes", name, h.end, len(data))
		}
		for _, rec := range h.Records { // that version did not keep it
			rec.Last, rec.MaySeen = time.Time{}, false
		}
		histories = append(histories, h)
	}
	h := histories[0]
	if s := h.Senders["claude"]; len(s.Turns) > 0 {
		t.Errorf("turns of claude %v, want none after a person resumed its conversation", s.Turns)
	}
	delete(h.Senders, "claude") // compaction forgets senders without turns
	wantSameHistory(t, histories[1], h)
	got := make(map[string]string)
	for _, rec := range h.Records {
		got[rec.Subject] = fmt.Sprintf("%d %s done=%t sent=%t held=%q", rec.Attempts, rec.Outcome, rec.Done(), rec.Sent != "", rec.Held)
	}
	want := map[string]string{
		"Goes well":   `1 succeeded done=true sent=true held=""`,
		"Fails once":  `2 succeeded done=true sent=true held=""`,
		"Fails":       `3 dead done=true sent=true held=""`,
		"Kills":       `2 succeeded done=true sent=true held=""`,
		"Bound":       `1 succeeded done=true sent=true held=""`,
		"Bound too":   `1 succeeded done=true sent=true held=""`,
		"Bound three": `0  done=false sent=false held=""`,
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("records %q, want %q", got, want)
	}
	if c := h.Conversations["conv-20260313-claude-1"]; c.Turns != 0 || c.Bound || c.With != "claude" {
		t.Errorf("conversation %+v, want it resumed, and its interrupted turn not counted", c)
	}
}

func BenchmarkReadHistory(b *testing.B) {
	w := newWorkspace(b)
	j, err := OpenJournal(w, "codex", time.Now)
	if err != nil {
		b.Fatal(err)
	}
	j.mustAppend(b, lifeOf(10_000)...)
	if err := j.Close(); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := ReadHistory(w, "codex"); err != nil {
			b.Fatal(err)
		}
	}
}
