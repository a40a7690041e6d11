package gitmail_test

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/oacp-go/oacp/internal/git"
	"github.com/oacp-go/oacp/internal/testing/check"
	"github.com/oacp-go/oacp/internal/testing/gittest"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/gitmail"
	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/schema"
)

// syncWith syncs with options and fails the test if that fails.
func (m *machine) syncWith(o gitmail.Options, step func(name string)) gitmail.Result {
	m.n.t.Helper()
	r, err := gitmail.Open(m.n.t.Context(), m.w)
	if err != nil {
		m.n.t.Fatal(err)
	}
	if step != nil {
		r.SetStep(step)
	}
	result, err := r.Sync(m.n.t.Context(), o)
	if err != nil {
		m.n.t.Fatalf("%s: sync: %v", m.name, err)
	}
	return result
}

// TestBoxRenamedAway renames a box away and back all the time while a machine syncs. That changes no message.
func TestBoxRenamedAway(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, 2, both...)
	here, there := n.machines[0], n.machines[1]
	pending := here.send("claude", "codex")
	n.settle()
	inbox := here.w.BoxPath("codex", mailbox.Inbox)
	end, ended := make(chan bool), make(chan bool)
	go func() {
		defer close(ended)
		for {
			select {
			case <-end:
				return
			default:
			}
			_ = os.Rename(inbox, inbox+"-away")                     // perhaps it is away
			if err := os.Rename(inbox+"-away", inbox); err != nil { // the sync has made another one
				_ = os.RemoveAll(inbox + "-away")
			}
		}
	}()
	n.tolerant = true
	for range 10 {
		here.send("codex", "claude")
		_, _ = here.trySync() // it may be blocked
	}
	close(end)
	<-ended
	check.Remove(t, inbox+"-away")
	n.settle()
	n.want("codex", mailbox.Inbox, pending)
	there.acknowledge("codex", pending.Message.ID)
	n.settle()
	n.checkEqual()
}

// TestBoxDeletedTwice empties a box twice, with a refused sync in between. Neither changes a message.
func TestBoxDeletedTwice(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, 2, both...)
	here := n.machines[0]
	pending := here.send("claude", "codex")
	n.settle()
	inbox := here.w.BoxPath("codex", mailbox.Inbox)
	hook := writeScript(t, filepath.Join(n.remote, "hooks", "pre-receive"), "exit 1")
	here.send("codex", "claude")
	for range 2 {
		check.Remove(t, inbox)
		if err := os.Mkdir(inbox, 0o755); err != nil {
			t.Fatal(err)
		}
		if _, err := here.trySync(); err == nil {
			t.Error("a refused sync succeeds")
		}
	}
	check.Remove(t, inbox)
	if err := os.Mkdir(inbox, 0o755); err != nil {
		t.Fatal(err)
	}
	check.Remove(t, hook)
	n.settle()
	n.want("codex", mailbox.Inbox, pending)
	n.checkEqual()
}

// TestRenamedAwayWhileApplied renames a box or a mailbox away after a sync has seen the message in it, which another machine has
// handled, and back after the sync. That restores nothing.
func TestRenamedAwayWhileApplied(t *testing.T) {
	t.Parallel()
	for _, folder := range []string{"agents/codex/inbox", "agents/codex"} {
		t.Run(folder, func(t *testing.T) { testRenamedAway(t, folder) })
	}
}

func testRenamedAway(t *testing.T, folder string) {
	n := newNetwork(t, 2, both...)
	here, there := n.machines[0], n.machines[1]
	r := here.send("claude", "codex")
	n.settle()
	there.acknowledge("codex", r.Message.ID)
	there.sync()
	inbox := filepath.Join(here.dir, folder)
	here.syncWith(gitmail.Options{}, func(step string) {
		if step == "arrived" {
			if err := os.Rename(inbox, filepath.Join(n.dir, "away")); err != nil {
				t.Error(err)
			}
		}
	})
	if err := os.Rename(filepath.Join(n.dir, "away"), inbox); err != nil {
		t.Fatal(err)
	}
	n.settle()
	n.want("codex", mailbox.Inbox)
	n.want("codex", mailbox.Archive, r)
	n.checkEqual()
}

