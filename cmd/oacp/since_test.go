package main

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestParseTime(t *testing.T) {
	now := time.Date(2026, 3, 13, 14, 30, 0, 500, time.UTC)
	at := func(text string) time.Time {
		parsed, err := time.Parse(time.RFC3339Nano, text)
		if err != nil {
			t.Fatal(err)
		}
		return parsed
	}
	for text, want := range map[string]time.Time{
		"now": now, " NOW ": now, "epoch": time.Unix(0, 0),
		"30s": now.Add(-30 * time.Second), "5m": now.Add(-5 * time.Minute), "2h": now.Add(-2 * time.Hour),
		"7D": now.AddDate(0, 0, -7), "0s": now,
		"2026-03-13T14:00:00Z": at("2026-03-13T14:00:00Z"), "2026-03-13t14:00:00z": at("2026-03-13T14:00:00Z"),
		"2026-03-13T14:00:00.25+02:00": at("2026-03-13T12:00:00.25Z"), "2026-03-13T14:00:00-0130": at("2026-03-13T15:30:00Z"),
		"2026-03-13 14:00:00": at("2026-03-13T14:00:00Z"), "2026-03-13T14:00": at("2026-03-13T14:00:00Z"),
		"2026-03-13": at("2026-03-13T00:00:00Z"),
	} {
		if got, err := parseTime(text, now); err != nil || !got.Equal(want) {
			t.Errorf("parseTime(%q) = %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "m", "-5m", "5", "5w", "99999999999d", "4294967295d", "yesterday", "2026-02-30", "14:30", "2026-03-13T25:00:00Z", "½h"} {
		if got, err := parseTime(text, now); err == nil {
			t.Errorf("parseTime(%q) = %v, want an error", text, got)
		} else {
			for _, want := range []string{fmt.Sprintf("%q", text), "5m"} {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("the error of parseTime(%q) is %q, want it to name %s", text, err, want)
				}
			}
		}
	}
}
