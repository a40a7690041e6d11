package project

import (
	"slices"
	"testing"

	"github.com/oacp-go/oacp/schema"
)

func TestRecipients(t *testing.T) {
	three := newWorkspace(t, "claude", "codex", "gemini")
	named := newWorkspace(t, "claude", "codex", "all")
	many := newWorkspace(t, "a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l")
	everyone := []schema.AgentName{Everyone}
	if got, err := Recipients(three, "claude", schema.Question, everyone); err != nil || !slices.Equal(got, []schema.AgentName{"codex", "gemini"}) {
		t.Errorf("all of three are %v (%v), want the two others", got, err)
	}
	if got, err := Recipients(three, "claude", schema.Question, []schema.AgentName{"x"}); err != nil || !slices.Equal(got, []schema.AgentName{"x"}) {
		t.Errorf("a name is %v (%v), want itself", got, err)
	}
	if got, err := Recipients(named, "claude", schema.Handoff, everyone); err != nil || !slices.Equal(got, everyone) {
		t.Errorf("where an agent has the name all, all are %v (%v), want that agent", got, err)
	}
	_, err := Recipients(many, "a", schema.Question, everyone)
	wantError(t, err, "all are 11 agents", "at most 10 recipients")
	_, err = Recipients(three, "claude", schema.HandoffComplete, everyone)
	wantError(t, err, "a handoff_complete has one recipient")
	_, err = Recipients(newWorkspace(t, "claude"), "claude", schema.Question, everyone)
	wantError(t, err, "has no agent but claude")
}