// TestBystanders has the branch squashed, rewound, deleted and repaired after a message was restored, while other
// machines were away. None of them acknowledges it.
func TestBystanders(t *testing.T) {
	t.Parallel()
	original := newNetwork(t, 3, both...)
	here, there := original.machines[0], original.machines[1]
	old := original.tip()
	r := here.send("claude", "codex")
	original.settle()
	there.acknowledge("codex", r.Message.ID)
	original.settle()
	here.restore("codex", r)
	here.sync()
	there.sync()
	events := maps.Clone(revisions)
	delete(events, "replaced by code")
	events["repaired"] = func(n *network, _ string) { // as docs/git.md says
		away := n.machines[2]
		if err := os.Rename(filepath.Join(away.dir, ".git"), filepath.Join(n.dir, "damaged")); err != nil {
			t.Fatal(err)
		}
		away.init()
	}
	for name, happen := range events {
		t.Run(name, func(t *testing.T) {
			n := original.copy(t)
			happen(n, old)
			n.machines[2].sync()
			n.settle()
			n.want("codex", mailbox.Inbox, r)
			n.want("codex", mailbox.Archive)
			n.checkEqual()
		})
	}
}

// TestArchivesAgree handles messages on machines that have not synced: the same one on two of them, and one that was
// restored in between; and it removes an archive. All have the same archives.
func TestArchivesAgree(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, 2, both...)
	here, there := n.machines[0], n.machines[1]
	twice, again, one := here.send("claude", "codex"), here.send("claude", "codex"), here.send("claude", "codex")
	n.settle()
	here.acknowledge("codex", twice.Message.ID)
	there.acknowledge("codex", twice.Message.ID)
	here.acknowledge("codex", again.Message.ID)
	here.sync()
	there.acknowledge("codex", one.Message.ID)
	n.settle()
	there.restore("codex", again)
	n.settle()
	there.acknowledge("codex", again.Message.ID)
	check.Remove(t, filepath.Join(here.w.BoxPath("codex", mailbox.Archive), filepath.Base(twice.Outbox)))
	n.settle()
	n.want("codex", mailbox.Archive, twice, again, one)
	n.want("codex", mailbox.Inbox)
	n.checkEqual()
}

// TestBackup brings agents/ back from an old backup, which has a handled message pending and lacks later ones.
func TestBackup(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, 2, both...)
	here, there := n.machines[0], n.machines[1]
	first := here.send("claude", "codex")
	n.settle()
	backup := filepath.Join(n.dir, "backup")
	if err := os.CopyFS(backup, os.DirFS(filepath.Join(here.dir, "agents"))); err != nil {
		t.Fatal(err)
	}
	second := there.send("claude", "codex")
	n.settle()
	check.Remove(t, filepath.Join(here.dir, "agents"))
	if err := os.Rename(backup, filepath.Join(here.dir, "agents")); err != nil {
		t.Fatal(err)
	}
	n.settle()
	n.want("codex", mailbox.Inbox, first, second)
	n.checkEqual()
}

// TestEmptiedRefs has the refs as a power failure leaves them: empty, or full of NUL. The next sync names and repairs them.
func TestEmptiedRefs(t *testing.T) {
	t.Parallel()
	original := newNetwork(t, 2, both...)
	before, after := original.machines[0].send("claude", "codex"), original.machines[1].send("codex", "claude")
	original.settle()
	for ref, content := range map[string]string{baseRef: "", "refs/remotes/oacp/mail": strings.Repeat("\x00", 41), "refs/oacp/next": ""} {
		t.Run(filepath.Base(ref), func(t *testing.T) {
			n := original.copy(t)
			here, there := n.machines[0], n.machines[1]
			check.WriteFile(t, filepath.Join(here.dir, ".git", ref), content)
			later := there.send("codex", "claude")
			there.sync()
			if result, err := here.trySync(); err != nil || len(result.Problems) != 1 || result.Problems[0].Path != ".git/"+ref {
				t.Errorf("sync = %v, %v; want a problem that names the file", result.Problems, err)
			}
			n.settle()
			here.want("claude", mailbox.Inbox, after, later)
			here.want("codex", mailbox.Inbox, before)
			n.checkEqual()
		})
	}
}

