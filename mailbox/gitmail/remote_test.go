package gitmail_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/oacp-go/oacp/internal/testing/check"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/gitmail"
	"github.com/oacp-go/oacp/schema"
)

// wantRemoteError fails the test unless a sync returns a *RemoteError with these words.
func (m *machine) wantRemoteError(words string) {
	m.n.t.Helper()
	_, err := m.syncWithin(20 * time.Second)
	if _, ok := errors.AsType[*gitmail.RemoteError](err); !ok || !strings.Contains(err.Error(), words) {
		m.n.t.Errorf("%s: sync = %v, want a RemoteError with %q", m.name, err, words)
	}
}

// TestRemoteGone takes the remote away for a while. Nothing is lost, and everything arrives once it is
// back.
func TestRemoteGone(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, 2, both...)
	here, there := n.machines[0], n.machines[1]
	before := here.send("claude", "codex")
	n.settle()
	away := n.remote + ".away"
	if err := os.Rename(n.remote, away); err != nil {
		t.Fatal(err)
	}
	first, second := here.send("claude", "codex"), there.send("codex", "claude")
	there.acknowledge("codex", before.Message.ID)
	for range 2 {
		here.wantRemoteError("")
		there.wantRemoteError("")
	}
	if err := os.Rename(away, n.remote); err != nil {
		t.Fatal(err)
	}
	n.settle()
	n.want("codex", mailbox.Inbox, first)
	n.want("claude", mailbox.Inbox, second)
	n.checkEqual()
}

// TestRemoteReturns has a remote that refuses the fetch but answers the next command, as one that comes
// back in between. The sync succeeds.
func TestRemoteReturns(t *testing.T) {
	n := newNetwork(t, 2, both...)
	n.settle()
	here, there := n.machines[0], n.machines[1]
	r := there.send("codex", "claude")
	there.sync()
	script := writeScript(t, filepath.Join(n.dir, "fail-once"), `if mkdir "$0.failed" 2>/dev/null; then exit 1; fi; exec git upload-pack "$@"`)
	n.git(here.clone, "config", "remote.oacp.uploadpack", script)
	here.sync()
	if _, err := os.Stat(script + ".failed"); err != nil {
		t.Errorf("the remote never failed: %v", err)
	}
	here.want("claude", mailbox.Inbox, r)
}

// TestSurvivingFetch has a fetch of a killed sync hold the lock of the ref while the next sync fetches.
func TestSurvivingFetch(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, 2, both...)
	here, there := n.machines[0], n.machines[1]
	r := there.send("codex", "claude")
	there.sync()
	lock := filepath.Join(here.dir, ".git/refs/remotes/oacp/mail.lock")
	once := filepath.Join(n.dir, "once")
	n.git(here.clone, "config", "remote.oacp.uploadpack", writeScript(t, filepath.Join(n.dir, "upload-pack"),
		"if mkdir '"+once+"' 2>/dev/null; then : >'"+lock+"'; else rm -f '"+lock+"'; fi; exec git-upload-pack \"$@\""))
	here.sync()
	here.want("claude", mailbox.Inbox, r)
	if _, err := os.Stat(once); err != nil {
		t.Error(err)
	}
}

// TestRemoteHangs has a remote that does not answer. A sync ends in time, and so do its processes.
func TestRemoteHangs(t *testing.T) {
	t.Parallel()
	for _, service := range []string{"uploadpack", "receivepack"} {
		t.Run(service, func(t *testing.T) {
			n := newNetwork(t, 2, both...)
			n.settle()
			here := n.machines[0]
			script := writeScript(t, filepath.Join(n.dir, "hang"), "sleep 1000")
			n.git(here.clone, "config", "remote.oacp."+service, script)
			r := here.send("claude", "codex")
			ended := make(chan error, 1)
			go func() {
				_, err := here.syncWithin(500 * time.Millisecond)
				ended <- err
			}()
			select {
			case err := <-ended:
				if !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("sync = %v, want context.DeadlineExceeded", err)
				}
			case <-time.After(time.Minute):
				t.Fatal("a sync with half a second goes on after a minute")
			}
			n.git(here.clone, "config", "--unset", "remote.oacp."+service)
			n.settle()
			n.machines[1].want("codex", mailbox.Inbox, r)
		})
	}
}

// TestRemoteRefuses has a protected branch. What others pushed arrives all the same, and what is
// refused leaves when the protection does.
func TestRemoteRefuses(t *testing.T) {
	t.Parallel()
	for _, hook := range []string{"pre-receive", "update"} {
		t.Run(hook, func(t *testing.T) {
			n := newNetwork(t, 2, both...)
			here, there := n.machines[0], n.machines[1]
			n.settle()
			incoming := there.send("codex", "claude")
			there.sync()
			path := writeScript(t, filepath.Join(n.remote, "hooks", hook), "echo 'GH006: Protected branch update failed' >&2; exit 1")
			r := here.send("claude", "codex")
			here.wantRemoteError("Protected branch")
			here.want("claude", mailbox.Inbox, incoming)
			check.Remove(t, path)
			n.settle()
			there.want("codex", mailbox.Inbox, r)
			n.checkEqual()
		})
	}
}

