package gitmail_test

import (
	"path"
	"strings"
	"testing"

	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// TestKeysStay has a program write a key into a message. The message stays on the machine, at each sync and wherever it
// moves, and other mail does not; the same with the leave of the sender goes.
func TestKeysStay(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, 2, "claude", "codex")
	here, there := n.machines[0], n.machines[1]
	m := draft("claude", "codex")
	m.Body = schema.TextValue("The key is\n" + "AKIA" + "Q2W3E4R5T6Y7U2IP")
	kept, err := here.w.Send(t.Context(), m, nil)
	if err != nil {
		t.Fatal(err)
	}
	m.Marks.AllowSecret = true
	allowed, err := here.w.Send(t.Context(), m, nil)
	if err != nil {
		t.Fatal(err)
	}
	other := here.send("claude", "codex")
	n.tolerant = true
	check := func() {
		t.Helper()
		result := here.sync()
		if len(result.Problems) == 0 || len(result.Problems) > 2 {
			t.Errorf("problems %v, want those of the two copies", result.Problems)
		}
		for _, problem := range result.Problems {
			if text := problem.Err.Error(); !strings.Contains(text, "has what looks like an AWS access key") || strings.Contains(text, "Q2W3") ||
				path.Base(problem.Path) != path.Base(kept.Outbox) {
				t.Errorf("problem %s: %v", problem.Path, problem.Err)
			}
		}
		there.sync()
	}
	check()
	there.want("codex", mailbox.Inbox, allowed, other)
	here.want("codex", mailbox.Inbox, kept, allowed, other)
	here.acknowledge("codex", kept.Message.ID)
	check()
	there.want("codex", mailbox.Inbox, allowed, other)
	there.want("codex", mailbox.Archive)
	there.want("claude", mailbox.Outbox, allowed, other)
	if found := n.git(here.w.Dir(), "log", "--all", "-p", "--format=%H"); strings.Count(found, "Q2W3") == 0 || strings.Contains(found, string(kept.Message.ID)) {
		t.Errorf("the history has the message: %s", found)
	}
}
