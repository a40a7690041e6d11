package track

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/oacp-go/oacp/internal/testing/mailboxtest"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

func TestMain(m *testing.M) { mailboxtest.Main(m) }

// newWorkspace makes a workspace with claude and codex. It syncs nothing, because these tests kill
// processes, not machines.
func newWorkspace(t testing.TB, agents ...schema.AgentName) *mailbox.Workspace {
	t.Helper()
	if len(agents) == 0 {
		agents = []schema.AgentName{"claude", "codex"}
	}
	return mailboxtest.New(t, agents...)
}

// question returns a message from claude to codex.
func question(subject string) schema.Message {
	return schema.Message{
		From: "claude", To: []schema.AgentName{"codex"}, Type: schema.Question,
		Subject: subject, Body: schema.TextValue("the body of " + subject),
	}
}

func send(t testing.TB, w *mailbox.Workspace, drafts ...schema.Message) []*schema.Message {
	t.Helper()
	var sent []*schema.Message
	for _, result := range w.SendAll(t.Context(), drafts, nil) {
		if result.Err != nil {
			t.Fatal(result.Err)
		}
		sent = append(sent, result.Receipt.Message)
	}
	return sent
}

func wantTexts(t testing.TB, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
}

// factKinds returns the kinds of the facts in a journal.
func factKinds(t testing.TB, data []byte) []string {
	t.Helper()
	var kinds []string
	for line := range strings.Lines(string(data)) {
		var f Fact
		if err := json.Unmarshal([]byte(line), &f); err != nil {
			t.Errorf("line %q: %v", line, err)
		}
		kinds = append(kinds, string(f.Kind))
	}
	return kinds
}