// revisions are what somebody may do to the branch of the mailboxes, given an old commit.
var revisions = map[string]func(n *network, old string){
	"rewound": func(n *network, old string) { n.git(n.remote, "update-ref", mailRef, old) },
	"deleted": func(n *network, _ string) { n.git(n.remote, "update-ref", "-d", mailRef) },
	"squashed": func(n *network, _ string) {
		n.git(n.remote, "update-ref", mailRef, n.git(n.remote, "commit-tree", "-m", "Squashed", mailRef+"^{tree}"))
	},
	"empty": func(n *network, _ string) {
		tree := n.gitInput(n.remote, "", "mktree")
		n.git(n.remote, "update-ref", mailRef, n.git(n.remote, "commit-tree", "-m", "Nothing", tree))
	},
	"replaced by code": func(n *network, _ string) { n.git(n.remote, "update-ref", mailRef, "refs/heads/main") },
	"rewound and deepened": func(n *network, old string) {
		n.git(n.remote, "update-ref", mailRef, n.git(n.remote, "commit-tree", "-p", old, "-m", "Another", old+"^{tree}"))
	},
}

// TestRevisedHistory rewinds, deletes and rewrites the branch of the mailboxes while both machines
// have mail. Pending messages stay pending and acknowledged ones stay acknowledged.
func TestRevisedHistory(t *testing.T) {
	notInShort(t)
	t.Parallel()
	original := newNetwork(t, 2, both...)
	here, there := original.machines[0], original.machines[1]
	original.settle()
	oldest := here.send("claude", "codex")
	original.settle()
	old := original.tip()
	pending, done, buried := here.send("claude", "codex"), here.send("claude", "codex"), here.send("claude", "codex")
	original.settle()
	there.acknowledge("codex", oldest.Message.ID)
	there.acknowledge("codex", done.Message.ID)
	there.bury("codex", buried.Message.ID)
	original.settle()
	fromHere, fromThere := here.send("claude", "codex"), there.send("codex", "claude")
	for name, revise := range revisions {
		t.Run(name, func(t *testing.T) {
			n := original.copy(t)
			revise(n, old)
			n.tolerant = name == "replaced by code"
			n.settle()
			// A machine that joins afterwards also has everything.
			if name == "rewound" || name == "deleted" || *thorough {
				n.join("new", both...)
				n.settle()
			}
			n.want("codex", mailbox.Inbox, pending, fromHere)
			n.want("claude", mailbox.Inbox, fromThere)
			n.want("codex", mailbox.Archive, oldest, done)
			n.want("codex", mailbox.DeadLetters, buried)
			n.want("claude", mailbox.Outbox, oldest, pending, done, buried, fromHere)
			n.checkEqual()
		})
	}
}

// TestRewoundToAnyCommit joins a branch at each of its commits. The first one says already what the branch holds.
func TestRewoundToAnyCommit(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, 1, both...)
	pending := n.machines[0].send("claude", "codex")
	n.settle()
	for _, commit := range strings.Fields(n.git(n.remote, "rev-list", "--reverse", mailRef)) {
		n.git(n.remote, "update-ref", mailRef, commit)
		m := n.join("at-"+commit[:8], both...)
		m.sync()
		m.sync()
	}
	n.settle()
	n.want("codex", mailbox.Inbox, pending)
}

// TestDeletedByHand removes folders of a workspace. They come back with what was pending, and no
// machine takes the removal for acknowledgements.
func TestDeletedByHand(t *testing.T) {
	notInShort(t)
	t.Parallel()
	original := newNetwork(t, 2, both...)
	original.settle()
	from := original.machines[0]
	pending, archived, buried := from.send("claude", "codex"), from.send("claude", "codex"), from.send("claude", "codex")
	original.settle()
	original.machines[1].acknowledge("codex", archived.Message.ID)
	original.machines[1].bury("codex", buried.Message.ID)
	original.settle()
	for _, folder := range []string{
		"agents/codex/inbox", "agents/claude/outbox", "agents", "state", ".git", "workspace.json", "agents/codex/inbox/archive",
		"agents/codex/inbox made anew", "agents/claude/outbox made anew", "agents/codex/dead_letter made anew",
	} {
		t.Run(folder, func(t *testing.T) {
			n := original.copy(t)
			here, there := n.machines[0], n.machines[1]
			folder, again := strings.CutSuffix(folder, " made anew")
			path := filepath.Join(here.dir, folder)
			check.Remove(t, path)
			if again {
				if err := os.MkdirAll(path, 0o755); err != nil {
					t.Fatal(err)
				}
			}
			if folder == ".git" {
				if _, err := here.trySync(); !errors.Is(err, gitmail.ErrNoRepository) {
					t.Errorf("sync without a repository = %v, want ErrNoRepository", err)
				}
				here.init(both...)
			}
			later, more := there.send("codex", "claude"), there.send("claude", "codex")
			there.sync()
			here.sync()
			n.settle()
			n.want("codex", mailbox.Inbox, pending, more)
			n.want("claude", mailbox.Inbox, later)
			n.want("claude", mailbox.Outbox, pending, archived, buried, more)
			n.want("codex", mailbox.Archive, archived)
			n.want("codex", mailbox.DeadLetters, buried)
			n.checkEqual()
		})
	}
}

