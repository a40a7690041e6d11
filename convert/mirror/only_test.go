package mirror

import (
	"os"
	"slices"
	"testing"
	"time"

	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// TestOnly checks that a message that Only rejects is not recorded, is read once, and is recorded
// by a mirror without Only.
func TestOnly(t *testing.T) {
	p := newPlace(t, "claude", "codex", "ann")
	send := func(from, to schema.AgentName, subject string) {
		t.Helper()
		m := message(schema.Question)
		m.ID = schema.ID("msg-20260313T1430Z-" + string(from) + "-" + subject)
		m.From, m.To, m.Subject = from, []schema.AgentName{to}, subject
		p.send(m)
	}
	logged := func() (from []string) {
		for _, r := range p.records() {
			from = append(from, r.From)
		}
		return from
	}
	send("claude", "codex", "wanted")
	send("ann", "claude", "passed1")
	send("ann", "claude", "passed2")
	asked := 0
	mirror := p.mirror(Both)
	mirror.Only = func(m *schema.Message) bool { asked++; return m.From == "claude" }
	for range 3 {
		if _, err := mirror.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := logged(), []string{"claude"}; !slices.Equal(got, want) || asked != 3 {
		t.Errorf("records are from %q after %d questions, want %q after one for each message", got, asked, want)
	}
	old := time.Now().Add(-time.Hour)
	if err := os.Chtimes(p.workspace.BoxPath("ann", mailbox.Outbox), old, old); err != nil {
		t.Fatal(err)
	}
	if _, err := mirror.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := len(p.box("claude", mailbox.Inbox)); got != 2 {
		t.Errorf("%d messages in the inbox, want those that were not wanted, too", got)
	}
	p.run(Both)
	if got, want := logged(), []string{"claude", "ann", "ann"}; !slices.Equal(got, want) {
		t.Errorf("records are from %q, want %q", got, want)
	}
}
