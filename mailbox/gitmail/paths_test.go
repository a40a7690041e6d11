package gitmail

import (
	"path"
	"strings"
	"testing"

	"github.com/oacp-go/oacp/mailbox"
)

const (
	question = "20261121T1000Z_claude_question_abcd1234efgh5678.yaml"
	foreign  = "20261121100000_claude_question_ab12.yaml"
)

func TestParsePath(t *testing.T) {
	for _, good := range []string{
		"agents/claude/outbox/20261121/" + question, "agents/claude/outbox/20261121/" + foreign,
		"agents/codex/inbox/" + question, "agents/codex/inbox/.gitkeep",
		"agents/codex/archive/20261121/" + question,
		"agents/codex/dead_letter/20261121/" + question, "agents/codex/dead_letter/20261121/" + question + mailbox.ReasonSuffix,
	} {
		p, err := parsePath(good)
		if err != nil || good != p.path() && p.name != keepName {
			t.Errorf("%s: got %q, %v", good, p.path(), err)
		}
	}
	for _, bad := range []string{
		"", "/", "agents", "workspace.json", "state/git/sync.lock", "agents/codex/inbox", "agents/codex/notes.md",
		"agents/codex/outbox/20261121/" + question,  // its sender is claude
		"agents/claude/outbox/20261122/" + question, // another day
		"agents/claude/outbox/" + question,          // no day
		"agents/codex/inbox/20261121/" + question,   // a day
		"agents/codex/outbox/.gitkeep",              // only inboxes are kept
		"agents/../../inbox/" + question,            // leads out
		"agents/co dex/inbox/" + question,           // no agent name
		"agents/codex/inbox/../" + question,         // leads out
		"agents//inbox/" + question,                 // no agent
		"agents/codex/inbox/-rf.yaml",               // no message
		"agents/codex/inbox/.hidden.yaml",           // no message
		"agents/codex/state/" + question,            // no box
		"agents/codex/inbox/" + question + "/more",  // a folder
		"agents/codex/inbox/x/" + question,          // a folder
		"agents/codex/inbox/" + question + ".sig",   // another suffix
		"agents/codex/inbox/" + shortName(question), // no random part
		"Agents/codex/inbox/" + question,            // another case
		"agents/codex/inbox/" + question + "\n",     // a line break
		"agents/codex/archive/20261121/" + question + mailbox.ReasonSuffix,
		"agents/codex/inbox/" + strings.Repeat("a", 300) + ".yaml",
	} {
		if p, err := parsePath(bad); err == nil {
			t.Errorf("%q is accepted as %+v", bad, p)
		}
	}
}

func TestShortName(t *testing.T) {
	for name, want := range map[string]string{
		question:                              "20261121T1000Z_claude_question.yaml",
		"20261121T1000Z_claude_question.yaml": "",
		"20261121T1000Z_claude_question_abcd1234efgh5678_more.yaml": "",
		"notes.yaml": "",
	} {
		if got := shortName(name); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}

// FuzzParsePath checks that a path from a tree that is accepted leads to a file in a box.
func FuzzParsePath(f *testing.F) {
	f.Add("agents/claude/outbox/20261121/" + question)
	f.Add("agents/codex/inbox/.gitkeep")
	f.Add("agents/codex/dead_letter/20261121/" + question + mailbox.ReasonSuffix)
	f.Fuzz(func(t *testing.T, text string) {
		p, err := parsePath(text)
		if err != nil {
			return
		}
		file := p.file()
		parts := strings.Split(file, "/")
		if len(parts) != 4 || path.Clean(file) != file || !isBox(mailbox.Box(parts[2])) || strings.ContainsAny(file, "\\\x00\n \"") {
			t.Errorf("%q leads to %q", text, file)
		}
		if p.name != keepName && p.path() != text {
			t.Errorf("%q becomes %q", text, p.path())
		}
	})
}
