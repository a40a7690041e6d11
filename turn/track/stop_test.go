package track

import (
	"testing"
	"time"
)

// TestStoppedStays checks that a message stays held after a stop, however its turn ended without success, also if its
// Runner was killed before it saw the request, and that compaction never forgets it.
func TestStoppedStays(t *testing.T) {
	key := Envelope{Key: Key{ID: "msg-20260313T1430Z-claude-k3x9"}}
	begin := time.Date(2026, 3, 13, 14, 30, 0, 0, time.UTC)
	for _, end := range []FactKind{Interrupted, Failed, Lost, Succeeded} {
		h := NewHistory()
		for _, f := range []Fact{{Kind: Started}, {Kind: stopped, Reason: "stopped by anna"}, {Kind: end}} {
			f.At, f.Envelope = begin, key
			h.Apply(&f)
		}
		rec, want := h.Records[key.Key], "stopped by anna; oacp restore k3x9 gives it another turn"
		if end == Succeeded {
			want = ""
		}
		if rec.Running || rec.Held != want || rec.Stopped != want {
			t.Errorf("after %s: held %q, stopped %q; want %q", end, rec.Held, rec.Stopped, want)
		}
		if kept := len(h.Snapshots(begin.Add(2*KeepFor))) > 0; kept != (want != "") && end != Succeeded {
			t.Errorf("after %s, compaction keeps it: %v", end, kept)
		}
		h.Apply(&Fact{Kind: Revived, Envelope: key, At: begin})
		if rec.Held != "" || rec.Stopped != "" {
			t.Errorf("after %s and Restore: %+v", end, rec)
		}
	}
}
