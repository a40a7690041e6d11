package main

import (
	"testing"
	"time"
)

// FuzzParseSince checks that a value of --since is refused, or is a time in UTC that means the same
// when it is written out.
func FuzzParseSince(f *testing.F) {
	for _, seed := range []string{"now", "epoch", "5m", "7d", "1h30m", "2026-03-13", "2026-03-13 14:00:00", "2026-03-13T14:00:00.25+02:00", "-5m", "99999999999d"} {
		f.Add(seed)
	}
	now := time.Date(2026, 3, 13, 14, 30, 0, 500, time.UTC)
	f.Fuzz(func(t *testing.T, text string) {
		at, err := parseTime(text, now)
		if err != nil {
			return
		}
		if at.Location() != time.UTC {
			t.Errorf("%q is %v, want it in UTC", text, at)
		}
		if year := at.Year(); year < 0 || year > 9999 {
			return // zones move the first and the last day out of what can be written
		}
		if again, err := parseTime(at.Format(time.RFC3339Nano), now); err != nil || !again.Equal(at) {
			t.Errorf("%q is %v, which reads as %v, %v", text, at, again, err)
		}
	})
}
