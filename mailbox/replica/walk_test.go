package replica_test

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/oacp-go/oacp/internal/facts"
	"github.com/oacp-go/oacp/internal/testing/memoryfolder"
	"github.com/oacp-go/oacp/internal/testing/walk"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/replica"
	"github.com/oacp-go/oacp/schema"
)

func TestMain(m *testing.M) {
	if err := memoryfolder.Use(); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// TestRandomWalk is the model of the rule with real workspaces.
func TestRandomWalk(t *testing.T) {
	t.Parallel()
	walk.Run(t, 8, 120, func(t *testing.T) walk.Carrier {
		return &memory{t: t, now: newTree(), snapshots: []tree{newTree()}, bases: make(map[*walk.Machine]tree)}
	})
}

// memory is a carrier that keeps its trees in memory. Nothing else differs from what gitmail does.
type memory struct {
	t         *testing.T
	agents    []schema.AgentName
	now       tree
	pushes    int
	snapshots []tree
	bases     map[*walk.Machine]tree
}

// A tree is what the carrier has, or what a machine last agreed on.
type tree struct {
	copies map[replica.Copy]carried
	// sent are the messages in outboxes, and pruned the messages without bytes.
	sent   map[string]string
	pruned map[string]bool
}

// A carried is what is known of a message for one recipient, with the bytes unless they were pruned.
type carried struct {
	facts.Set
	data, reason string
}

func newTree() tree {
	return tree{make(map[replica.Copy]carried), make(map[string]string), make(map[string]bool)}
}

func (t tree) clone() tree {
	return tree{maps.Clone(t.copies), maps.Clone(t.sent), maps.Clone(t.pruned)}
}

func (c *memory) Add(_ string, agents []schema.AgentName) (dir string) {
	dir, c.agents = c.t.TempDir(), agents
	for _, agent := range agents {
		for _, box := range []mailbox.Box{mailbox.Inbox, mailbox.Outbox, mailbox.DeadLetters} {
			if err := os.MkdirAll(filepath.Join(dir, schema.BoxPath(agent, box)), 0o755); err != nil {
				c.t.Fatal(err)
			}
		}
	}
	return dir
}

func (c *memory) Share(m *walk.Machine) {
	if err := errors.Join(os.Mkdir(filepath.Join(m.Dir(), ".git"), 0o755), workspace(m).TakeOver()); err != nil {
		c.t.Fatal(err)
	}
	c.bases[m] = newTree()
}

func (c *memory) Copied(from, to *walk.Machine) { c.bases[to] = c.bases[from].clone() }

func (c *memory) LoseBase(m *walk.Machine) { c.bases[m] = newTree() }

func (c *memory) Rewind(r *rand.Rand, _ *walk.Machine) (what string) {
	c.now = newTree()
	if r.IntN(10) < 7 {
		c.now = c.snapshots[r.IntN(len(c.snapshots))].clone()
	}
	c.pushed()
	return fmt.Sprintf("rewound to %d messages", len(c.now.copies))
}

func (c *memory) pushed() {
	c.pushes++
	c.snapshots = append(c.snapshots, c.now.clone())
}

func (c *memory) Prune(_ *walk.Machine, may func(name string) bool) error {
	pending := make(map[string]bool)
	for of, at := range c.now.copies {
		pending[of.Name] = pending[of.Name] || at.Place() == replica.Pending
	}
	for of, at := range c.now.copies {
		if pending[of.Name] || !may(of.Name) {
			continue
		}
		c.now.pruned[of.Name] = true
		delete(c.now.sent, of.Name)
		c.now.copies[of] = carried{Set: at.Set}
	}
	c.pushed()
	return nil
}

func (c *memory) Known(m *walk.Machine, of []replica.Copy) map[replica.Copy]facts.Set {
	known := make(map[replica.Copy]facts.Set)
	for _, one := range of {
		known[one] = c.bases[m].copies[one].Set
	}
	return known
}

func (c *memory) Check() {}

func workspace(m *walk.Machine) *replica.Workspace { return &replica.Workspace{Workspace: m.Workspace} }

// Sync syncs a machine, in the order of gitmail: fetch, merge, apply, record, push.
func (c *memory) Sync(m *walk.Machine, step func()) error {
	const most = 5
	step()
	for range most {
		_, _ = m.Recover(c.t.Context())
		if err := c.shares(m); err != nil {
			return err
		}
		x := &exchange{c, m, workspace(m), step, c.now.clone(), c.bases[m], make(map[schema.AgentName]*replica.Files), newTree(), nil}
		pushes := c.pushes
		step()
		x.merge()
		step()
		if err := x.apply(); err != nil {
			return err
		}
		step()
		if pushes != c.pushes {
			continue // another machine was faster
		}
		c.now = x.result
		c.pushed()
		step()
		return nil
	}
	return nil
}

// shares makes a workspace note what happens, if it does not yet, or no more.
func (c *memory) shares(m *walk.Machine) error {
	if mailbox.IsShared(m.Workspace) {
		return nil
	}
	marks := make(map[schema.AgentName]map[string]facts.Mark)
	for of, at := range c.bases[m].copies {
		if at.Restores() == nil {
			continue
		}
		if marks[of.Agent] == nil {
			marks[of.Agent] = make(map[string]facts.Mark)
		}
		marks[of.Agent][of.Name] = facts.Mark{Facts: at.Set}
	}
	return mailbox.Share(m.Workspace, marks)
}

// An exchange is one sync.
type exchange struct {
	*memory
	m         *walk.Machine
	workspace *replica.Workspace
	step      func()
	tip, base tree
	read      map[schema.AgentName]*replica.Files
	result    tree
	outcomes  []replica.Outcome
}

// merge joins what is here with what the carrier has.
func (x *exchange) merge() {
	x.result = x.tip.clone()
	maps.Copy(x.result.pruned, x.base.pruned)
	places := make(map[replica.Copy]replica.Place)
	for _, t := range []tree{x.tip, x.base} {
		for c := range t.copies {
			places[c] = replica.Nowhere
		}
	}
	for _, agent := range x.agents {
		x.step()
		files := x.workspace.Scan(agent, nil)
		x.read[agent] = files
		for name := range files.Marks {
			places[replica.Copy{Agent: agent, Name: name}] = replica.Nowhere
		}
		for c, place := range files.Places {
			if !c.Sent {
				places[c] = place
			} else if x.result.sent[c.Name] == "" {
				data, _ := x.workspace.Read(c)
				x.result.sent[c.Name] = string(data)
			}
		}
	}
	maps.Copy(x.result.sent, x.base.sent)
	for name := range x.result.pruned {
		delete(x.result.sent, name)
	}
	for _, c := range slices.SortedFunc(maps.Keys(places), func(a, b replica.Copy) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Agent, b.Agent))
	}) {
		x.mergeCopy(c, places[c])
	}
}