// TestStaleLocks syncs after git was killed while it moved a ref, perhaps with a wrong clock. The process of a young lock
// may still run, so the sync waits until the lock is old.
func TestStaleLocks(t *testing.T) {
	t.Parallel()
	for name, age := range map[string]time.Duration{"old": time.Minute, "of the future": -24 * time.Hour, "young": git.LockAge - time.Second} {
		t.Run(name, func(t *testing.T) {
			n := newNetwork(t, 1, both...)
			m := n.machines[0]
			lock := filepath.Join(m.dir, ".git", baseRef+".lock")
			check.WriteFile(t, lock, "")
			at := time.Now().Add(-age)
			if err := os.Chtimes(lock, at, at); err != nil {
				t.Fatal(err)
			}
			r := m.send("claude", "codex")
			m.sync()
			ended := time.Now()
			if waited := ended.Sub(at.Add(age)); waited > 15*time.Second {
				t.Errorf("the sync waited %v for the lock", waited)
			}
			if held := ended.Sub(at); name == "young" && held < git.LockAge {
				t.Errorf("the sync took a lock away after %v", held)
			}
			m.want("codex", mailbox.Inbox, r)
			n.checkEqual()
		})
	}
}

// TestCodeBranch refuses to join a branch of code that happens to have agents/.
func TestCodeBranch(t *testing.T) {
	t.Parallel()
	n := newRemote(t)
	code := filepath.Join(n.dir, "code")
	n.git(n.dir, "clone", "--quiet", n.remote, code)
	check.WriteFile(t, filepath.Join(code, "agents/planner/prompt.md"), "You plan.\n")
	check.WriteFile(t, filepath.Join(code, "agents/planner/inbox/README.md"), "Mail.\n")
	n.git(code, "add", "-A")
	n.git(code, "commit", "--quiet", "-m", "Agents")
	n.git(code, "push", "--quiet", "origin", "HEAD:"+mailRef)
	m := n.clone("here")
	if err := m.tryInit(both...); !errors.Is(err, gitmail.ErrForeignBranch) {
		t.Errorf("init = %v, want ErrForeignBranch", err)
	}
}

// TestContention has another machine push between the fetch and the push of a sync. The mail goes to the ref of this
// machine, where a third one finds it, and the next push folds it into the branch. Then the machine deletes its ref.
func TestContention(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, 3, both...)
	here, there, third := n.machines[0], n.machines[1], n.machines[2]
	mine := here.send("claude", "codex")
	var theirs *mailbox.Receipt
	here.syncWith(gitmail.Options{}, func(step string) {
		if step == "committed" && theirs == nil {
			theirs = there.send("claude", "codex")
			there.sync()
		}
	})
	if refs := n.git(n.remote, "for-each-ref", "--format=%(refname)", "refs/oacp/machines"); strings.Count(refs, "\n") != 0 || refs == "" {
		t.Errorf("the machines' refs are %q, want one", refs)
	}
	third.sync()
	third.want("codex", mailbox.Inbox, mine, theirs)
	third.send("codex", "claude")
	third.sync()
	if tree := n.git(n.remote, "ls-tree", "-r", "--name-only", mailRef); !strings.Contains(tree, filepath.Base(mine.Outbox)) {
		t.Errorf("the branch has no %s:\n%s", filepath.Base(mine.Outbox), tree)
	}
	here.sync()
	if refs := n.git(n.remote, "for-each-ref", "refs/oacp/machines"); refs != "" {
		t.Errorf("the machines' refs are %q, want none once the branch has what they have", refs)
	}
	n.settle()
	n.want("codex", mailbox.Inbox, mine, theirs)
	n.checkEqual()
}

// TestRefOfALaterVersion syncs beside the ref of a machine with a later version, which this version cannot read. It stays.
func TestRefOfALaterVersion(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, 1, both...)
	n.tolerant = true
	m, clone := n.machines[0], filepath.Join(n.dir, "later")
	n.git(n.dir, "clone", "-q", "--branch", filepath.Base(mailRef), n.remote, clone)
	check.WriteFile(t, filepath.Join(clone, ".oacp-format"), "4\n")
	const ref = "refs/oacp/machines/00000000000000000000000000000000"
	n.git(clone, "commit", "-qam", "later")
	n.git(clone, "push", "-q", "origin", "HEAD:"+ref)
	for range 2 {
		m.send("claude", "codex")
		if result := m.sync(); len(result.Problems) != 1 || result.Problems[0].Path != ref {
			t.Errorf("the problems are %v, want one of %s", result.Problems, ref)
		}
	}
	if there := n.git(n.remote, "for-each-ref", "--format=%(refname)", ref); there != ref {
		t.Errorf("the refs are %q, want %s", there, ref)
	}
}

