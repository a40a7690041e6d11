package schema

import (
	"strings"
	"testing"
	"time"
)

func TestParseTimestamp(t *testing.T) {
	for text, want := range map[Timestamp]time.Time{
		"2026-03-13T14:30:00Z": testTime,
		"2024-02-29T23:59:59Z": time.Date(2024, 2, 29, 23, 59, 59, 0, time.UTC),
		"1970-01-01T00:00:00Z": time.Unix(0, 0).UTC(),
	} {
		if got, err := ParseTimestamp(text); err != nil || !got.Equal(want) || NewTimestamp(got) != text {
			t.Errorf("ParseTimestamp(%q) = %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []Timestamp{
		"", "2026-03-13", "2026-03-13T14:30Z", "2026-03-13T14:30:00", "2026-03-13T14:30:00z", "2026-03-13 14:30:00Z", "2026-03-13t14:30:00Z",
		"2026-03-13T14:30:00.5Z", "2026-03-13T14:30:00,5Z", "2026-03-13T14:30:00+00:00", "2026-03-13T14:30:00+01:00", "20260313T143000Z",
		"2026-02-29T14:30:00Z", "2026-13-01T14:30:00Z", "2026-03-32T14:30:00Z", "2026-03-13T24:00:00Z", "2026-03-13T14:60:00Z", "2026-03-13T14:30:60Z",
		"2026-3-13T14:30:00Z", " 2026-03-13T14:30:00Z", "2026-03-13T14:30:00Z\n", "٢٠٢٦-03-13T14:30:00Z",
	} {
		if got, err := ParseTimestamp(text); err == nil || !text.Time().IsZero() {
			t.Errorf("ParseTimestamp(%q) = %v, want it refused", text, got)
		}
	}
	if got := NewTimestamp(time.Date(2026, 3, 13, 15, 30, 0, 999, time.FixedZone("", 3600))); got != "2026-03-13T14:30:00Z" {
		t.Errorf("NewTimestamp = %q, want it in UTC and cut to the second", got)
	}
}

func TestExpiredAt(t *testing.T) {
	tests := []struct {
		expires Timestamp
		want    bool
	}{
		{"", false}, {"no time", false}, {"2026-03-13T14:30:01Z", false}, {"2026-03-13T14:30:00Z", true}, {"2026-03-13T14:29:59Z", true},
	}
	for _, test := range tests {
		m := Message{ExpiresAt: test.expires}
		if got := m.ExpiredAt(testTime); got != test.want {
			t.Errorf("a message that expires at %q is expired at %s: %t, want %t", test.expires, testTime, got, test.want)
		}
	}
}

// FuzzParseTimestamp checks that a timestamp is accepted only as it would be written.
func FuzzParseTimestamp(f *testing.F) {
	for _, text := range []string{"2026-03-13T14:30:00Z", "2026-03-13T14:30:00.0Z", "2026-03-13T14:30:00+00:00", "0000-01-01T00:00:00Z", strings.Repeat("0", 20)} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if got, err := ParseTimestamp(Timestamp(text)); err == nil && NewTimestamp(got) != Timestamp(text) {
			t.Errorf("%q is accepted and written as %q", text, NewTimestamp(got))
		}
	})
}
