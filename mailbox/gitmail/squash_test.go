package gitmail_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/gitmail"
	"github.com/oacp-go/oacp/mailbox/project"
)

// squash syncs with Squash.
func (m *machine) squash(step func(name string)) (gitmail.Squashed, error) {
	ctx := m.n.t.Context()
	r, err := gitmail.Open(ctx, m.w)
	if err != nil {
		return gitmail.Squashed{}, err
	}
	if step != nil {
		r.SetStep(step)
	}
	result, err := r.Sync(ctx, gitmail.Options{Squash: true})
	return result.Squashed, err
}

// squash squashes, and kills itself at the step.
func (c *child) squash(ctx context.Context) error {
	w, r, err := c.open(ctx)
	if err != nil {
		return err
	}
	r.SetStep(c.killAt)
	_, err = r.Sync(ctx, gitmail.Options{Squash: true})
	return errors.Join(err, w.Close())
}

// commits returns how many commits the mailboxes have on the remote.
func (n *network) commits() int {
	n.t.Helper()
	var count int
	if _, err := fmt.Sscan(n.git(n.remote, "rev-list", "--count", mailRef), &count); err != nil {
		n.t.Fatal(err)
	}
	return count
}

// TestSquash has three machines: one squashes, one has synced before, and one has been away and has unsent
// changes of every kind.
func TestSquash(t *testing.T) {
	t.Parallel()
	for _, format := range []string{"sha1", "sha256"} {
		t.Run(format, func(t *testing.T) {
			n := newRemote(t, "--object-format="+format)
			here, there, away := n.join("here", both...), n.join("there", both...), n.join("away", both...)
			n.settle()
			var old []*mailbox.Receipt
			for range 6 {
				old = append(old, here.send("claude", "codex"))
				here.sync()
			}
			n.settle()
			there.acknowledge("codex", old[0].Message.ID)
			there.acknowledge("codex", old[1].Message.ID)
			there.bury("codex", old[2].Message.ID)
			there.sync()
			away.acknowledge("codex", old[3].Message.ID)
			fromAway := away.send("codex", "claude")
			fromThere := there.send("codex", "claude")
			there.sync()
			unsent := here.send("claude", "codex")
			here.sync()

			before, tree := n.commits(), n.git(n.remote, "rev-parse", mailRef+"^{tree}")
			s, err := here.squash(nil)
			if err != nil {
				t.Fatal(err)
			}
			if want := (gitmail.Squashed{Before: before, After: 1, Commit: n.tip()}); s != want {
				t.Errorf("squash = %+v, want %+v", s, want)
			}
			if now := n.git(n.remote, "rev-parse", mailRef+"^{tree}"); now != tree || n.commits() != 1 {
				t.Errorf("the remote has %d commits, and the tree %s; want one with the tree %s", n.commits(), now, tree)
			}
			if log := n.git(here.dir, "log", "--format=%s", "oacp-3"); !strings.HasPrefix(log, fmt.Sprintf("%d commits until ", before)) {
				t.Errorf("the log here is %q", log)
			}
			if again, err := here.squash(nil); err != nil || again.Before != 1 || again.After != 1 || again.Commit != s.Commit {
				t.Errorf("squashing again = %+v, %v", again, err)
			}

			n.settle()
			n.want("codex", mailbox.Inbox, old[4], old[5], unsent)
			n.want("claude", mailbox.Inbox, fromThere, fromAway)
			n.want("codex", mailbox.Archive, old[0], old[1], old[3])
			n.want("codex", mailbox.DeadLetters, old[2])
			n.want("claude", mailbox.Outbox, append(old, unsent)...)
			n.checkEqual()
		})
	}
}

