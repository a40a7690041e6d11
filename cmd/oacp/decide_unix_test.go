//go:build unix

package main

import (
	"strings"
	"testing"

	"github.com/oacp-go/oacp/internal/testing/terminal"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
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
		term.Await("codex asks (question "+schema.ID(first).Short()+", ", "s ago): Deploy?", "It is green.", "later", "number or name, t text")
	}
	if got := c.must(t, "status", first); !strings.Contains(got, "anna: noticed") {
		t.Errorf("the stage of a message that decide shows: %s", got)
	}
	one.Press("7", "Enter")
	one.Await("choose: number or name, t text, e editor, b ask back, d decline")
	one.Press("e", "Enter")
	one.Await("not sent: editor")
	one.Say("Later")
	one.Await("the answer to", "nothing more waits for anna")
	two.Press("1", "Enter")
	two.Await("handled meanwhile: anna answered with ", "nothing more waits for anna")
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
	third.Press("C-d")
	if status := third.Wait(); status != 0 {
		t.Errorf("the end of the input: %d:\n%s", status, third.Screen())
	}
	third = terminal.Start(t, options)
	third.Await("Again?")
	third.Press("Enter", "t", "Enter") // an empty line asks again
	third.Await("text>")
	third.Say("Ask Bob.")
	third.Await("nothing more waits for anna")
	if got := c.must(t, "read", "--all", "--agent", "codex"); !strings.Contains(got, "Ask Bob.") {
		t.Errorf("codex got %s", got)
	}
}

// TestDecideMeanwhile has mail come and go while decide asks.
func TestDecideMeanwhile(t *testing.T) {
	t.Parallel()
	c := newSession(t, "codex")
	c.must(t, "add-agent", "anna", "--runtime", "human")
	ask := func(subject string) string {
		return strings.TrimSpace(c.must(t, "send", "--from", "codex", "--to", "anna", "--type", "question", "--subject", subject, "--body", "x", "-q"))
	}
	first := ask("One?")
	term := terminal.Start(t, terminal.Options{Command: []string{"oacp", "decide", "--dir", c.Dir}, Env: []string{"EDITOR=false"}})
	term.Await("1 of 1", "One?", "t text, e editor, b ask back, d decline, a acknowledge without an answer, s skip, q quit>")
	term.Press("9", "Enter")
	term.Await("choose: t text")
	second := ask("Two?")
	c.must(t, "--as-person", "ack", first, "--agent", "anna")
	term.Press("a", "Enter")
	term.Await("acknowledged: "+schema.ID(first).Short(), "2 of 2", "Two?")
	term.Press("t", "Enter")
	term.Await("text>")
	takeBack(t, c, second)
	ask("Three?")
	term.Say("Yes.")
	term.Await("taken back by codex; nothing is sent", "3 of 3", "Three?")
	fourth := ask("Four?")
	term.Press("s", "Enter")
	term.Await("4 of 4", "Four?")
	term.Press("a", "Enter")
	term.Await("acknowledged: "+schema.ID(fourth).Short(), "1 message skipped")
	if got := c.must(t, "list", "--box", "outbox", "--agent", "anna", "--json"); strings.Contains(got, "Re:") {
		t.Errorf("anna sent %s", got)
	}
}

// takeBack takes a message back from anna that she has noticed, as a sync with another machine does.
func takeBack(t *testing.T, c *session, id string) {
	t.Helper()
	takeBackFrom(t, c, id, "anna")
}

func takeBackFrom(t *testing.T, c *session, id string, agent schema.AgentName) {
	t.Helper()
	w, err := mailbox.Open(c.Dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	e, err := w.Pending(t.Context(), id, agent)
	if err == nil {
		err = mailbox.Recall(t.Context(), w, e.Message, agent)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestDecideHeader shows requests and others, when they expire, and the questions back.
func TestDecideHeader(t *testing.T) {
	t.Parallel()
	c := newSession(t, "codex")
	c.must(t, "add-agent", "anna", "--runtime", "human")
	send := func(arguments ...string) string {
		return strings.TrimSpace(c.must(t, append(arguments, "--body", "x", "-q")...))
	}
	send("send", "--from", "codex", "--to", "anna", "--type", "notification", "--subject", "News", "--expires", "150m")
	request := send("send", "--from", "codex", "--to", "anna", "--type", "question", "--subject", "When?")
	first := send("--as-person", "reply", request, "--from", "anna", "--type", "question")
	second := send("--as-person", "reply", request, "--from", "anna", "--type", "question", "--subject", "Where?")
	send("reply", first, "--from", "codex")
	term := terminal.Start(t, terminal.Options{Command: []string{"oacp", "decide", "--dir", c.Dir}, Env: []string{"EDITOR=false"}})
	term.Await("codex asks (question "+schema.ID(request).Short()+", ", "s ago): When?", "\n"+schema.ID(first).Short()+" answered", "\nasked "+schema.ID(second).Short())
	term.Press("s", "Enter")
	term.Press("s", "Enter")
	term.Await("codex tells you (notification ", ", expires in 2h): News")
}

// TestDecideAsksBack asks back and declines with keys that are the same for each message, and answers with choices that are
// letters of the prompt.
func TestDecideAsksBack(t *testing.T) {
	t.Parallel()
	c := newSession(t, "codex")
	c.must(t, "add-agent", "anna", "--runtime", "human")
	for _, choices := range []string{"a,b", "red,green,blue", "yes,no"} {
		c.must(t, "send", "--from", "codex", "--to", "anna", "--type", "question", "--subject", choices+"?", "--body", "x", "--choices", choices)
	}
	term := terminal.Start(t, terminal.Options{Command: []string{"oacp", "decide", "--dir", c.Dir}})
	term.Await("a,b?", "e editor, ask back, d decline, acknowledge without an answer, s skip")
	term.Say("a")
	term.Await("the answer to", "red,green,blue?")
	term.Say("b")
	term.Await("question>")
	term.Say("Which shade?")
	term.Await("(question)", "yes,no?")
	term.Say("d")
	term.Await("reason>")
	term.Say("Not mine.")
	term.Await("which declines", "1 message skipped")
	got := c.must(t, "read", "--all", "--agent", "codex", "--json")
	for _, want := range []string{`"choice":"a"`, "Which shade?", "Not mine."} {
		if !strings.Contains(got, want) {
			t.Errorf("codex got %s; want %s", got, want)
		}
	}
}

// TestDecideContext shows the messages of a conversation by their age, not by what they reply to, with those that are younger than
// the one that waits, and without the text of those that were taken back.
func TestDecideContext(t *testing.T) {
	t.Parallel()
	c := newSession(t, "codex,claude")
	c.must(t, "add-agent", "anna", "--runtime", "human")
	send := func(subject, to, parent string) string {
		arguments := []string{"send", "--from", "codex", "--to", to, "--type", "question", "--subject", subject, "--body", "it", "-q"}
		if parent != "" {
			arguments = append(arguments, "--in-reply-to", parent)
		}
		return strings.TrimSpace(c.must(t, arguments...))
	}
	root := send("root", "claude", "")
	old := send("old", "claude", root)
	wrong := send("wrong", "claude", root)
	send("late", "claude", old)
	send("asked", "anna", wrong)
	send("later", "claude", root)
	c.must(t, "recall", wrong, "--agent", "codex")
	term := terminal.Start(t, terminal.Options{Command: []string{"oacp", "decide", "--dir", c.Dir}})
	term.Await("codex: root: it\ncodex: old: it\ncodex: wrong: taken back\ncodex: late: it\ncodex asks (question", "\nsince then:\ncodex: later: it\n", "quit>")
}