// TestManyRefs syncs beside many refs of machines: mailboxes, other trees and no trees. A sync reads and folds some of them at
// once. The mail of a machine among them arrives, and mail is exchanged meanwhile.
func TestManyRefs(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, 3, both...)
	n.tolerant = true
	here, there, contended := n.machines[0], n.machines[1], n.machines[2]
	blob := n.gitInput(n.remote, "x\n", "hash-object", "-w", "--stdin")
	foreign := n.git(n.remote, "commit-tree", "-m", "x", n.gitInput(n.remote, "100644 blob "+blob+"\tx\n", "mktree"))
	var updates strings.Builder
	for i := range 60 {
		for j, object := range []string{n.tip(), foreign, blob} {
			fmt.Fprintf(&updates, "create refs/oacp/machines/%d%031x %s\n", j, i, object)
		}
	}
	n.gitInput(n.remote, updates.String(), "update-ref", "--stdin")
	r := contended.send("codex", "claude")
	contended.sync()
	tip := n.tip()
	n.git(n.remote, "update-ref", "refs/oacp/machines/ffffffffffffffffffffffffffffffff", tip)
	n.git(n.remote, "update-ref", mailRef, tip+"~1") // the push to the branch was refused
	for left := 120; ; left -= 50 {
		sent := here.send("claude", "codex")
		here.sync()
		there.sync()
		if count(there.ids("codex", mailbox.Inbox), sent.Message.ID) != 1 {
			t.Fatal("mail is not exchanged")
		}
		if got := len(strings.Fields(n.git(n.remote, "for-each-ref", "--format=%(refname)", "refs/oacp/machines"))); got == 120 {
			break // those that nobody knows stay
		} else if left < -1000 {
			t.Fatalf("%d refs are left, want the 120 of unknown formats", got)
		}
	}
	if count(there.ids("claude", mailbox.Inbox), r.Message.ID) != 1 {
		t.Error("the mail of a machine's ref does not arrive")
	}
}

// TestNothingToPush syncs while the remote has the ref of this machine, which has nothing to send, and one of a machine
// with a later version. Without a ref to push, git would push what push.default says.
func TestNothingToPush(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, 2, both...)
	n.tolerant = true
	here, there := n.machines[0], n.machines[1]
	here.send("claude", "codex")
	here.syncWith(gitmail.Options{}, func(step string) {
		if step == "committed" && len(there.ids("codex", mailbox.Outbox)) == 0 {
			there.send("codex", "claude")
			there.sync()
		}
	})
	later := n.gitInput(n.remote, "3\n", "hash-object", "-w", "--stdin")
	later = n.gitInput(n.remote, "100644 blob "+later+"\t.oacp-format\n", "mktree")
	later = n.git(n.remote, "commit-tree", "-m", "later", later)
	n.git(n.remote, "update-ref", "refs/oacp/machines/00000000000000000000000000000000", later)
	n.git(here.dir, "config", "push.default", "nothing")
	for range 3 {
		here.sync()
	}
}

// TestFirstPushIsRaced has another machine make the branch between the fetch and the push of a sync that found none.
func TestFirstPushIsRaced(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, 2, both...)
	here, there := n.machines[0], n.machines[1]
	n.git(n.remote, "update-ref", "-d", mailRef)
	mine := here.send("claude", "codex")
	here.syncWith(gitmail.Options{}, func(step string) {
		if step == "committed" {
			there.sync()
		}
	})
	n.settle()
	there.want("codex", mailbox.Inbox, mine)
	n.checkEqual()
}

// TestPrune prunes old mail on one machine, while another one is away with a pruned message pending. It does not come
// back, even if the branch loses its history.
func TestPrune(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"undisturbed", "rewound", "deleted", "empty"} {
		t.Run(name, func(t *testing.T) { testPrune(t, revisions[name]) })
	}
}

