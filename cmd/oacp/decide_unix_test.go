//go:build unix

package main

import (
	"strings"
	"testing"

	"github.com/oacp-go/oacp/internal/testing/terminal"
)

// TestDecide answers in terminals: two show the same question, and one answer wins.
func TestDecide(t *testing.T) {
	t.Parallel()
	c := newSession(t, "codex")
	c.must(t, "add-agent", "anna", "--runtime", "human")
	ask := func(subject string) string {
		return strings.TrimSpace(c.must(t, "send", "--from", "codex", "--to", "anna", "--type", "question", "--subject", subject, "--body", "It is green.",
			"--choices", "yes,no,later", "-q"))
	}
	first := ask("Deploy?")
	options := terminal.Options{Command: []string{"oacp", "decide", "--dir", c.Dir}, Env: []string{"EDITOR=sh -c", "VISUAL=false"}}
	one, two := terminal.Start(t, options), terminal.Start(t, options)
	for _, term := range []*terminal.Terminal{one, two} {
		term.Await("codex asks (question", "Deploy?", "It is green.", "later", "number, t text")
	}
	if got := c.must(t, "status", first); !strings.Contains(got, "anna: noticed") {
		t.Errorf("the stage of a message that decide shows: %s", got)
	}
	one.Press("7", "Enter")
	one.Await("is none of")
	one.Press("e", "Enter")
	one.Await("not sent: editor")
	one.Press("3", "Enter")
	one.Await("the answer to", "nothing more waits for anna")
	two.Press("1", "Enter")
	two.Await("not sent: anna answered message "+first, "nothing more waits for anna")
	for _, term := range []*terminal.Terminal{one, two} {
		if status := term.Wait(); status != 0 {
			t.Errorf("decide ended with %d:\n%s", status, term.Screen())
		}
	}
	if got := c.must(t, "read", "--all", "--agent", "codex", "--json"); strings.Count(got, `"choice"`) != 1 || !strings.Contains(got, `"choice":"later"`) {
		t.Errorf("codex got %s", got)
	}
	ask("Again?")
	third := terminal.Start(t, options)
	third.Await("Again?")
	third.Press("s", "Enter")
	third.Await("1 message skipped")
	third = terminal.Start(t, options)
	third.Await("Again?")
	third.Press("t", "Enter")
	third.Await("text>")
	third.Say("Ask Bob.")
	third.Await("nothing more waits for anna")
	if got := c.must(t, "read", "--all", "--agent", "codex"); !strings.Contains(got, "Ask Bob.") {
		t.Errorf("codex got %s", got)
	}
}
