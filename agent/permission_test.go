package agent

import "testing"

func TestPermission(t *testing.T) {
	tests := []struct {
		permission           Permission
		mode, sandbox        string
		claudeAll, codexAsks bool
	}{
		{"", "", "", false, true},
		{PermitNothing, "", "", false, true},
		{PermitEdits, "acceptEdits", "workspace-write", false, true},
		{PermitAll, "", "danger-full-access", true, false},
	}
	for _, test := range tests {
		claude, codex := Options{Allow: test.permission}, Options{Allow: test.permission}
		claude.permitClaude()
		codex.permitCodex()
		if claude.permissionMode != test.mode || (claude.approve != nil) != test.claudeAll {
			t.Errorf("%q: claude has the mode %q and leave for all: %v; want %q, %v", test.permission, claude.permissionMode, claude.approve != nil, test.mode, test.claudeAll)
		}
		if codex.sandbox != test.sandbox || (codex.approve == nil) != test.codexAsks {
			t.Errorf("%q: codex has the sandbox %q and no leave for all: %v; want %q, %v", test.permission, codex.sandbox, codex.approve == nil, test.sandbox, test.codexAsks)
		}
	}
	for text, want := range map[string]Permission{"": PermitNothing, "edits": PermitEdits, "all": PermitAll} {
		var got Permission
		if err := got.UnmarshalText([]byte(text)); err != nil || got != want {
			t.Errorf("%q is read as %q (%v), want %q", text, got, err, want)
		}
	}
	if got, err := ParsePermission("everything"); err == nil {
		t.Errorf("everything is read as %q, want an error", got)
	}
}