func (x *exchange) mergeCopy(c replica.Copy, place replica.Place) {
	at, base, files := x.tip.copies[c], x.base.copies[c], x.read[c.Agent]
	joined := carried{
		x.workspace.Here(c, place, files.Marks[c.Name], base.Set).Join(at.Set), cmp.Or(at.data, base.data), cmp.Or(at.reason, base.reason),
	}
	if joined.Place() == replica.Dead && joined.Has(facts.WasRecalled) && x.m.Noticed(c) {
		joined.Set = joined.Add(facts.Kept)
	}
	here, _ := x.workspace.Read(c) // without it, it is gone, or somebody moved it meanwhile
	if joined.data == "" && joined.Set != at.Set {
		joined.data = string(here)
	}
	want := joined.Place()
	if _, e, _ := x.workspace.Look(c); want == replica.Dead && joined.reason == "" && e.Box == mailbox.DeadLetters {
		reason, _ := os.ReadFile(e.Path + mailbox.ReasonSuffix)
		joined.reason = string(reason)
	}
	if joined.data == "" && !at.IsKnown() && !base.IsKnown() {
		return // it is gone
	}
	x.result.copies[c] = joined
	if (want != place || files.Twice[c]) && (place != replica.Nowhere || joined.data != "" && want != replica.Removed) {
		o := replica.Outcome{Copy: c, Was: place, Want: want, Data: []byte(joined.data), Reason: []byte(joined.reason)}
		if place != replica.Nowhere {
			o.Data = here
		}
		x.outcomes = append(x.outcomes, o)
	}
}

