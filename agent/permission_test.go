package agent

import "testing"

func TestPermission(t *testing.T) {
	for text, want := range map[string]Permission{"": PermitOwn, "edits": PermitEdits, "all": PermitAll} {
		var got Permission
		if err := got.UnmarshalText([]byte(text)); err != nil || got != want {
			t.Errorf("%q parses as %q (%v), want %q", text, got, err, want)
		}
	}
	if got, err := ParsePermission("everything"); err == nil {
		t.Errorf("an unknown permission parses as %q, want an error", got)
	}
}
