package mailbox

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// sinceLayouts are the forms of ISO 8601 that ParseSince reads. Fractions of
// seconds may follow the seconds.
var sinceLayouts = []string{
	time.RFC3339, "2006-01-02T15:04:05Z0700", "2006-01-02T15:04Z07:00", "2006-01-02T15:04Z0700",
	"2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02",
}

// sinceUnits are the units of ages.
var sinceUnits = map[byte]time.Duration{'s': time.Second, 'm': time.Minute, 'h': time.Hour, 'd': 24 * time.Hour}

// maxSinceAge bounds ages, so that no arithmetic overflows.
const maxSinceAge = 100 * 365 * 24 * time.Hour

// ParseSince reads a time from which on messages are new: now, epoch, an age
// such as 30s, 5m, 2h or 7d, or a time in ISO 8601, in UTC if it does not say.
func ParseSince(text string, now time.Time) (time.Time, error) {
	trimmed := strings.TrimSpace(text)
	switch strings.ToLower(trimmed) {
	case "now":
		return now, nil
	case "epoch":
		return time.Unix(0, 0).UTC(), nil
	}
	if age, ok := parseAge(trimmed); ok {
		return now.Add(-age), nil
	}
	if len(trimmed) > len("2006-01-02") && trimmed[len("2006-01-02")] == ' ' {
		trimmed = trimmed[:len("2006-01-02")] + "T" + trimmed[len("2006-01-02 "):]
	}
	for _, layout := range sinceLayouts {
		if at, err := time.Parse(layout, strings.ToUpper(trimmed)); err == nil {
			return at.UTC(), nil
		}
	}
	return time.Time{}, fmt.Errorf("%q is no time: want now, epoch, an age such as 30s, 5m, 2h or 7d, or YYYY-MM-DDTHH:MM:SSZ", text)
}

func parseAge(text string) (time.Duration, bool) {
	if text == "" {
		return 0, false
	}
	unit, ok := sinceUnits[text[len(text)-1]|0x20]
	n, err := strconv.ParseUint(text[:len(text)-1], 10, 32)
	if !ok || err != nil || n > uint64(maxSinceAge/unit) {
		return 0, false
	}
	return time.Duration(n) * unit, true
}
