package mirror

import (
	"context"
	"testing"

	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// TestAcknowledge checks that only the messages of the given records leave the inbox, both carried
// and derived ones.
func TestAcknowledge(t *testing.T) {
	p := newPlace(t, "claude", "codex")
	p.append(exampleRecords()...)
	sent := message(schema.TaskRequest)
	sent.ID, sent.From, sent.To, sent.Subject = "", "claude", []schema.AgentName{"codex"}, "sent by mail"
	p.send(sent)
	again := sent
	again.Subject = "sent by mail, and not given yet"
	p.run(Both)
	given := p.records()
	p.send(again)
	p.run(Both)

	acknowledge := func(agent schema.AgentName, records []bridge.Record, want int) {
		t.Helper()
		if done, err := Acknowledge(context.Background(), p.workspace, agent, records); err != nil || done != want {
			t.Errorf("acknowledged %d, %v; want %d", done, err, want)
		}
	}
	acknowledge("codex", nil, 0)
	acknowledge("codex", given, 4)
	acknowledge("codex", given, 0)
	if got, want := p.subjects("codex", mailbox.Inbox), "sent by mail, and not given yet"; got != want {
		t.Errorf("inbox of codex: got %s, want %s", got, want)
	}
	if got, want := p.subjects("claude", mailbox.Inbox), "Added validateEmail function...|Added error message UI...|Validation complete"; got != want {
		t.Errorf("inbox of claude: got %s, want %s: they are another agent's", got, want)
	}
	acknowledge("claude", given[:5], 3) // the broadcast among them
	if report := p.run(Both); !report.quiet() {
		t.Errorf("a mirror brings back what was acknowledged: %+v", report)
	}
}
