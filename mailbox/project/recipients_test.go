package project_test

import (
	"os"
	"slices"
	"testing"

	"github.com/oacp-go/oacp/internal/testing/check"
	"github.com/oacp-go/oacp/internal/testing/mailboxtest"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/schema"
)

func TestRecipients(t *testing.T) {
	three := mailboxtest.New(t, "claude", "codex", "gemini")
	named := mailboxtest.New(t, "claude", "codex")
	if err := os.MkdirAll(named.BoxPath("all", mailbox.Inbox), 0o755); err != nil { // of an older version
		t.Fatal(err)
	}
	many := mailboxtest.New(t, "a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l")
	everyone := []schema.AgentName{"all"}
	if got, err := project.Recipients(three, "claude", schema.Question, everyone); err != nil || !slices.Equal(slices.Concat(got...), []schema.AgentName{"codex", "gemini"}) {
		t.Errorf("all of three are %v (%v), want the two others", got, err)
	}
	if got, err := project.Recipients(three, "claude", schema.Question, []schema.AgentName{"x"}); err != nil || !slices.Equal(slices.Concat(got...), []schema.AgentName{"x"}) {
		t.Errorf("a name is %v (%v), want itself", got, err)
	}
	if got, err := project.Recipients(named, "claude", schema.Handoff, everyone); err != nil || !slices.Equal(slices.Concat(got...), everyone) {
		t.Errorf("where an agent has the name all, all are %v (%v), want that agent", got, err)
	}
	if got, err := project.Recipients(many, "a", schema.Question, everyone); err != nil || len(got) != 2 || len(got[0]) != 10 || !slices.Equal(got[1], []schema.AgentName{"l"}) {
		t.Errorf("eleven others are %v (%v), want ten and l", got, err)
	}
	_, err := project.Recipients(three, "claude", schema.HandoffComplete, everyone)
	check.Error(t, err, "a handoff_complete has one recipient")
	_, err = project.Recipients(mailboxtest.New(t, "claude"), "claude", schema.Question, everyone)
	check.Error(t, err, "has no agent other than claude")
}