func testPrune(t *testing.T, revise func(n *network, old string)) {
	t.Parallel()
	n := newNetwork(t, 3, both...)
	here, there, away := n.machines[0], n.machines[1], n.machines[2]
	n.settle()
	old := n.tip()
	done, dead, pending := here.send("claude", "codex"), here.send("claude", "codex"), here.send("claude", "codex")
	n.settle()
	here.acknowledge("codex", done.Message.ID)
	here.bury("codex", dead.Message.ID)
	here.sync()
	there.sync()
	may, err := here.w.Prunable(t.Context(), time.Now().Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	if result := here.syncWith(gitmail.Options{DryRun: true, Prune: may}, nil); result.Pruned != 2 {
		t.Errorf("%d messages would be pruned, want 2", result.Pruned)
	}
	if result := here.syncWith(gitmail.Options{Prune: may}, nil); result.Pruned != 2 {
		t.Errorf("%d messages were pruned, want 2", result.Pruned)
	}
	if pruned, err := here.w.Prune(t.Context(), may, false); err != nil || pruned.Messages != 2 || pruned.Copies != 2 {
		t.Errorf("here, %+v were pruned, %v; want two and two", pruned, err)
	}
	if tree := n.git(n.remote, "ls-tree", "-r", "--name-only", mailRef); strings.Contains(tree, filepath.Base(done.Outbox)) {
		t.Errorf("the branch still has the message:\n%s", tree)
	}
	if revise != nil {
		revise(n, old)
		here.sync()
	}
	n.settle()
	n.want("codex", mailbox.Inbox, pending)
	here.want("codex", mailbox.Archive)
	here.want("claude", mailbox.Outbox, pending)
	there.want("codex", mailbox.Archive, done)
	away.restore("codex", done)
	n.settle()
	n.want("codex", mailbox.Inbox, pending, done)
}

// TestRemoveAgent removes an agent on one machine. All machines remove it, even with mail that was on its way, and it can be
// added again.
func TestRemoveAgent(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, 2, "claude", "codex", "gemini")
	here, there := n.machines[0], n.machines[1]
	n.settle()
	r, toGemini := there.send("gemini", "claude"), there.send("claude", "gemini")
	here.removeAgent("gemini")
	there.sync()
	n.settle()
	for _, m := range n.machines {
		if m.w.Knows("gemini") {
			t.Errorf("%s still has the agent", m.name)
		}
	}
	there.want("claude", mailbox.Inbox, r)
	if kept, err := filepath.Glob(filepath.Join(there.dir, "state/removed/gemini-*/inbox", filepath.Base(toGemini.Outbox))); err != nil || len(kept) != 1 {
		t.Errorf("there, state/removed has %q, %v; want the mail of the agent", kept, err)
	}
	here.addAgent("gemini")
	n.settle()
	if !there.w.Knows("gemini") {
		t.Error("the agent was added again, and is not there")
	}
	again := here.send("claude", schema.AgentName("gemini"))
	n.settle()
	there.want("gemini", mailbox.Inbox, toGemini, again) // nobody had seen the first one when the agent was removed
}

// TestUnaskedAgents has a second person make a workspace with the agents that init makes unasked, before it joins a
// branch with other agents. They spread only once somebody uses them.
func TestUnaskedAgents(t *testing.T) {
	t.Parallel()
	for _, early := range []bool{false, true} {
		t.Run(fmt.Sprint("early ", early), func(t *testing.T) {
			n := newRemote(t)
			first, second := n.clone("first"), n.clone("second")
			if early {
				second.initUnasked()
			}
			first.init("ann", "bob")
			first.sync()
			if !early {
				second.initUnasked()
			}
			second.sync()
			n.settle()
			if got := n.git(n.remote, "ls-tree", "--name-only", mailRef+":agents"); got != "ann\nbob\n" && got != "ann\nbob" {
				t.Errorf("the branch has the agents %q, want those of the first", got)
			}
			r := second.send("codex", "ann")
			n.settle()
			first.want("ann", mailbox.Inbox, r)
			for agent, want := range map[schema.AgentName]bool{"ann": true, "codex": true, "claude": false} {
				if got := first.w.Knows(agent); got != want {
					t.Errorf("the first has %s: %v, want %v", agent, got, want)
				}
			}
			n.checkEqual()
		})
	}
}

// TestUnaskedAgentsBegin publishes the agents that init makes unasked, if there are no others.
func TestUnaskedAgentsBegin(t *testing.T) {
	t.Parallel()
	n := newRemote(t)
	first, second := n.clone("first"), n.clone("second")
	first.initUnasked()
	first.sync()
	second.init()
	n.settle()
	r := second.send("codex", "claude")
	n.settle()
	first.want("claude", mailbox.Inbox, r)
}

