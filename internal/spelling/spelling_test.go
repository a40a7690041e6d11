package spelling

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func TestNearest(t *testing.T) {
	commands := []string{"send", "reply", "inbox", "read", "thread", "ack", "validate", "version"}
	fields := []string{"id", "from", "to", "type", "created_at_utc", "expires_at", "related_packet", "related_pr", "parent_message_id"}
	tests := []struct {
		text       string
		candidates []string
		want       string
	}{
		{"send", commands, "send"},
		{"sned", commands, "send"},
		{"SEND", commands, "send"},
		{"valdate", commands, "validate"},
		{"versoin", commands, "version"},
		{"redd", commands, "read"},
		{"reed", []string{"reads", "read", "reel"}, "read"},
		{"reed", []string{"reel", "read"}, "reel"},

		// The beginning of a name.
		{"val", commands, "validate"},
		{"VAL", commands, "validate"},
		{"va", commands, ""},
		{"rel", fields, "related_packet"},
		{"related_pr", fields, "related_pr"},
		{"parent", fields, "parent_message_id"},

		// Separators between words.
		{"created-at-utc", fields, "created_at_utc"},
		{"Created At Utc", fields, "created_at_utc"},
		{"dry_run", []string{"dry-run"}, "dry-run"},

		// The number of allowed changes depends on the length.
		{"", commands, ""},
		{"", []string{"a"}, ""},
		{"x", []string{"a", "xy"}, ""},
		{"A", []string{"a"}, "a"},
		{"ac", []string{"ack"}, "ack"},
		{"fly", commands, ""},
		{"form", fields, "from"},
		{"expires_at_utc", fields, "expires_at"},
		{"expired_in_utc", fields, ""},
		{"completely-different", commands, ""},
		{"send" + strings.Repeat("!", 1<<20), commands, ""},
		{"send", nil, ""},

		// Characters count, not bytes.
		{"žlutý", []string{"zluty"}, "zluty"},
		{"åß", []string{"ab"}, ""},
		{"\xff\xfe", commands, ""},
	}
	for _, test := range tests {
		if got := Nearest(test.text, test.candidates); got != test.want {
			t.Errorf("Nearest(%.40q, %q) is %q, want %q", test.text, test.candidates, got, test.want)
		}
	}
}

// FuzzNearest checks that a suggestion is one of the candidates, and that a candidate is its own best suggestion.
func FuzzNearest(f *testing.F) {
	f.Add("sned", "send,inbox,read")
	f.Add("SEND-all", "send_all,send all,,sendall")
	f.Add("žl\xff", "zl,ŽL\xff,K")
	f.Add("a", "a,b")
	f.Fuzz(func(t *testing.T, text, list string) {
		candidates := strings.Split(list, ",")
		near := Nearest(text, candidates)
		if near != "" && !slices.Contains(candidates, near) {
			t.Fatalf("%q for %q is not one of %q", near, text, candidates)
		}
		for _, candidate := range candidates {
			if own := Nearest(candidate, candidates); folded(own) != folded(candidate) {
				t.Errorf("%q for %q, which is a candidate itself", own, candidate)
			}
		}
	})
}

func TestPlainYAML(t *testing.T) {
	for text, want := range map[string]string{
		"disk full": "disk full",
		"settings config.yaml: yaml: line 3: mapping values are not allowed in this context":                 "settings config.yaml: line 3: mapping values are not allowed in this context",
		"yaml: unmarshal errors:\n  line 1: cannot unmarshal !!seq into map[string]yaml.Node":                "line 1: a list does not belong here",
		"card.yaml: yaml: unmarshal errors:\n  line 2: cannot unmarshal !!str `yes` into int\n  line 3: x":   "card.yaml: line 2: `yes` does not belong here\n  line 3: x",
		"config.yaml: yaml: unmarshal errors:\n  line 1: cannot unmarshal !!map into project.OfflineSetting": "config.yaml: line 1: a mapping does not belong here",
	} {
		if got := PlainYAML(text); got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
}

func TestAge(t *testing.T) {
	at := time.Date(2026, 3, 13, 14, 30, 0, 0, time.UTC)
	for age, want := range map[time.Duration]string{
		-time.Hour: "0s", 0: "0s", 59500 * time.Millisecond: "59s", 119 * time.Second: "119s", 2 * time.Minute: "2m",
		59 * time.Minute: "59m", time.Hour: "1h", 47 * time.Hour: "47h", 48 * time.Hour: "2d",
	} {
		if got := Age(at, at.Add(age)); got != want {
			t.Errorf("%s ago is %s, want %s", age, got, want)
		}
	}
}