// apply gives a machine the result, and records it as the base.
func (x *exchange) apply() error {
	agreed := make(map[schema.AgentName]map[string]facts.Set)
	waiting := make(map[schema.AgentName]map[string]facts.Mark)
	for _, agent := range x.agents {
		agreed[agent], waiting[agent] = make(map[string]facts.Set), make(map[string]facts.Mark)
	}
	for c, at := range x.result.copies {
		agreed[c.Agent][c.Name] = at.Set
	}
	for _, agent := range x.agents {
		if err := x.workspace.Prepare(agent, x.read[agent], agreed[agent]); err != nil {
			return err
		}
	}
	later, unsent := x.receive()
	for _, o := range later {
		if _, err := x.workspace.Apply(x.t.Context(), o); err != nil { // its box may be away
			place := cmp.Or(o.Was, x.read[o.Agent].Marks[o.Name].Placed, x.base.copies[o.Copy].Place())
			if place > replica.Pending {
				waiting[o.Agent][o.Name] = facts.Mark{Facts: agreed[o.Agent][o.Name], Placed: place}
			}
		}
		x.step()
	}
	for _, agent := range x.agents { // a file that could not move is not in the place that the base says
		if _, err := mailbox.AddMarks(x.m.Workspace, agent, waiting[agent]); err != nil {
			return err
		}
	}
	x.step()
	base := x.result.clone()
	for _, name := range unsent {
		delete(base.sent, name)
	}
	x.bases[x.m] = base
	x.step()
	for _, agent := range x.agents {
		places := make(map[replica.Copy]replica.Place)
		for name, mark := range waiting[agent] {
			places[replica.Copy{Agent: agent, Name: name}] = mark.Placed
		}
		if err := x.workspace.Settle(agent, x.read[agent], agreed[agent], places); err != nil {
			return err
		}
	}
	return nil
}

// receive delivers the messages that are not here yet. It returns the other outcomes, and the messages that a box refused.
func (x *exchange) receive() (later []replica.Outcome, unsent []string) {
	arrivals := make(map[string]*mailbox.Received)
	arrival := func(name, data string) *mailbox.Received {
		if arrivals[name] == nil {
			arrivals[name] = &mailbox.Received{From: replica.Sender(name), Name: name, Data: []byte(data)}
		}
		return arrivals[name]
	}
	isSent := func(name string) bool {
		place, _, err := x.workspace.Look(replica.Copy{Agent: replica.Sender(name), Name: name, Sent: true})
		return place != replica.Nowhere || err != nil
	}
	for name, data := range x.result.sent {
		if !isSent(name) {
			arrival(name, data)
		}
	}
	for _, o := range x.outcomes {
		if o.Was != replica.Nowhere || o.Want != replica.Pending || isSent(o.Name) {
			later = append(later, o)
			continue
		}
		a := arrival(o.Name, string(o.Data))
		a.Pending = append(a.Pending, o.Agent)
	}
	for _, name := range slices.Sorted(maps.Keys(arrivals)) {
		err := x.m.Receive(x.t.Context(), []mailbox.Received{*arrivals[name]})[0].Err
		if _, queued := errors.AsType[*mailbox.QueuedError](err); err != nil && !queued {
			unsent = append(unsent, name)
		}
		x.step()
	}
	return later, unsent
}
