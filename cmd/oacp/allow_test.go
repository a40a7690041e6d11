package main

import (
	"testing"

	"github.com/oacp-go/oacp/mailbox/settings"
)

// TestSettingLines checks that what a person allows cannot look like something else.
func TestSettingLines(t *testing.T) {
	for value, want := range map[string]string{
		`["sh","für Ümit, данные"]`:            `["sh","für Ümit, данные"]`,
		"./a\u200dgent \u200c\ufe0f":           `./a\u200dgent \u200c\ufe0f`,
		"a\u3164b\u115f\uffa0\u2800\u034f":     `a\u3164b\u115f\uffa0\u2800\u034f`,
		"x \u202egpj.\u2066y\u2069 \U000e0041": `x \u202egpj.\u2066y\u2069 \U000e0041`,
		"a\u00a0b\u2003c\u00ad\x1b[2K\r\x7f":   `a\u00a0b\u2003c\u00ad\x1b[2K\r\x7f`,
	} {
		got := settingLines([]settings.Setting{{Key: settings.Key{Name: "run.command", Kind: settings.Program}, Value: value}})
		if want := "  program      run.command: " + want + "\n"; got != want {
			t.Errorf("%q is shown as %q, want %q", value, got, want)
		}
	}
}
