package gitmail

import (
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/oacp-go/oacp/mailbox"
)

const (
	question = "20261121T1000Z_claude_question_abcd1234efgh5678.yaml"
	foreign  = "20261121100000_claude_question_ab12.yaml"
)

func TestCheckPath(t *testing.T) {
	for _, good := range []string{
		"agents/claude/outbox/20261121/" + question, "agents/claude/outbox/20261121/" + foreign,
		"agents/codex/inbox/" + question,
		"agents/codex/inbox/archive/20261121/" + question,
		"agents/codex/.facts/" + question, "agents/codex/.removed/e1", "agents/codex/.agents/2aew34ge36r5", "agents/codex/outbox/20261121/.pruned", "workspace.json", ".oacp-format",
		"agents/codex/dead_letter/20261121/" + question, "agents/codex/dead_letter/20261121/" + question + mailbox.ReasonSuffix,
	} {
		if _, err := parsePath(good); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for _, bad := range []string{
		"", "/", "agents", "state/git/sync.lock", "agents/codex/inbox", "agents/codex/notes.md",
		"agents/codex/outbox/20261121/" + question,               // its sender is claude
		"agents/claude/outbox/20261122/" + question,              // another day
		"agents/claude/outbox/" + question,                       // no day
		"agents/codex/inbox/20261121/" + question,                // a day
		"agents/codex/inbox/.gitkeep",                            // of earlier versions
		"agents/codex/.agents/A1",                                // no id
		"agents/../../inbox/" + question,                         // leads out
		"agents/co dex/inbox/" + question,                        // no agent name
		"agents/codex/inbox/../" + question,                      // leads out
		"agents//inbox/" + question,                              // no agent
		"agents/codex/inbox/-rf.yaml",                            // no message
		"agents/codex/inbox/.hidden.yaml",                        // no message
		"agents/codex/state/" + question,                         // no box
		"agents/codex/inbox/" + question + "/more",               // a folder
		"agents/codex/inbox/x/" + question,                       // a folder
		"agents/codex/inbox/" + question + ".sig",                // another suffix
		"agents/codex/inbox/20261121T1000Z_claude_question.yaml", // no random part
		"Agents/codex/inbox/" + question,                         // another case
		"agents/codex/inbox/" + question + "\n",                  // a line break
		"agents/codex/archive/20261121/" + question + mailbox.ReasonSuffix,
		"agents/codex/inbox/" + strings.Repeat("a", 300) + ".yaml",
	} {
		if _, err := parsePath(bad); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

// FuzzCheckPath checks that a path of a tree that is accepted leads nowhere else.
func FuzzCheckPath(f *testing.F) {
	f.Add("agents/claude/outbox/20261121/" + question)
	f.Add("agents/codex/inbox/.gitkeep")
	f.Add("agents/codex/dead_letter/20261121/" + question + mailbox.ReasonSuffix)
	f.Fuzz(func(t *testing.T, text string) {
		if _, err := parsePath(text); err == nil && (path.Clean(text) != text || !filepath.IsLocal(text) || strings.ContainsAny(text, "\\\x00\n \"")) {
			t.Errorf("%q is accepted", text)
		}
	})
}
