package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/oacp-go/oacp/schema"
)

// sinceLayouts are the forms of ISO 8601 that parseSince accepts. Fractions may follow the seconds.
var sinceLayouts = []string{
	time.RFC3339, "2006-01-02T15:04:05Z0700", "2006-01-02T15:04Z07:00", "2006-01-02T15:04Z0700",
	"2006-01-02T15:04:05", "2006-01-02T15:04", time.DateOnly,
}

// parseSince parses the value of --since: now, epoch, an age such as 5m or 7d, or a time, in UTC unless it names a zone.
func parseSince(text string, now time.Time) (time.Time, error) {
	trimmed := strings.ToUpper(strings.TrimSpace(text))
	switch trimmed {
	case "NOW":
		return now, nil
	case "EPOCH":
		return time.Unix(0, 0).UTC(), nil
	}
	for _, layout := range sinceLayouts {
		// A space may separate date and time.
		if at, err := time.Parse(layout, strings.Replace(trimmed, " ", "T", 1)); err == nil {
			return at.UTC(), nil
		}
	}
	if age, err := schema.ParseDuration(trimmed); err == nil && trimmed != "0" {
		return now.Add(-age), nil
	}
	return time.Time{}, fmt.Errorf("%q is not a time: want now, epoch, an age such as 30s, 5m, 2h or 7d, or YYYY-MM-DDTHH:MM:SSZ", text)
}
