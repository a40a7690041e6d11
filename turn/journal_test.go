package turn

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/oacp-go/oacp/internal/jsonl"
	"github.com/oacp-go/oacp/schema"
)

func newJournal(t testing.TB) *journal {
	t.Helper()
	j, err := openJournal(newWorkspace(t), "codex", time.Now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := j.close(); err != nil {
			t.Errorf("closing: %v", err)
		}
	})
	return j
}

func (j *journal) mustAppend(t testing.TB, facts ...fact) {
	t.Helper()
	for _, f := range facts {
		if err := j.append(f, false); err != nil {
			t.Fatal(err)
		}
	}
}

func recordNumber(n int) *record {
	return &record{envelope: envelope{
		key:  key{ID: schema.ID(fmt.Sprintf("msg-20260101T0000Z-claude-%04d", n)), Fingerprint: fmt.Sprintf("%016x", n)},
		File: fmt.Sprint(n, ".yaml"), From: "claude", Type: schema.Question, Subject: "s",
		Conversation: schema.ConversationID(fmt.Sprintf("conv-20260101-claude-%d", n%5)),
	}}
}

// lifeOf returns facts of messages in all states.
func lifeOf(messages int) []fact {
	var facts []fact
	for n := range messages {
		rec := recordNumber(n)
		answer := &schema.Message{ID: rec.ID + "x", From: "codex", To: []schema.AgentName{"claude"}, Subject: "Re: s", Body: schema.TextValue("b")}
		won := succeeded.about(rec)
		won.Session, won.Send, won.DurationMS = fmt.Sprint("session ", n), answer, 12
		lostIt := failed.about(rec)
		lostIt.Reason, lostIt.Output, lostIt.RetryAt = "exit status 1", "tail", time.Date(2026, 1, 1, 0, 0, n, 0, time.UTC)
		gaveUp := dead.about(rec)
		gaveUp.Reason = "enough"
		kept := held.about(rec)
		kept.Reason = "not allowed"
		life := [][]fact{
			{},
			{kept},
			{started.about(rec)},
			{started.about(rec), lostIt},
			{started.about(rec), interrupted.about(rec)},
			{started.about(rec), won},
			{started.about(rec), won, {Kind: answered, key: rec.key, Sent: answer.ID}, {Kind: acknowledged, key: rec.key}},
			{started.about(rec), lostIt, gaveUp, {Kind: buried, key: rec.key}},
			{started.about(rec), gaveUp, {Kind: buried, key: rec.key}, {Kind: revived, key: rec.key}, started.about(rec)},
			{noticedBy(rec, "s1"), noticedBy(rec, "s2"), noticedBy(rec, "s1")},
			{noticedBy(rec, "s1"), started.about(rec), won, {Kind: acknowledged, key: rec.key}, noticedBy(rec, "s2")},
			{started.about(rec), {Kind: bound, Conversation: rec.Conversation, Send: answer}, {Kind: bound, From: "claude"}},
		}
		facts = append(facts, life[n%len(life)]...)
	}
	return facts
}

func TestJournalIsReadAgain(t *testing.T) {
	j := newJournal(t)
	j.mustAppend(t, lifeOf(40)...)
	data, err := os.ReadFile(j.path)
	if err != nil {
		t.Fatal(err)
	}
	again, used, bad := historyOf(t, data)
	if used != int64(len(data)) || bad != 0 {
		t.Errorf("read %d bytes with %d bad lines, want all %d", used, bad, len(data))
	}
	wantSameHistory(t, again, j.history)
}

// historyOf returns the history of a journal, the size of its complete lines, and the number of bad
// lines.
func historyOf(t testing.TB, data []byte) (h *history, used int64, bad int) {
	t.Helper()
	h = newHistory()
	used, bad, err := h.read(jsonl.NewReader(bytes.NewReader(data), 0), 0)
	if err != nil {
		t.Fatal(err)
	}
	return h, used, bad
}