// initUnasked makes a workspace with the agents that init makes unasked, and its repository.
func (m *machine) initUnasked() {
	m.n.t.Helper()
	options := project.InitOptions{Project: "test", Agents: both, AgentsIfNew: true, Now: time.Now()}
	if _, err := project.Init(m.dir, options); err != nil {
		m.n.t.Fatal(err)
	}
	m.init()
}

// TestWithoutAtomic has a host that does not offer atomic pushes, and everything that pushes: syncs, a lost race, claims,
// pruning, removing an agent and squashing.
func TestWithoutAtomic(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	n := newNetwork(t, 2, "claude", "codex", "gemini")
	n.git(n.remote, "config", "receive.advertiseAtomic", "false")
	here, there := n.machines[0], n.machines[1]
	if out, err := gittest.Try(here.clone, "", "push", "--atomic", "origin", "HEAD:refs/heads/other"); err == nil {
		t.Fatalf("the host takes an atomic push: %s", out)
	}
	done, pending := here.send("claude", "codex"), here.send("claude", "codex")
	var raced *mailbox.Receipt
	here.syncWith(gitmail.Options{}, func(step string) {
		if step == "committed" && raced == nil {
			raced = there.send("claude", "codex")
			there.sync()
		}
	})
	n.settle()

	r, err := gitmail.Open(ctx, there.w)
	if err != nil {
		t.Fatal(err)
	}
	claims, err := r.NewClaims(ctx, "codex", time.Minute, gitmail.Options{})
	if err == nil {
		err = claims.Start(ctx, func(err error) { t.Error(err) })
	}
	if err != nil {
		t.Fatal(err)
	}
	if turn, _, err := claims.Take(ctx, []gitmail.Wanted{{ID: done.Message.ID}}); turn != 1 || err != nil {
		t.Fatalf("claiming a message: turn %d, %v", turn, err)
	}
	there.acknowledge("codex", done.Message.ID)
	claims.Done(done.Message.ID)
	if err := claims.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	if refs := n.git(n.remote, "for-each-ref", "refs/oacp"); refs != "" {
		t.Errorf("the remote keeps %q", refs)
	}

	may, err := there.w.Prunable(ctx, time.Now().Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	there.removeAgent("gemini")
	if result := there.syncWith(gitmail.Options{Prune: may}, nil); result.Pruned != 1 {
		t.Errorf("%d messages were pruned, want 1", result.Pruned)
	}
	if s, err := here.squash(nil); err != nil || s.After != 1 {
		t.Errorf("squashing: %+v, %v", s, err)
	}
	n.settle()
	for _, m := range n.machines {
		m.want("codex", mailbox.Inbox, pending, raced)
		if m.w.Knows("gemini") {
			t.Errorf("%s has an agent that was removed", m.name)
		}
	}
}

// TestJoinTakes joins with all mail, with the usual mail and with pending mail only.
func TestJoinTakes(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, 1, both...)
	here := n.machines[0]
	var sent []*mailbox.Receipt
	for _, days := range []int{30, 30, 0} { // handled, pending, handled
		message := draft("claude", "codex")
		message.CreatedAt = schema.NewTimestamp(time.Now().AddDate(0, 0, -days))
		r, err := here.w.Send(t.Context(), message, nil)
		if err != nil {
			t.Fatal(err)
		}
		sent = append(sent, r)
	}
	here.acknowledge("codex", sent[0].Message.ID)
	here.acknowledge("codex", sent[2].Message.ID)
	here.sync()
	for name, test := range map[string]struct {
		options gitmail.InitOptions
		handled []*mailbox.Receipt
	}{
		"usual":   {gitmail.InitOptions{}, sent[2:]},
		"all":     {gitmail.InitOptions{All: true}, []*mailbox.Receipt{sent[0], sent[2]}},
		"pending": {gitmail.InitOptions{Pending: true}, nil},
	} {
		m := n.clone(name)
		m.plain()
		test.options.Remote, test.options.Enclosing = "origin", m.clone
		if made, err := gitmail.Init(t.Context(), m.w, test.options); err != nil || !made.Joined {
			t.Fatalf("%s: init = %+v, %v", name, made, err)
		}
		m.sync()
		m.want("codex", mailbox.Inbox, sent[1])
		m.want("codex", mailbox.Archive, test.handled...)
	}
}
