package change

import (
	"strings"
	"testing"

	"github.com/oacp-go/oacp/schema"
)

func TestInMailbox(t *testing.T) {
	tests := map[string]entry{
		"agents/a/inbox/x.yaml":                       {agent: "a", box: schema.Inbox},
		"agents/a/outbox/20261122/x.yaml":             {agent: "a", box: schema.Outbox},
		"mail/agents/agents/archive/x.yaml":           {workspace: "mail/", agent: "agents", box: schema.Archive},
		"agents/inbox/agents/inbox/inbox/x.yaml":      {workspace: "agents/inbox/", agent: "inbox", box: schema.Inbox},
		"a b/ü/agents/x/dead_letter/x.yaml":           {workspace: "a b/ü/", agent: "x", box: schema.DeadLetters},
		"agents/a/inbox/.x.yaml":                      {},
		"agents/a/inbox/x.json":                       {},
		"agents/a/inbox":                              {},
		"agents/a/x.yaml":                             {},
		"agents/../inbox/x.yaml":                      {},
		"agents/a/sent/x.yaml":                        {},
		"agents/a/inbox/20261122/deeper/still/x.yaml": {},
		"x.yaml": {},
		"":       {},
	}
	for file, want := range tests {
		want.path = file
		if want.box == "" {
			want.path = ""
		}
		if got, ok := inMailbox(file); got != want || ok != (want.box != "") {
			t.Errorf("%q: got %+v, %v; want %+v", file, got, ok, want)
		}
	}
}

// FuzzParseRaw checks that whatever git prints gives entries or an error, and that all entries are in
// mailboxes.
func FuzzParseRaw(f *testing.F) {
	f.Add("")
	f.Add(":000000 100644 0000000 1234567 A\x00mail/agents/a/inbox/x.yaml\x00")
	f.Add(":000000 100644 0000000 1234567 A\x00")
	f.Add(":100644\x00agents/a/outbox/x.yaml\x00")
	f.Add(":100644 000000 1 2 \x00x\x00")
	f.Fuzz(func(t *testing.T, out string) {
		entries, err := parseRaw(out)
		for _, e := range entries {
			if e.agent == "" || e.box == "" || e.status == 0 || !strings.HasPrefix(e.path, e.workspace+"agents/"+string(e.agent)+"/"+string(e.box)+"/") {
				t.Errorf("%q gives %+v (%v)", out, e, err)
			}
		}
	})
}