func wantSameHistory(t *testing.T, got, want *history) {
	t.Helper()
	for k, rec := range want.records {
		if !reflect.DeepEqual(got.records[k], rec) {
			t.Errorf("record %+v, want %+v", got.records[k], rec)
		}
	}
	if len(got.records) != len(want.records) || !reflect.DeepEqual(got.conversations, want.conversations) || !reflect.DeepEqual(got.senders, want.senders) {
		t.Errorf("%d records, conversations %+v and senders %+v, want %d, %+v and %+v",
			len(got.records), got.conversations, got.senders, len(want.records), want.conversations, want.senders)
	}
}

// TestJournalAfterACrash cuts a journal at every byte. Complete lines stay, a torn line is skipped,
// and the next line starts on its own.
func TestJournalAfterACrash(t *testing.T) {
	j := newJournal(t)
	j.mustAppend(t, started.about(recordNumber(1)), started.about(recordNumber(2)))
	whole, err := os.ReadFile(j.path)
	if err != nil {
		t.Fatal(err)
	}
	for size := range len(whole) + 1 {
		if err := os.WriteFile(j.path, whole[:size], 0o644); err != nil {
			t.Fatal(err)
		}
		cut, err := openJournal(open(t, filepath.Dir(filepath.Dir(filepath.Dir(j.path)))), "codex", time.Now)
		if err != nil {
			t.Fatal(err)
		}
		before := len(cut.history.records)
		if want := bytes.Count(whole[:size], []byte("\n")); before != want {
			t.Errorf("cut at %d: %d records, want %d", size, before, want)
		}
		cut.mustAppend(t, started.about(recordNumber(3)))
		want := before + 1
		if size < len(whole) && whole[size] == '\n' {
			want++ // only the end of the line was missing
		}
		if got := len(cut.history.records); got != want {
			t.Errorf("cut at %d: %d records after another line, want %d", size, got, want)
		}
		if err := cut.close(); err != nil {
			t.Error(err)
		}
	}
}

func TestJournalTakesInWhatOthersAppend(t *testing.T) {
	w := newWorkspace(t)
	var journals []*journal
	for range 2 {
		j, err := openJournal(w, "codex", time.Now)
		if err != nil {
			t.Fatal(err)
		}
		journals = append(journals, j)
		defer func() { _ = j.close() }()
	}
	journals[0].mustAppend(t, started.about(recordNumber(1)))
	journals[1].mustAppend(t, started.about(recordNumber(2)))
	if err := journals[0].refresh(); err != nil {
		t.Fatal(err)
	}
	for i, j := range journals {
		if got := len(j.history.records); got != 2 {
			t.Errorf("journal %d knows %d messages, want 2", i, got)
		}
	}
}

func TestJournalIsCompacted(t *testing.T) {
	j := newJournal(t)
	// The last state leaves a bound that a sender's next turn lifts.
	j.mustAppend(t, lifeOf(40)...)
	data, err := os.ReadFile(j.path)
	if err != nil {
		t.Fatal(err)
	}
	before, _, _ := historyOf(t, data)
	if err := j.compact(int64(len(data))); err != nil || len(j.history.records) != len(before.records) {
		t.Fatalf("compacting a small journal: %v", err)
	}
	if same, err := os.ReadFile(j.path); err != nil || !bytes.Equal(same, data) {
		t.Errorf("a small journal became %d bytes (%v), want no change", len(same), err)
	}
	for range 2 {
		j.compacted = 0
		if err := j.compact(1); err != nil {
			t.Fatal(err)
		}
	}
	open := j.file
	if err := j.compact(1); err != nil || j.file != open {
		t.Errorf("a journal that has not grown was compacted again (%v)", err)
	}
	after, err := os.ReadFile(j.path)
	if err != nil || len(after) >= len(data) {
		t.Errorf("%d bytes after %d (%v), want fewer", len(after), len(data), err)
	}
	wantSameHistory(t, j.history, before)
	j.mustAppend(t, started.about(recordNumber(99)))
	if data, err = os.ReadFile(j.path); err != nil {
		t.Fatal(err)
	}
	again, _, _ := historyOf(t, data)
	wantSameHistory(t, again, j.history)
	if old, err := os.ReadFile(j.path + ".old"); err != nil || len(old) == 0 {
		t.Errorf("the previous journal has %d bytes (%v), want it kept", len(old), err)
	}
}

