package gitmail_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/oacp-go/oacp/internal/testing/check"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/schema"
)

// plain makes a workspace without a repository of its own, in which messages get short names, as one of an earlier version.
func (m *machine) plain(agents ...schema.AgentName) {
	m.n.t.Helper()
	_, err := project.Init(m.dir, project.InitOptions{Project: "test", Agents: agents, Now: time.Now()})
	if err == nil {
		check.Remove(m.n.t, filepath.Join(m.dir, "agents/.gitattributes"))
		err = m.open()
	}
	if err != nil {
		m.n.t.Fatal(err)
	}
}

// TestTakenOver makes repositories for workspaces that have mail already. Both have messages of one
// sender, type and minute, whose short file names are the same, and one has only the inbox copy of a
// message.
func TestTakenOver(t *testing.T) {
	check.NeedsExclusiveRename(t)
	t.Parallel()
	n := newRemote(t)
	here, there := n.clone("here"), n.clone("there")
	for _, m := range n.machines {
		m.plain(both...)
	}
	var sent, pending []*mailbox.Receipt
	message := draft("codex", "claude")
	message.CreatedAt = schema.NewTimestamp(time.Now())
	for _, m := range n.machines {
		r, err := m.w.Send(t.Context(), message, nil)
		if err != nil {
			t.Fatal(err)
		}
		sent = append(sent, r)
	}
	if first, second := filepath.Base(sent[0].Outbox), filepath.Base(sent[1].Outbox); first != second {
		t.Fatalf("the short names %s and %s are not the same", first, second)
	}
	pending = append(pending, sent...)
	acknowledged, archived := here.send("codex", "claude"), there.send("codex", "claude")
	sent = append(sent, acknowledged, archived)
	here.acknowledge("claude", acknowledged.Message.ID)
	there.acknowledge("claude", archived.Message.ID)
	adopted := here.send("codex", "claude")
	check.Remove(t, adopted.Outbox)
	sent, pending = append(sent, adopted), append(pending, adopted)
	for _, m := range n.machines {
		m.init(both...)
	}
	n.settle()
	n.join("new", both...)
	n.settle()
	n.want("claude", mailbox.Inbox, pending...)
	n.want("claude", mailbox.Archive, acknowledged, archived)
	n.want("codex", mailbox.Outbox, sent...)
	there.acknowledge("claude", sent[0].Message.ID)
	here.acknowledge("claude", sent[1].Message.ID)
	n.settle()
	n.want("claude", mailbox.Inbox, pending[2:]...)
}

// TestOpenedBefore sends from a workspace that was opened before it got its repository, as a program
// does that runs all the time.
func TestOpenedBefore(t *testing.T) {
	t.Parallel()
	n := newRemote(t)
	var sent []*mailbox.Receipt
	for _, name := range []string{"here", "there"} {
		m := n.clone(name)
		m.plain(both...)
		m.init(both...)
	}
	for range 3 {
		for _, m := range n.machines {
			sent = append(sent, m.send("codex", "claude"))
		}
		n.settle()
	}
	n.want("claude", mailbox.Inbox, sent...)
}

// TestUndeliverable has a staged copy whose inbox is gone, and other obstacles in the workspace. Other
// mail goes on.
func TestUndeliverable(t *testing.T) {
	notInShort(t)
	t.Parallel()
	obstacles := map[string]func(t *testing.T, m *machine){
		"staged copy without a mailbox": func(t *testing.T, m *machine) {
			r := m.send("claude", "gemini")
			staged := filepath.Join(m.dir, "state/outgoing", string(r.Message.ID)+"@gemini@inbox")
			if err := os.Rename(r.Inboxes[0], staged); err != nil {
				t.Fatal(err)
			}
			check.Remove(t, filepath.Join(m.dir, "agents/gemini"))
		},
		"file for a box": func(t *testing.T, m *machine) {
			check.Remove(t, filepath.Join(m.dir, "agents/gemini/inbox"))
			check.WriteFile(t, filepath.Join(m.dir, "agents/gemini/inbox"), "not a folder\n")
		},
		"symlink for a box": func(t *testing.T, m *machine) {
			check.Remove(t, filepath.Join(m.dir, "agents/gemini/outbox"))
			if err := os.Symlink(t.TempDir(), filepath.Join(m.dir, "agents/gemini/outbox")); err != nil {
				t.Fatal(err)
			}
		},
		"files that are no messages": func(t *testing.T, m *machine) {
			for _, name := range []string{"notes.txt", "-rf.yaml", "a b.yaml", "\n.yaml", "20260313T1430Z_claude_notification.yaml", "x.yaml.reason.json"} {
				for _, box := range []string{"inbox", "outbox", "inbox/archive", "dead_letter"} {
					check.WriteFile(t, filepath.Join(m.dir, "agents/gemini", box, name), "not a message\n")
				}
			}
		},
		"folder for a message": func(t *testing.T, m *machine) {
			for _, box := range []string{"inbox", "outbox", "inbox/archive", "dead_letter"} {
				check.WriteFile(t, filepath.Join(m.dir, "agents/gemini", box, "20260313T1430Z_gemini_notification.yaml/file"), "x\n")
			}
		},
		"huge file": func(t *testing.T, m *machine) {
			for _, box := range []string{"inbox", "outbox", "inbox/archive", "dead_letter"} {
				path := filepath.Join(m.dir, "agents/gemini", box, "20260313T1430Z_gemini_notification_0123456789abcdef.yaml")
				check.WriteFile(t, path, "")
				if err := os.Truncate(path, 1<<30); err != nil {
					t.Fatal(err)
				}
			}
		},
		"agent with a strange name": func(t *testing.T, m *machine) {
			check.WriteFile(t, filepath.Join(m.dir, "agents/a b\n/inbox/20260313T1430Z_gemini_notification.yaml"), "x\n")
			check.WriteFile(t, filepath.Join(m.dir, "agents/.hidden/inbox/20260313T1430Z_gemini_notification.yaml"), "x\n")
			check.WriteFile(t, filepath.Join(m.dir, "agents/file"), "x\n")
		},
	}
	original := newNetwork(t, 2, "claude", "codex", "gemini")
	original.settle()
	for name, obstruct := range obstacles {
		t.Run(name, func(t *testing.T) {
			n := original.copy(t)
			here, there := n.machines[0], n.machines[1]
			obstruct(t, here)
			r, incoming := here.send("claude", "codex"), there.send("codex", "claude")
			there.sync()
			result, err := here.trySync()
			if err != nil {
				t.Errorf("sync = %v", err)
			}
			if len(result.Problems) == 0 && name != "agent with a strange name" {
				t.Error("the sync reports no problem")
			}
			there.sync()
			here.want("claude", mailbox.Inbox, incoming)
			there.want("codex", mailbox.Inbox, r)
			n.checkRepository(n.remote)
		})
	}
}
