package schema

import "testing"

func TestLocate(t *testing.T) {
	tests := []struct {
		path string
		want Location
		ok   bool
	}{
		{"agents/codex/inbox/a.yaml", Location{"", "codex", Inbox, "a.yaml"}, true},
		{"/w/agents/codex/inbox/archive/a.yaml", Location{"/w/", "codex", Archive, "a.yaml"}, true},
		{"w/agents/codex/inbox/archive/20260313/a.yaml", Location{"w/", "codex", Archive, "a.yaml"}, true},
		{"agents/codex/archive/20260313/a.yaml", Location{"", "codex", Archive, "a.yaml"}, true},
		{"agents/codex/outbox/20260313/a.yaml", Location{"", "codex", Outbox, "a.yaml"}, true},
		{"agents/codex/inbox/archive", Location{"", "codex", Inbox, "archive"}, true},
		{"agents/agents/inbox/a.yaml", Location{"", "agents", Inbox, "a.yaml"}, true},
		{path: "agents/codex/outbox/x/y/a.yaml"},
		{path: "agents/codex/config.yaml"},
		{path: "agents/../inbox/a.yaml"},
		{path: "codex/inbox/a.yaml"},
		{path: ""},
	}
	for _, test := range tests {
		if got, ok := Locate(test.path); got != test.want || ok != test.ok {
			t.Errorf("Locate(%q) is %+v, %t; want %+v, %t", test.path, got, ok, test.want, test.ok)
		}
	}
}
