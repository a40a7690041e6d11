package conversation

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oacp-go/oacp/internal/testing/mailboxtest"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// drawn is a conversation as rows of: rand, parent's rand, and the second.
type drawn []struct {
	rand, parent string
	second       int
}

func (d drawn) nodes() []Node {
	nodes := make([]Node, len(d))
	for i, row := range d {
		m := mailboxtest.Message(row.rand, row.second)
		if row.parent != "" {
			m.ParentID = mailboxtest.Message(row.parent, 0).ID
		}
		nodes[i].Entry = mailbox.Entry{Message: &m}
	}
	Sort(nodes, func(n Node) *schema.Message { return n.Message })
	return nodes
}

func TestTree(t *testing.T) {
	tests := []struct {
		name     string
		messages drawn
		want     string
	}{
		{"nothing", nil, ""},
		{"one", drawn{{"a", "", 0}}, "a"},
		{"two roots", drawn{{"b", "", 1}, {"a", "", 0}}, "a\nb"},
		{"a chain", drawn{{"a", "", 0}, {"b", "a", 1}, {"c", "b", 2}}, "a\n└─ b\n   └─ c"},
		{"siblings by age", drawn{{"a", "", 0}, {"b", "a", 2}, {"c", "a", 1}}, "a\n├─ c\n└─ b"},
		{"an answer below the first sibling", drawn{{"a", "", 0}, {"b", "a", 1}, {"c", "a", 2}, {"d", "b", 3}, {"e", "d", 4}},
			"a\n├─ b\n│  └─ d\n│     └─ e\n└─ c"},
		{"a parent that is gone", drawn{{"b", "gone", 1}, {"c", "b", 2}, {"a", "gone", 0}}, "a\nb\n└─ c"},
		{"an answer that looks older", drawn{{"a", "", 9}, {"b", "a", 5}, {"c", "a", 12}}, "a\n├─ b\n└─ c"},
		{"a cycle", drawn{{"a", "b", 0}, {"b", "a", 1}, {"c", "b", 2}}, "a\n└─ b\n   └─ c"},
		{"its own parent", drawn{{"a", "a", 0}}, "a"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var lines []string
			for _, n := range tree(test.messages.nodes()) {
				id := string(n.Message.ID)
				lines = append(lines, n.Branch+id[strings.LastIndexByte(id, '-')+1:])
			}
			if got := strings.Join(lines, "\n"); got != test.want {
				t.Errorf("the tree is\n%s\nwant\n%s", got, test.want)
			}
		})
	}
}

// TestTreeOfAnything checks trees of random messages, among them cycles and missing parents: each
// message is there once; it comes right below its parent or below other answers to that one; a
// message without its parent there, or the first one of a cycle, has depth 0.
func TestTreeOfAnything(t *testing.T) {
	for seed := range uint64(2000) {
		random := rand.New(rand.NewPCG(seed, 0))
		messages := make(drawn, random.IntN(12))
		for i := range messages {
			messages[i].rand, messages[i].second = fmt.Sprintf("m%d", i), random.IntN(6)
			if random.IntN(4) > 0 {
				messages[i].parent = fmt.Sprintf("m%d", random.IntN(len(messages)+2))
			}
		}
		nodes := tree(messages.nodes())
		if len(nodes) != len(messages) {
			t.Fatalf("seed %d: the tree has %d messages, want %d", seed, len(nodes), len(messages))
		}
		var path []*schema.Message // from the root to the last message
		seen := make(map[schema.ID]bool)
		for _, n := range nodes {
			m := n.Message
			if seen[m.ID] || n.Depth > len(path) {
				t.Fatalf("seed %d: %s is there twice, or at depth %d below a message at depth %d", seed, m.ID, n.Depth, len(path)-1)
			}
			path = append(path[:n.Depth], m)
			switch {
			case n.Depth > 0 && path[n.Depth-1].ID != m.ParentID:
				t.Fatalf("seed %d: %s stands below %s, want it below %s", seed, m.ID, path[n.Depth-1].ID, m.ParentID)
			case n.Depth == 0 && !isRoot(m, nodes):
				t.Fatalf("seed %d: %s stands by itself, want it below %s", seed, m.ID, m.ParentID)
			case strings.Count(n.Branch, "─") != min(n.Depth, 1) || len([]rune(n.Branch)) != 3*n.Depth:
				t.Fatalf("seed %d: before %s at depth %d is %q", seed, m.ID, n.Depth, n.Branch)
			}
			seen[m.ID] = true
		}
	}
}

// isRoot reports whether a message's parent is not among the nodes, or leads back to the message.
func isRoot(m *schema.Message, nodes []Node) bool {
	parent := m.ParentID
	for range nodes {
		i := slices.IndexFunc(nodes, func(n Node) bool { return n.Message.ID == parent })
		if i < 0 {
			return parent == m.ParentID
		}
		if parent == m.ID {
			return true
		}
		parent = nodes[i].Message.ParentID
	}
	return false
}

// TestLongChain checks that a chain of answers takes time and space by its length, not its square,
// and that only the levels next to a message are drawn.
func TestLongChain(t *testing.T) {
	const length = 100_000
	nodes := make([]Node, length)
	at := time.Date(2026, 3, 13, 14, 30, 0, 0, time.UTC)
	for i := range nodes {
		m := mailboxtest.Message(fmt.Sprintf("r%06d", i), 0)
		m.CreatedAt = schema.NewTimestamp(at.Add(time.Duration(i) * time.Second))
		if i > 0 {
			m.ParentID = nodes[i-1].Message.ID
		}
		nodes[i].Entry = mailbox.Entry{Message: &m}
	}
	Sort(nodes, func(n Node) *schema.Message { return n.Message })
	placed := tree(nodes)
	space := 0
	for i, n := range placed {
		if n.Depth != i {
			t.Fatalf("message %d has depth %d", i, n.Depth)
		}
		space += len(n.Branch) + len(n.Below)
	}
	if most := length * 4 * mostBranches * 3; space > most {
		t.Errorf("the branches take %d bytes, want at most %d", space, most)
	}
	if got, want := placed[length-1].Branch, strings.Repeat("   ", mostBranches-1)+"└─ "; got != want {
		t.Errorf("the last message follows %q, want %q", got, want)
	}
}
