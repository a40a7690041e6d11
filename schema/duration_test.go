package schema

import (
	"strings"
	"testing"
	"time"
)

func TestParseDuration(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"0":      0,
		"0s":     0,
		"90s":    90 * time.Second,
		"30m":    30 * time.Minute,
		"2h":     2 * time.Hour,
		" 2 H ":  2 * time.Hour,
		"1h30m":  90 * time.Minute,
		"1.5h":   90 * time.Minute,
		"250ms":  250 * time.Millisecond,
		"7d":     7 * 24 * time.Hour,
		"36500D": 36500 * 24 * time.Hour,
		"99999d": 99999 * 24 * time.Hour,
	} {
		if got, err := ParseDuration(text); err != nil || got != want {
			t.Errorf("ParseDuration(%q) = %v, %v; want %v", text, got, err, want)
		}
	}
}

func TestParseDurationRefuses(t *testing.T) {
	for text, why := range map[string]string{
		"":                       "not a duration",
		"d":                      "not a duration",
		"5":                      "not a duration",
		"1.5d":                   "not a duration",
		"+-1h":                   "not a duration",
		"-1h":                    "negative",
		"100000d":                "not a duration",
		"99999999999999999999d":  "not a duration",
		"99999999999999999999h":  "not a duration",
		strings.Repeat("9", 9e5): "not a duration",
	} {
		got, err := ParseDuration(text)
		if err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("ParseDuration(%.40q) = %v, %v; want an error that says %q", text, got, err, why)
			continue
		}
		if len(err.Error()) > 200 {
			t.Errorf("ParseDuration(%.40q) repeats its whole argument in the error", text)
		}
	}
}

func FuzzParseDuration(f *testing.F) {
	f.Add("90s")
	f.Add("7 d")
	f.Fuzz(func(t *testing.T, text string) {
		d, err := ParseDuration(text)
		if err != nil && d != 0 || d < 0 {
			t.Errorf("ParseDuration(%q) = %v, %v", text, d, err)
		}
	})
}