// TestDeletedMessages removes single files of a workspace by hand, which says nothing: they come back.
func TestDeletedMessages(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, 2, both...)
	here, there := n.machines[0], n.machines[1]
	n.settle()
	first, second, third := here.send("claude", "codex"), here.send("claude", "codex"), here.send("claude", "codex")
	n.settle()
	check.Remove(t, first.Inboxes[0])
	check.Remove(t, second.Outbox)
	check.Remove(t, third.Inboxes[0])
	check.Remove(t, third.Outbox)
	n.settle()
	n.want("codex", mailbox.Inbox, first, second, third)
	n.want("claude", mailbox.Outbox, first, second, third)
	here.acknowledge("codex", first.Message.ID)
	here.acknowledge("codex", second.Message.ID)
	here.acknowledge("codex", third.Message.ID)
	n.settle()
	there.want("codex", mailbox.Inbox)
	n.checkEqual()
}

// TestWrongClocks has machines whose clocks are years apart, and files of every age.
func TestWrongClocks(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, 3, both...)
	n.settle()
	sent := make([]*mailbox.Receipt, len(n.machines))
	for i, m := range n.machines {
		at := time.Now().AddDate(10*(i-1), 0, 0)
		message := draft("claude", "codex")
		message.CreatedAt = schema.NewTimestamp(at)
		id, err := schema.NewID(at, "claude", message.Type, schema.LongRand, strings.NewReader(strings.Repeat(fmt.Sprint(i), 64)))
		if err != nil {
			t.Fatal(err)
		}
		message.ID = id
		if sent[i], err = m.w.Send(t.Context(), message, nil); err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{sent[i].Outbox, sent[i].Inboxes[0], filepath.Dir(sent[i].Outbox), filepath.Dir(sent[i].Inboxes[0])} {
			if err := os.Chtimes(path, at, at); err != nil {
				t.Fatal(err)
			}
		}
	}
	n.settle()
	n.want("codex", mailbox.Inbox, sent...)
	for i, m := range n.machines {
		m.acknowledge("codex", sent[i].Message.ID)
		at := time.Now().AddDate(10*(1-i), 0, 0)
		if err := os.Chtimes(m.w.BoxPath("codex", mailbox.Inbox), at, at); err != nil {
			t.Fatal(err)
		}
	}
	n.settle()
	n.want("codex", mailbox.Inbox)
	n.checkEqual()
}

// TestCoarseTimes sends and acknowledges between syncs as fast as it can. The times of folders have
// steps of some milliseconds, so a folder can change without a new time.
func TestCoarseTimes(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, 2, both...)
	here, there := n.machines[0], n.machines[1]
	n.settle()
	for range 4 {
		r := here.send("claude", "codex")
		here.sync()
		here.acknowledge("codex", r.Message.ID)
		pending := here.send("claude", "codex")
		here.sync()
		there.sync()
		there.want("codex", mailbox.Inbox, pending)
		there.acknowledge("codex", pending.Message.ID)
		there.sync()
		here.sync()
	}
	here.want("codex", mailbox.Inbox)
	n.checkEqual()
}

// TestAgentOfOneMachine makes agents on single machines after the first sync.
func TestAgentOfOneMachine(t *testing.T) {
	t.Parallel()
	n := newRemote(t)
	here, there := n.join("here", "claude"), n.join("there", "codex")
	n.settle()
	first, second := here.send("claude", "codex"), there.send("codex", "claude")
	n.settle()
	n.want("codex", mailbox.Inbox, first)
	n.want("claude", mailbox.Inbox, second)
	n.checkEqual()
}

// TestOneMessageForMany acknowledges one message for each of its recipients on another machine.
func TestOneMessageForMany(t *testing.T) {
	t.Parallel()
	agents := []schema.AgentName{"claude", "codex", "gemini"}
	n := newNetwork(t, 3, append(agents, "boss")...)
	n.settle()
	r := n.machines[0].send("boss", "claude", "codex", "gemini")
	n.settle()
	for i, m := range n.machines {
		m.acknowledge(agents[i], r.Message.ID)
	}
	n.settle()
	for _, m := range n.machines {
		for _, agent := range agents {
			m.want(agent, mailbox.Inbox)
		}
	}
	n.checkEqual()
}
