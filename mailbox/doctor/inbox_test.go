package doctor

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/oacp-go/oacp/internal/testing/check"
	"github.com/oacp-go/oacp/internal/testing/mailboxtest"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// TestInspectSumsUp checks that a single finding covers any number of files with one problem, and
// gives their number and the oldest.
func TestInspectSumsUp(t *testing.T) {
	const n = 7
	tests := map[string]struct {
		change func(i int, m *schema.Message)
		words  []string
		hint   string
	}{
		"stale": {func(i int, m *schema.Message) {
			m.CreatedAt = schema.Timestamp(fmt.Sprintf("2026-03-0%dT00:00:00Z", n-i+1))
		}, []string{"7 pending", "it's 6.yaml", "since 2026-03-02T00:00:00Z"}, "oacp inbox --agent codex"},
		"bad": {func(_ int, m *schema.Message) { m.Subject = "" },
			[]string{"7 files: cannot be read", "subject"}, `oacp ack --agent codex 'it'\''s 0.yaml'`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			w := mailboxtest.New(t, "claude", "codex")
			for i := range n {
				m := mailboxtest.Message(fmt.Sprintf("aaa%d", i), i)
				test.change(i, &m)
				mailboxtest.Place(t, w, "codex", mailbox.Inbox, fmt.Sprintf("it's %d.yaml", i), m)
				at := mailboxtest.Time.AddDate(0, 0, i)
				path := filepath.Join(w.BoxPath("codex", mailbox.Inbox), fmt.Sprintf("it's %d.yaml", i))
				if err := os.Chtimes(path, at, at); err != nil {
					t.Fatal(err)
				}
			}
			var found []Finding
			for _, f := range inspect(t, w) {
				if f.Category == "Inbox Health" && f.Severity != SeverityOK {
					found = append(found, f)
				}
			}
			if len(found) != 1 || strings.TrimPrefix(found[0].Name, "agents/") != "codex/inbox" {
				t.Fatalf("the findings are %+v, want one", found)
			}
			check.Error(t, errors.New(found[0].Message), test.words...)
			if !strings.Contains(found[0].Hint, test.hint) {
				t.Errorf("the hint is %q, want %q in it", found[0].Hint, test.hint)
			}
		})
	}
}
