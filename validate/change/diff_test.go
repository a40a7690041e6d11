package change

import (
	"strings"
	"testing"
)

// FuzzParseRaw checks that whatever git prints gives entries or an error, and that all entries are in
// mailboxes.
func FuzzParseRaw(f *testing.F) {
	f.Add("")
	f.Add(":000000 100644 0000000 1234567 A\x00mail/agents/a/inbox/x.yaml\x00")
	f.Add(":000000 100644 0000000 1234567 A\x00")
	f.Add(":100644\x00agents/a/outbox/x.yaml\x00")
	f.Add(":100644 000000 1 2 \x00x\x00")
	f.Fuzz(func(t *testing.T, out string) {
		entries, err := parseRaw([]byte(out))
		for _, e := range entries {
			if e.agent == "" || e.box == "" || e.status == 0 || !strings.HasPrefix(e.path, e.workspace+"agents/"+string(e.agent)+"/"+string(e.box)+"/") {
				t.Errorf("%q gives %+v (%v)", out, e, err)
			}
		}
	})
}