func TestOldMessagesAreForgotten(t *testing.T) {
	j := newJournal(t)
	now := time.Now()
	j.now = func() time.Time { return now }
	old, waiting := recordNumber(0), recordNumber(1)
	j.mustAppend(t, started.about(old), succeeded.about(old), fact{Kind: acknowledged, key: old.key}, started.about(waiting))
	now = now.Add(keepFor + time.Hour)
	if err := j.compact(1); err != nil {
		t.Fatal(err)
	}
	if _, known := j.get(old.key); known {
		t.Error("the history keeps a message that was done long ago")
	}
	if _, known := j.get(waiting.key); !known {
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
		whole, used, bad := historyOf(t, data)
		if used > int64(len(data)) || bad > bytes.Count(data, []byte("\n")) {
			t.Errorf("used %d of %d bytes with %d bad lines", used, len(data), bad)
		}
		// Reading in two pieces gives the same result as reading at once.
		pieces, first, badFirst := historyOf(t, data[:len(data)/2])
		end, badSecond, err := pieces.read(jsonl.NewReader(bytes.NewReader(data), 0), first)
		if end != used || badFirst+badSecond != bad || len(pieces.records) != len(whole.records) || err != nil {
			t.Errorf("in two pieces: %d bytes, %d+%d bad, %d records, %v; at once: %d, %d, %d",
				end, badFirst, badSecond, len(pieces.records), err, used, bad, len(whole.records))
		}
	})
}

func TestJournalThatCannotBeWritten(t *testing.T) {
	w := newWorkspace(t)
	if err := os.MkdirAll(filepath.Join(w.Dir(), turnsFolder, "codex.jsonl"), 0o755); err != nil {
		t.Fatal(err)
	}
	send(t, w, question("q"))
	_, err := runOnce(t, w, Config{})
	if err == nil || !strings.Contains(err.Error(), "codex.jsonl") {
		t.Errorf("Run = %v, want an error naming the journal", err)
	}
	wantTexts(t, "inbox", subjects(t, w, "codex", "inbox"), "q")
}

// TestRecordedJournal reads a journal, and the same one compacted, that an earlier version wrote.
func TestRecordedJournal(t *testing.T) {
	var histories []*history
	for _, name := range []string{"journal.jsonl", "compacted.jsonl"} {
		data, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		h, used, bad := historyOf(t, data)
		if used != int64(len(data)) || bad > 0 {
			t.Errorf("%s: read %d of %d bytes, %d bad lines", name, used, len(data), bad)
		}
		histories = append(histories, h)
	}
	h := histories[0]
	if s := h.senders["claude"]; len(s.Turns) > 0 {
		t.Errorf("turns of claude %v, want none after a person resumed its conversation", s.Turns)
	}
	delete(h.senders, "claude") // compaction forgets senders without turns
	wantSameHistory(t, histories[1], h)
	got := make(map[string]string)
	for _, rec := range h.records {
		got[rec.Subject] = fmt.Sprintf("%d %s done=%t sent=%t held=%q", rec.Attempts, rec.Outcome, rec.done(), rec.Sent != "", rec.Held)
	}
	want := map[string]string{
		"Goes well":                `1 succeeded done=true sent=true held=""`,
		"Fails once":               `2 succeeded done=true sent=true held=""`,
		"Fails":                    `3 dead done=true sent=true held=""`,
		"Kills":                    `2 succeeded done=true sent=true held=""`,
		"Bound":                    `1 succeeded done=true sent=true held=""`,
		"Bound too":                `1 succeeded done=true sent=true held=""`,
		"Bound three":              `0  done=false sent=false held=""`,
		"Paused: codex and claude": `1 succeeded done=true sent=false held=""`,
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("records %q, want %q", got, want)
	}
	if c := h.conversations["conv-20260313-claude-1"]; c.Turns != 0 || c.Bound || c.With != "claude" {
		t.Errorf("conversation %+v, want it resumed, and its interrupted turn not counted", c)
	}
}
