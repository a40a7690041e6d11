package schema

import (
	"fmt"
	"time"
)

// Timestamp is a time in a message: YYYY-MM-DDTHH:MM:SSZ, UTC only. As text
// of that form sorts as the times do, timestamps compare as strings.
type Timestamp string

const timestampLayout = "2006-01-02T15:04:05Z"

// Layouts of the times in ids and file names.
const (
	compactMinute = "20060102T1504Z"
	compactSecond = "20060102T150405Z"
	compactDigits = "20060102150405"
	compactDay    = "20060102"
)

// NewTimestamp returns the time as a message writes it, cut to the second.
func NewTimestamp(t time.Time) Timestamp {
	return Timestamp(t.UTC().Format(timestampLayout))
}

// ParseTimestamp returns the time that the text names. The date must be a
// real one and the form exact.
func ParseTimestamp(text Timestamp) (time.Time, error) {
	if !hasDigitLayout(string(text), timestampLayout) {
		return time.Time{}, fmt.Errorf("%.40q is not of the form YYYY-MM-DDTHH:MM:SSZ", text)
	}
	t, err := time.Parse(timestampLayout, string(text))
	if err != nil {
		return time.Time{}, fmt.Errorf("%q is not a real date and time", text)
	}
	return t, nil
}

// Time returns the time, or the zero time if the text is none.
func (t Timestamp) Time() time.Time {
	parsed, err := ParseTimestamp(t)
	if err != nil {
		return time.Time{}
	}
	return parsed
}

// ExpiredAt reports whether the message is past its expires_at.
func (m *Message) ExpiredAt(now time.Time) bool {
	expires := m.ExpiresAt.Time()
	return !expires.IsZero() && !now.Before(expires)
}

// parseCompactTime reads the timestamp of an id or file name.
func parseCompactTime(text string) (time.Time, error) {
	for _, layout := range []string{compactMinute, compactSecond, compactDigits} {
		if hasDigitLayout(text, layout) {
			t, err := time.Parse(layout, text)
			if err != nil {
				return time.Time{}, fmt.Errorf("%q is not a real date and time", text)
			}
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("%.40q is not a timestamp of the form YYYYMMDDTHHmmZ", text)
}

// hasDigitLayout reports whether the text has ASCII digits where the layout
// has them and the same characters elsewhere; time.Parse alone would let
// fractions of a second pass.
func hasDigitLayout(text, layout string) bool {
	if len(text) != len(layout) {
		return false
	}
	for i := range len(layout) {
		if isDigit(layout[i]) != isDigit(text[i]) || !isDigit(layout[i]) && layout[i] != text[i] {
			return false
		}
	}
	return true
}
