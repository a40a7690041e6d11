package gitmail_test

import (
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oacp-go/oacp/internal/facts"
	"github.com/oacp-go/oacp/internal/testing/gittest"
	"github.com/oacp-go/oacp/internal/testing/walk"
	"github.com/oacp-go/oacp/mailbox/gitmail"
	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/mailbox/replica"
	"github.com/oacp-go/oacp/schema"
)

// TestRandomWalk makes the walks of mailbox/replica with git. Here, the carrier goes back when somebody rewinds, squashes,
// empties or deletes the branch or deletes the refs of machines, and a machine loses its base with its repository, which is made
// again as the documentation says.
func TestRandomWalk(t *testing.T) {
	t.Parallel()
	walk.Run(t, 1, 40, func(t *testing.T) walk.Carrier { return &walked{network: newRemote(t)} })
}

// walked is a remote that carries the mail of a walk.
type walked struct {
	*network
	// tips are commits that the remote had.
	tips     []string
	machines []*walk.Machine
}

func (c *walked) Add(name string, agents []schema.AgentName) (dir string) {
	dir = filepath.Join(c.dir, name)
	if _, err := project.Init(dir, project.InitOptions{Project: "test", Agents: agents, Now: time.Now()}); err != nil {
		c.t.Fatal(err)
	}
	return dir
}

func (c *walked) Share(m *walk.Machine) {
	c.init(m)
	c.machines = append(c.machines, m)
}

func (c *walked) init(m *walk.Machine) {
	options := gitmail.InitOptions{Remote: c.remote, Ref: gitmail.DefaultRef, All: true}
	if _, err := gitmail.Init(c.t.Context(), m.Workspace, options); err != nil {
		c.t.Fatal(err)
	}
}

func (c *walked) Copied(_, to *walk.Machine) { c.machines = append(c.machines, to) }

func (c *walked) Sync(m *walk.Machine, step func()) error {
	_, err := c.sync(m, gitmail.Options{}, step)
	return err
}

func (c *walked) sync(m *walk.Machine, o gitmail.Options, step func()) (gitmail.Result, error) {
	o.TakeBack = func(_ context.Context, message *schema.Message, agent schema.AgentName, do func() error) (bool, error) {
		name, err := message.LongFileName()
		if err != nil || m.Noticed(replica.Copy{Agent: agent, Name: name}) {
			return false, err
		}
		return true, do()
	}
	r := c.open(m)
	r.SetStep(func(string) { step() })
	r.SetPiece(1 + len(c.tips)%4) // copies of messages at once
	return r.Sync(c.t.Context(), o)
}

func (c *walked) open(m *walk.Machine) *gitmail.Repository {
	r, err := gitmail.Open(c.t.Context(), m.Workspace)
	if err != nil {
		c.t.Fatal(err)
	}
	return r
}

func (c *walked) Rewind(r *rand.Rand, m *walk.Machine) (what string) {
	tip, err := gittest.Try(c.remote, "", "rev-parse", "--verify", "--quiet", mailRef)
	isThere := err == nil
	if isThere {
		c.tips = append(c.tips, strings.Fields(c.git(c.remote, "rev-list", strings.TrimSpace(tip)))...)
	}
	if slices.Sort(c.tips); len(c.tips) == 0 {
		return "nothing"
	}
	c.tips = slices.Compact(c.tips)
	old := c.tips[r.IntN(len(c.tips))]
	if r.IntN(2) == 0 {
		for ref := range strings.FieldsSeq(c.git(c.remote, "for-each-ref", "--format=%(refname)", "refs/oacp/machines")) {
			c.git(c.remote, "update-ref", "-d", ref)
			what = " without the refs of machines"
		}
	}
	name := []string{"rewound", "deleted", "squashed", "empty", "rewound and deepened", "squashed with oacp"}[r.IntN(6)]
	revise, isRevision := revisions[name]
	switch {
	case !isThere:
		revisions["rewound"](c.network, old)
	case isRevision:
		revise(c.network, old)
	case m != nil:
		if _, err := c.sync(m, gitmail.Options{Squash: true}, func() {}); err != nil {
			c.t.Errorf("%s: squash: %v", m.Name, err)
		}
	}
	return name + what + " to " + old
}

func (c *walked) LoseBase(m *walk.Machine) {
	if err := os.RemoveAll(filepath.Join(m.Dir(), ".git")); err != nil {
		c.t.Fatal(err)
	}
	c.init(m)
}

func (c *walked) Prune(m *walk.Machine, may func(name string) bool) error {
	_, err := c.sync(m, gitmail.Options{Prune: may}, func() {})
	return err
}

func (c *walked) Known(m *walk.Machine, of []replica.Copy) map[replica.Copy]facts.Set {
	known, err := c.open(m).Known(c.t.Context(), of)
	if err != nil {
		c.t.Fatal(err)
	}
	return known
}

// Check checks that all machines have the commit of the remote, that its history is linear, and that git finds no fault in it.
func (c *walked) Check() {
	tip := c.tip()
	for _, m := range c.machines {
		if base := c.git(m.Dir(), "rev-parse", baseRef); base != tip {
			c.t.Errorf("%s has the base %s, the remote has %s", m.Name, base, tip)
		}
	}
	if merges := c.git(c.remote, "rev-list", "--count", "--merges", mailRef); merges != "0" {
		c.t.Errorf("the history has %s merges, want none", merges)
	}
	c.checkRepository(c.remote)
}
