package gitmail_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/oacp-go/oacp/internal/testing/check"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// pieces are parts of names that mean something to git, to its line protocols, to paths or to terminals.
var pieces = []string{
	"\n", "\nD agents\n", "\nD agents\n#", "\nM 100644 inline workspace.json\ndata 0\n", "\ndone\n", "\r", "\t", " ", "\"", "\\", "\\n", "'", "..", "/../../", ".git", "-rf", "--", ":(top)",
	"*", "$(x)", "%2E", "é", "e\u0301", "\u202e", "\u2028", "\xff", "\x1b[31m", ".lock", ".yaml", "_task_request_abcd", "~", "^", "@{", strings.Repeat("x", 120), strings.Repeat("é", 90),
}

// anyName returns the name of a file. It has the beginning and the end of the name of a message, or one of them.
func anyName(random *rand.Rand, from schema.AgentName) string {
	var middle strings.Builder
	for range 1 + random.IntN(3) {
		middle.WriteString(pieces[random.IntN(len(pieces))])
	}
	stem := fmt.Sprintf("20260501T12%02dZ_%s_notification_%04x", random.IntN(60), from, random.IntN(1<<16))
	switch random.IntN(6) {
	case 0:
		return middle.String() + ".yaml"
	case 1:
		return stem + middle.String() + ".yaml"
	case 2:
		return middle.String() + stem + ".yaml"
	default:
		return stem + "_" + middle.String() + ".yaml"
	}
}

// TestAnyName gives files in boxes, and entries in the trees of the branch, of machines' refs and of claims, any names. No
// name stops a sync or changes what is at another path, and a sync reports files that it skips.
func TestAnyName(t *testing.T) {
	t.Parallel()
	rounds := 5
	if *thorough {
		rounds = 100
	}
	n := newNetwork(t, 2, "claude", "codex", "mallory")
	n.settle()
	n.tolerant = true
	a := &anyNames{hostile: n.newHostile(), random: rand.New(rand.NewPCG(1, 2)), kept: make(map[string]treeFile)}
	n.git(n.machines[1].dir, "config", "transfer.fsckObjects", "true") // some users have that
	outside := takeSnapshot(t, n.machines[0].clone)
	for round := range rounds {
		a.local()
		a.inTrees(round)
		r := n.machines[0].send("claude", "codex")
		for _, m := range n.machines {
			result, err := m.trySync()
			if err != nil {
				t.Fatalf("round %d: %s: %v", round, m.name, err)
			}
			if len(result.Problems) == 0 {
				t.Errorf("round %d: %s reports nothing", round, m.name)
			}
		}
		if count(n.machines[1].ids("codex", mailbox.Inbox), r.Message.ID) != 1 {
			t.Errorf("round %d: a message does not arrive", round)
		}
		outside.compare(t, "a sync")
		a.checkKept(round)
	}
}

// anyNames makes names, and checks that mail is not affected.
type anyNames struct {
	*hostile
	random *rand.Rand
	// kept are the files of messages and agents that the branch had.
	kept map[string]treeFile
}

// local makes files in boxes of the first machine.
func (a *anyNames) local() {
	m := a.machines[0]
	for _, box := range []mailbox.Box{mailbox.Inbox, mailbox.Outbox, mailbox.Archive, mailbox.DeadLetters} {
		name := strings.ReplaceAll(anyName(a.random, "codex"), "/", "")
		_, text, _ := a.message(nil)
		dir := m.w.BoxPath("codex", box)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			a.t.Fatal(err)
		}
		path := filepath.Join(dir, name[:min(len(name), 250)])
		switch a.random.IntN(4) {
		case 0:
			check.WriteFile(a.t, path, text)
		case 1:
			check.WriteFile(a.t, path, "not a message\n")
		case 2:
			_ = os.Symlink("/etc/passwd", path) // the name may be taken
		default:
			_ = os.Mkdir(path, 0o755)
		}
	}
}

// inTrees adds entries to the branch, to a machine's ref and to a claim.
func (a *anyNames) inTrees(round int) {
	a.load()
	for path, file := range a.files { // what the machines made
		if strings.HasSuffix(path, ".gitkeep") || strings.HasPrefix(path, "agents/claude/outbox/") {
			a.kept[path] = file
		}
	}
	for _, ref := range []string{mailRef, fmt.Sprintf("refs/oacp/machines/%032x", round), fmt.Sprintf("refs/oacp/claims/codex/msg-20260501T1200Z-claude-%04x", round)} {
		a.load()
		for range 5 {
			name, text, day := a.message(nil)
			name = strings.TrimSuffix(name, ".yaml") + "_" + anyName(a.random, "mallory")
			if a.random.IntN(2) == 0 {
				name = anyName(a.random, "mallory")
			}
			name = strings.ReplaceAll(name, "/", "  ") // see writeTree
			mode := []string{"100644", "100644", "100755", "120000", "40000"}[a.random.IntN(5)]
			places := []string{
				"agents/mallory/outbox/" + day + "/", "agents/codex/inbox/", "agents/codex/inbox/archive/" + day + "/", "agents/codex/dead_letter/" + day + "/",
				"agents/codex/.facts/", "agents/codex/.agents/", "agents/codex/.removed/", "agents/codex/", "agents/", "",
			}
			if mode == "40000" {
				a.files[places[a.random.IntN(len(places))]+name+"/x"] = treeFile{"100644", a.writeObject("blob", text)}
			} else {
				a.add(mode, places[a.random.IntN(len(places))]+name, text)
			}
		}
		name, text, day := a.message(nil)
		a.add("100644", "agents/codex/inbox/archive/"+day+"/"+strings.TrimSuffix(name, ".yaml")+"_x\nD agents\n#.yaml", text)
		a.pushTo(ref)
	}
}

// checkKept checks that the branch still has what it had.
func (a *anyNames) checkKept(round int) {
	a.t.Helper()
	a.load()
	for path, file := range a.kept {
		if a.files[path] != file {
			a.t.Errorf("round %d: the branch has %v at %q, want %v", round, a.files[path], path, file)
		}
	}
}
