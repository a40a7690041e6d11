// Package walk lets things happen at random on several machines that exchange mail, and checks that no message is lost,
// changed, handled by nobody or pending again, and that all machines agree in the end. What carries the mail is a [Carrier].
//
// The machines and the faults are those of the model of the rule in [mailbox/replica]: syncs that are killed between any two
// steps, or during which agents work or other machines sync; removed files, boxes and folders; old copies of files; programs
// that note nothing; a carrier that goes back or forgets all; a lost base; pruning; agents that are removed and added again;
// copies of a whole machine; messages that were noticed before they were recalled; restores on two machines at once.
package walk

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/oacp-go/oacp/internal/facts"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/replica"
	"github.com/oacp-go/oacp/schema"
)

var (
	firstSeed = flag.Uint64("walk-seed", 1, "the seed of the first walk; 0 means another one in each run")
	seeds     = flag.Int("walk-seeds", 0, "how many walks to make, with the seeds that follow; 0 means a few")
)

// A Carrier is what brings the mail of machines together.
type Carrier interface {
	// Add returns the folder of a new machine. It holds a workspace with the agents, which has no other machines yet.
	Add(name string, agents []schema.AgentName) (dir string)
	// Share makes the workspace of a machine one that other machines share.
	Share(m *Machine)
	// Sync syncs a machine, and calls step between any two things that it does. A step may panic: then the machine is killed.
	Sync(m *Machine, step func()) error
	// Rewind takes the carrier back to what it was at some time, or makes it forget everything, and says which. m may sync; it is
	// nil if a sync goes on.
	Rewind(r *rand.Rand, m *Machine) (what string)
	// Copied says that the folder of a machine was copied, for a machine whose workspace is not open yet.
	Copied(from, to *Machine)
	// LoseBase makes a machine forget what it last agreed on with the others.
	LoseBase(m *Machine)
	// Prune syncs a machine, and removes the bytes of some messages that are old and not pending anywhere.
	Prune(m *Machine, may func(name string) bool) error
	// Known returns what the machine last agreed on with the others.
	Known(m *Machine, of []replica.Copy) map[replica.Copy]facts.Set
	// Check checks what only the carrier knows, after all machines have synced.
	Check()
}

// Faults are what can go wrong in a walk. Kills, restores, recalls, dead letters and copied machines are in all of them.
type Faults struct {
	Removed, OldCopies, Rewound, LostBase, Pruned, Reborn bool
	// Others says that programs that note nothing end messages, too.
	Others bool
}

// A Machine is a workspace.
type Machine struct {
	*mailbox.Workspace
	Name string
	// noticed are the messages that a recipient was shown here.
	noticed map[replica.Copy]bool
	// old are old copies of boxes, by the paths of the boxes.
	old map[string]map[string]string
}

// Noticed reports whether the agent was shown the message here.
func (m *Machine) Noticed(c replica.Copy) bool { return m.noticed[c] }

// A walk is some machines, and what happened on them, one thing after the other.
type walk struct {
	*rand.Rand
	t *testing.T
	Faults
	carrier  Carrier
	agents   []schema.AgentName
	machines []*Machine
	letters  map[string]*letter // by the names of their files
	// disturb is called at each step of a sync.
	disturb func()
	// busy is the machine whose sync an event interrupts, and obstructed says that a box is renamed away.
	busy       *Machine
	obstructed bool
	// history is what happened, for the log.
	history []string
}

// Run makes walks with seeds that follow each other. few is how many, unless the flag says it.
func Run(t *testing.T, few, actions int, newCarrier func(t *testing.T) Carrier) {
	seed, count := *firstSeed, *seeds
	if seed == 0 {
		seed = rand.Uint64()
	}
	if count == 0 {
		count = few
	}
	for i := range count {
		t.Run(fmt.Sprint("-walk-seed ", seed+uint64(i)), func(t *testing.T) {
			t.Parallel()
			run(t, seed+uint64(i), actions, newCarrier(t))
		})
	}
}

func run(t *testing.T, seed uint64, actions int, carrier Carrier) {
	w := &walk{
		Rand: rand.New(rand.NewPCG(seed, 5)), t: t, carrier: carrier, agents: []schema.AgentName{"claude", "codex", "gemini"},
		letters: make(map[string]*letter), disturb: func() {},
	}
	on := func(modes ...int) bool { return slices.Contains(modes, int(seed%8)) || seed%8 == 7 }
	w.Faults = Faults{
		Removed: on(1), OldCopies: on(2), Rewound: on(3, 4), LostBase: on(5), Pruned: on(4) || w.IntN(4) == 0, Reborn: on(6), Others: seed/8%2 == 1,
	}
	defer func() {
		if t.Failed() {
			t.Logf("%+v\n%s", w.Faults, strings.Join(w.history, "\n"))
		}
	}()
	for i := range 3 {
		w.join(fmt.Sprintf("m%d", i))
	}
	for range actions {
		w.act(w.pick())
	}
	w.note("settling")
	for range 3 { // the second one brings what was kept here to the others
		for _, m := range w.machines {
			w.sync(m)
		}
	}
	for _, m := range w.machines {
		w.check(m)
	}
	carrier.Check()
}