// TestSquashIsRaced has another machine push while the history is rewritten, and checks that what it
// pushed is neither lost nor left out of the base.
func TestSquashIsRaced(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, 2, both...)
	here, there := n.machines[0], n.machines[1]
	n.settle()
	here.send("claude", "codex")
	n.settle()
	var sent []*mailbox.Receipt
	s, err := here.squash(func(name string) {
		if name == "rewritten" && len(sent) < 2 {
			sent = append(sent, there.send("codex", "claude"))
			there.sync()
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(sent) != 2 || s.After != 1 || n.commits() != 1 {
		t.Errorf("after %d pushes of the other machine, squash = %+v and the remote has %d commits", len(sent), s, n.commits())
	}
	n.settle()
	here.want("claude", mailbox.Inbox, sent...)
	n.checkEqual()
}

// TestSquashIsKilled interrupts a squash at its steps. The next sync completes or forgets it.
func TestSquashIsKilled(t *testing.T) {
	t.Parallel()
	for _, step := range []string{"rewritten", "pushed"} {
		t.Run(step, func(t *testing.T) {
			n := newNetwork(t, 2, both...)
			here, there := n.machines[0], n.machines[1]
			n.settle()
			pending, done := here.send("claude", "codex"), here.send("claude", "codex")
			n.settle()
			there.acknowledge("codex", done.Message.ID)
			n.settle()
			p := n.start(child{Role: "squash", Dir: here.dir, KillAt: step})
			<-p.ended
			if p.err == nil || len(p.lines) > 0 {
				t.Fatalf("the process got past the step (%v): %q", p.err, p.lines)
			}
			answer := there.send("codex", "claude")
			n.settle()
			n.want("codex", mailbox.Inbox, pending)
			n.want("claude", mailbox.Inbox, answer)
			n.checkEqual()
			if _, err := here.squash(nil); err != nil || n.commits() != 1 {
				t.Errorf("squashing again leaves %d commits, %v", n.commits(), err)
			}
		})
	}
}

// TestSquashIsRefused has a remote that forbids forced pushes. Nothing changes here.
func TestSquashIsRefused(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, 1, both...)
	here := n.machines[0]
	here.send("claude", "codex")
	here.sync()
	here.send("claude", "codex")
	here.sync()
	n.git(n.remote, "config", "receive.denyNonFastForwards", "true")
	base := n.git(here.dir, "rev-parse", baseRef)
	_, err := here.squash(nil)
	if remote, ok := errors.AsType[*gitmail.RemoteError](err); !ok || !remote.Refused || !strings.Contains(err.Error(), "forced push") || !strings.Contains(err.Error(), "non-fast-forward") {
		t.Errorf("squash = %v, want a refusal with the words of the remote", err)
	}
	if now := n.git(here.dir, "rev-parse", baseRef); now != base {
		t.Errorf("the base moved from %s to %s", base, now)
	}
	here.sync()
	n.checkEqual()
}

// TestSquashWithoutRemote rewrites the history of a workspace that has no remote.
func TestSquashWithoutRemote(t *testing.T) {
	t.Parallel()
	n := newRemote(t)
	m := n.clone("alone")
	n.git(m.clone, "remote", "remove", "origin")
	if _, err := project.Init(m.dir, project.InitOptions{Agents: both, Now: time.Now()}); err != nil {
		t.Fatal(err)
	}
	w, err := mailbox.Open(m.dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if _, err := gitmail.Init(t.Context(), w, gitmail.InitOptions{Enclosing: m.clone}); err != nil {
		t.Fatal(err)
	}
	m.w = w
	if _, err := m.squash(nil); err != nil {
		t.Errorf("squash without any commit: %v", err)
	}
	first := m.send("claude", "codex")
	m.sync()
	second := m.send("claude", "codex")
	m.sync()
	if s, err := m.squash(nil); err != nil || s.After != 1 || s.Before < 2 {
		t.Errorf("squash = %+v, %v", s, err)
	}
	if changes := m.sync().Changes; len(changes) > 0 {
		t.Errorf("a sync after the squash changes %v", changes)
	}
	m.want("codex", mailbox.Inbox, first, second)
}

// TestRewoundFurtherAndFurther rewinds the remote ever further back, in turns with new mail. One machine
// has been away since the beginning, and may be the first to see it.
func TestRewoundFurtherAndFurther(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, 3, both...)
	here, there, away := n.machines[0], n.machines[1], n.machines[2]
	n.settle()
	pending := here.send("claude", "codex")
	n.settle()
	done, archived := here.send("claude", "codex"), here.send("claude", "codex")
	here.sync()
	there.sync()
	there.acknowledge("codex", done.Message.ID)
	there.acknowledge("codex", archived.Message.ID)
	there.sync()
	here.sync()
	history := strings.Fields(n.git(n.remote, "rev-list", mailRef))
	sent := []*mailbox.Receipt{pending}
	for i, commit := range []string{history[1], history[len(history)/2], history[len(history)-1]} {
		sent = append(sent, there.send("claude", "codex"))
		there.sync()
		here.sync()
		n.git(n.remote, "update-ref", mailRef, commit)
		if i == 0 {
			away.sync()
		}
		n.settle()
		n.want("codex", mailbox.Inbox, sent...)
		n.want("codex", mailbox.Archive, done, archived)
		n.want("claude", mailbox.Outbox, append([]*mailbox.Receipt{done, archived}, sent...)...)
	}
	n.checkEqual()
}
