package track

import (
	"testing"
	"time"
)

// TestTurns checks that a turn that runs has no end and no reason, even if the turn before it had.
func TestTurns(t *testing.T) {
	w := newWorkspace(t)
	j, err := OpenJournal(w, "codex", time.Now)
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	rec := recordNumber(1)
	failed := Failed.About(rec)
	failed.Reason = "exit status 1"
	j.mustAppend(t, Started.About(rec), failed, Started.About(rec))
	check := func(want ...string) {
		t.Helper()
		turns, err := Turns(w, "codex")
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, turn := range turns {
			state := "running"
			if !turn.Ended.IsZero() {
				state = "ended: " + turn.Reason
			}
			got = append(got, state)
		}
		wantTexts(t, "turns", got, want...)
	}
	check("ended: exit status 1", "running")
	if err := j.Compact(0); err != nil {
		t.Fatal(err)
	}
	check("running")
	j.mustAppend(t, Lost.About(rec))
	check("ended: lost")
}