func (w *walk) note(format string, args ...any) {
	if w.busy != nil {
		format = "  " + format
	}
	w.history = append(w.history, fmt.Sprintf(format, args...))
}

func (w *walk) pick() *Machine { return w.machines[w.IntN(len(w.machines))] }

// join adds a machine. Until it is shared, its workspace gives messages short names, and a missing inbox copy says that
// a message was handled.
func (w *walk) join(name string) {
	m := &Machine{Name: name, noticed: make(map[replica.Copy]bool), old: make(map[string]map[string]string)}
	dir := w.carrier.Add(name, w.agents)
	w.open(m, dir)
	for i := range 4 {
		l := w.sends(m)
		if i%2 == 0 {
			w.note("%s: %s is handled, and its copy deleted", name, l.name)
			w.remove(l.Inboxes[0])
			l.to[l.Message.To[0]].ended = true
		}
	}
	w.carrier.Share(m)
	w.reopen(m)
	w.machines = append(w.machines, m)
}

// copies copies the whole folder of a machine, as a backup or an image of a virtual machine does. Both go on.
func (w *walk) copies(from *Machine) {
	const most = 4
	_, missing := os.Lstat(filepath.Join(from.Dir(), schema.AgentsName))
	if len(w.machines) == most || missing != nil { // without the folder, it is no workspace until its next sync
		return
	}
	m := &Machine{Name: fmt.Sprintf("m%d", len(w.machines)), noticed: maps.Clone(from.noticed), old: make(map[string]map[string]string)}
	w.note("%s is a copy of %s", m.Name, from.Name)
	dir := filepath.Join(w.t.TempDir(), filepath.Base(from.Dir()))
	if err := os.CopyFS(dir, os.DirFS(from.Dir())); err != nil {
		w.t.Fatal(err)
	}
	w.carrier.Copied(from, m)
	w.open(m, dir)
	w.t.Cleanup(func() { w.close(m) })
	w.machines = append(w.machines, m)
}

func (w *walk) open(m *Machine, dir string) {
	var err error
	if m.Workspace, err = mailbox.Open(dir, &mailbox.Options{NoSync: true}); err != nil {
		w.t.Fatal(err)
	}
}

func (w *walk) close(m *Machine) {
	if err := m.Close(); err != nil {
		w.t.Error(err)
	}
}

func (w *walk) reopen(m *Machine) {
	w.close(m)
	w.open(m, m.Dir())
	w.t.Cleanup(func() { w.close(m) })
}

func (w *walk) remove(path string) {
	if err := os.RemoveAll(path); err != nil {
		w.t.Fatal(err)
	}
}

// errKilled is what a sync panics with at the step at which it is killed.
var errKilled = errors.New("killed")

// sync syncs a machine.
func (w *walk) sync(m *Machine) {
	w.note("%s syncs", m.Name)
	if err := w.carrier.Sync(m, func() { w.disturb() }); err != nil && !w.obstructed {
		w.t.Errorf("%s: sync = %v", m.Name, err)
	}
}

// syncs syncs a machine, and lets something happen at one of the steps.
func (w *walk) syncs(m *Machine) {
	if m == w.busy {
		return
	}
	if w.busy != nil {
		w.sync(m)
		return
	}
	const steps = 12
	at, what, count := w.IntN(steps), w.IntN(5), 0
	if what == 2 && w.Removed {
		w.sync(m) // what is renamed away and no machine has is lost
		other := w.pick()
		for range 4 {
			w.handles(other)
		}
		w.sync(other)
	}
	putBack := func() {}
	defer func() {
		w.disturb, w.busy = func() {}, nil
		if killed := recover(); killed != nil && killed != errKilled {
			panic(killed)
		}
		putBack()
		w.obstructed = false
	}()
	w.disturb = func() {
		count++
		if count == at+2 && w.IntN(2) == 0 {
			putBack()
		}
		if count != at+1 || w.busy != nil {
			return
		}
		w.busy = m
		defer func() { w.busy = nil }()
		switch what {
		case 0, 1:
			w.note("killed")
			panic(errKilled)
		case 2:
			if w.Removed {
				putBack, w.obstructed = w.renamesAway(m), true
			}
		case 3:
			w.act(m)
		default:
			other := w.pick()
			w.act(other)
			w.syncs(other)
		}
	}
	w.sync(m)
}

// renamesAway renames a box, and returns a function that renames it back unless something is in its place by then.
func (w *walk) renamesAway(m *Machine) (putBack func()) {
	box := w.box(m)
	away := filepath.Join(m.Dir(), fmt.Sprintf("away-%d", len(w.history)))
	if err := os.Rename(box, away); err != nil {
		return func() {}
	}
	w.note("%s is renamed away", box)
	return func() {
		if _, err := os.Lstat(box); err == nil {
			return
		}
		if err := os.Rename(away, box); err == nil {
			w.note("%s is renamed back", box)
		}
	}
}

// box returns the path of a box, of all boxes of an agent, or of more.
func (w *walk) box(m *Machine) string {
	boxes := []mailbox.Box{mailbox.Inbox, mailbox.Outbox, mailbox.Archive, mailbox.DeadLetters, ".", "..", "../../state"}
	return m.BoxPath(w.agents[w.IntN(len(w.agents))], boxes[w.IntN(len(boxes))])
}
