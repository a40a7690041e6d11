package replica

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oacp-go/oacp/internal/facts"
	"github.com/oacp-go/oacp/internal/testing/memoryfolder"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

func TestMain(m *testing.M) {
	if err := memoryfolder.Use(); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

var (
	walkSeed  = flag.Uint64("walk-seed", 1, "the seed of the first walk of TestRandomWalk; 0 means another one in each run")
	walkSeeds = flag.Int("walk-seeds", 12, "how many walks TestRandomWalk makes, with the seeds that follow")
)

// faults are what can go wrong in a walk. Kills, restores, recalls and dead letters are in all of them.
type faults struct {
	removed, oldCopies, rewound, lostBase, pruned, reborn bool
	// others says that programs that note nothing end messages, too.
	others bool
}

// A tree is what the carrier has, or what a machine last agreed on.
type tree struct {
	copies map[Copy]carried
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
	return tree{make(map[Copy]carried), make(map[string]string), make(map[string]bool)}
}

func (t tree) clone() tree {
	return tree{maps.Clone(t.copies), maps.Clone(t.sent), maps.Clone(t.pruned)}
}

// A walk is some workspaces on which things happen at random, one after the other, and a carrier between them that
// keeps its trees in memory. Nothing else differs from what gitmail does.
type walk struct {
	*rand.Rand
	t *testing.T
	faults
	agents    []schema.AgentName
	machines  []*walkMachine
	carrier   tree
	pushes    int
	snapshots []tree
	letters   map[string]*letter // by the names of their files
	// disturb is called at each step of a sync.
	disturb func()
	// busy is the machine whose sync an event interrupts.
	busy *walkMachine
	// history is what happened, for the log.
	history []string
}

type walkMachine struct {
	Workspace
	name, dir string
	base      tree
	// noticed are the messages that a recipient was shown here.
	noticed map[Copy]bool
	// old is an old copy of a box, by the path of the box.
	old map[string]map[string]string
}

// A letter is a message, and what happened to it at some time on some machine.
type letter struct {
	*mailbox.Receipt
	name, data string
	pruned     bool
	to         map[schema.AgentName]*fate
}

// A fate is what happened to a message for one recipient.
type fate struct {
	// ended says that it was handled, given up or removed with its agent, and by that another program did so. noticed says
	// that the recipient was shown the message somewhere.
	ended, byOther, recalled, noticed, removed bool
	// unnoted says that it was restored in a workspace that is not shared, or whose state was removed.
	unnoted bool
	// restores are those that nobody has ended who had seen them.
	restores map[facts.ID]bool
}

// ends notes that somebody who had seen these restores ended the message.
func (f *fate) ends(seen []facts.ID) {
	for _, id := range seen {
		delete(f.restores, id)
	}
}

// TestRandomWalk is TestModel with real workspaces: machines send, handle and restore messages, and sync and are killed,
// with all kinds of faults. Nothing is lost, changed, handled by nobody or pending again, and all agree in the end.
func TestRandomWalk(t *testing.T) {
	t.Parallel()
	seed := *walkSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	for i := range *walkSeeds {
		t.Run(fmt.Sprint("-walk-seed ", seed+uint64(i)), func(t *testing.T) {
			t.Parallel()
			runWalk(t, seed+uint64(i))
		})
	}
}

func runWalk(t *testing.T, seed uint64) {
	w := &walk{
		Rand: rand.New(rand.NewPCG(seed, 5)), t: t, agents: []schema.AgentName{"claude", "codex", "gemini"},
		carrier: newTree(), letters: make(map[string]*letter), disturb: func() {},
	}
	on := func(modes ...int) bool { return slices.Contains(modes, int(seed%8)) || seed%8 == 7 }
	w.faults = faults{
		removed: on(1), oldCopies: on(2), rewound: on(3, 4), lostBase: on(5), pruned: on(4) || w.IntN(4) == 0, reborn: on(6), others: seed/8%2 == 1,
	}
	for i := range 3 {
		w.join(fmt.Sprintf("m%d", i))
	}
	for range 120 {
		w.act(w.machines[w.IntN(len(w.machines))])
	}
	w.settle()
	if t.Failed() {
		t.Logf("%+v\n%s", w.faults, strings.Join(w.history, "\n"))
	}
}

// settle syncs all machines until they agree, and checks them.
func (w *walk) settle() {
	w.note("settling")
	for range 3 { // the second one brings what was kept here to the others
		for _, m := range w.machines {
			w.sync(m)
		}
	}
	for _, m := range w.machines {
		w.check(m)
	}
}

func (w *walk) note(format string, args ...any) {
	if w.busy != nil {
		format = "  " + format
	}
	w.history = append(w.history, fmt.Sprintf(format, args...))
}

// join adds a machine. Until it is shared, its workspace gives messages short names, and a missing inbox copy says that
// a message was handled.
func (w *walk) join(name string) {
	m := &walkMachine{name: name, dir: w.t.TempDir(), base: newTree(), noticed: make(map[Copy]bool), old: make(map[string]map[string]string)}
	for _, agent := range w.agents {
		for _, box := range []mailbox.Box{mailbox.Inbox, mailbox.Outbox, mailbox.DeadLetters} {
			if err := os.MkdirAll(filepath.Join(m.dir, schema.BoxPath(agent, box)), 0o755); err != nil {
				w.t.Fatal(err)
			}
		}
	}
	w.open(m)
	for i := range 4 {
		l := w.sends(m)
		if i%2 == 0 {
			w.note("%s: %s is handled, and its copy deleted", name, l.name)
			w.remove(l.Inboxes[0])
			l.to[l.Message.To[0]].ended = true
		}
	}
	if err := errors.Join(m.Close(), os.Mkdir(filepath.Join(m.dir, ".git"), 0o755)); err != nil {
		w.t.Fatal(err)
	}
	w.open(m)
	w.t.Cleanup(func() {
		if err := m.Close(); err != nil {
			w.t.Error(err)
		}
	})
	if err := m.TakeOver(); err != nil {
		w.t.Error(err)
	}
	w.machines = append(w.machines, m)
}

func (w *walk) open(m *walkMachine) {
	opened, err := mailbox.Open(m.dir, &mailbox.Options{NoSync: true})
	if err != nil {
		w.t.Fatal(err)
	}
	m.Workspace = Workspace{Workspace: opened}
}

func (w *walk) remove(path string) {
	if err := os.RemoveAll(path); err != nil {
		w.t.Fatal(err)
	}
}

// act does something on a machine.
func (w *walk) act(m *walkMachine) {
	switch x := w.IntN(100); {
	case x < 30:
		w.syncs(m)
	case x < 47:
		w.sends(m)
	case x < 66:
		w.handles(m)
	case x < 71:
		w.restores(m)
	case x < 75:
		w.recalls(m)
	case x < 80:
		w.notices(m)
	case x < 84 && w.removed:
		w.removes(m)
	case x < 87 && w.oldCopies:
		w.putsBackOldFiles(m)
	case x < 88 && w.rewound:
		w.snapshots = append(w.snapshots, w.carrier.clone())
	case x < 91 && w.rewound:
		w.rewinds()
	case x < 92 && w.lostBase:
		w.note("%s loses its base", m.name)
		m.base = newTree()
	case x < 95 && w.pruned && w.busy == nil:
		w.prunes(m)
	case x == 95 && w.reborn:
		w.removesAgent(m)
	}
}

func (w *walk) sends(m *walkMachine) *letter {
	order := w.Perm(len(w.agents))
	to := []schema.AgentName{w.agents[order[1]], w.agents[order[2]]}[:1+w.IntN(2)]
	r, err := m.Send(w.t.Context(), schema.Message{
		From: w.agents[order[0]], To: to, Type: schema.Notification, Subject: "Look at #42", Body: schema.TextValue("The build is red.\n"),
	}, nil)
	if err != nil {
		w.note("%s sends nothing: %v", m.name, err) // a box is renamed away
		return nil
	}
	data, readErr := os.ReadFile(r.Outbox)
	name, nameErr := r.Message.LongFileName()
	if err := errors.Join(readErr, nameErr); err != nil {
		w.t.Fatal(err)
	}
	l := &letter{r, name, string(data), false, make(map[schema.AgentName]*fate)}
	for _, to := range r.Message.To {
		l.to[to] = &fate{restores: make(map[facts.ID]bool)}
	}
	w.letters[name] = l
	w.note("%s sends %s", m.name, l.name)
	return l
}

// pending chooses a message that is pending on a machine.
func (w *walk) pending(m *walkMachine) (e mailbox.Entry, c Copy, f *fate) {
	agent := w.agents[w.IntN(len(w.agents))]
	entries, _ := m.Inbox(w.t.Context(), agent)
	if len(entries) == 0 {
		return e, c, nil
	}
	e = entries[w.IntN(len(entries))]
	name, err := mailbox.LongName(m.Workspace.Workspace, e)
	if err != nil || w.letters[name] == nil {
		w.t.Errorf("%s: %s is not a message that was sent: %v", m.name, e.Path, err)
		return e, c, nil
	}
	return e, Copy{Agent: agent, Name: name}, w.letters[name].to[agent]
}

// restoresOf returns the restores of a message that a machine knows.
func (w *walk) restoresOf(m *walkMachine, c Copy) []facts.ID {
	marks, _, err := mailbox.Marks(m.Workspace.Workspace, c.Agent, true)
	if err != nil {
		w.t.Error(err)
	}
	return marks[c.Name].Facts.Restores()
}

// handles acknowledges a message or gives one up; sometimes another program does so, and sometimes the one that does is killed
// before it moves the file.
func (w *walk) handles(m *walkMachine) {
	e, c, f := w.pending(m)
	if f == nil {
		return
	}
	f.ended = true
	f.ends(append(w.restoresOf(m, c), m.base.copies[c].Restores()...))
	isDead := w.IntN(4) == 0
	var err error
	switch {
	case w.others && w.IntN(3) == 0:
		f.byOther = true
		to := map[bool]mailbox.Box{false: mailbox.Archive, true: mailbox.DeadLetters}[isDead]
		w.note("%s: another program moves %s of %s to %s", m.name, c.Name, c.Agent, to)
		_, err = m.Move(e, to)
	case w.IntN(8) == 0 && mailbox.IsShared(m.Workspace.Workspace):
		w.note("%s: %s acknowledges %s, and is killed", m.name, c.Agent, c.Name)
		marks, _, _ := mailbox.Marks(m.Workspace.Workspace, c.Agent, true)
		_, err = mailbox.AddMarks(m.Workspace.Workspace, c.Agent, map[string]facts.Mark{c.Name: {Facts: marks[c.Name].Facts.Join(facts.Known).Add(facts.WasHandled)}})
	case isDead:
		w.note("%s: %s gives %s up", m.name, c.Agent, c.Name)
		_, err = m.DeadLetter(e, mailbox.DeadLetterReason{Reason: "it cannot be done on " + m.name})
	default:
		w.note("%s: %s acknowledges %s", m.name, c.Agent, c.Name)
		err = m.Acknowledge(e)
	}
	if err != nil {
		w.t.Errorf("%s: %s cannot be handled: %v", m.name, e.Path, err)
	}
}

func (w *walk) recalls(m *walkMachine) {
	_, c, f := w.pending(m)
	if f == nil || m.noticed[c] {
		return
	}
	w.note("%s recalls %s of %s", m.name, c.Name, c.Agent)
	f.recalled = true
	f.ends(w.restoresOf(m, c))
	if err := mailbox.Recall(w.t.Context(), m.Workspace.Workspace, w.letters[c.Name].Message, c.Agent); err != nil {
		w.t.Errorf("%s: recalling %s: %v", m.name, c, err)
	}
}

// notices shows a message to its recipient.
func (w *walk) notices(m *walkMachine) {
	if _, c, f := w.pending(m); f != nil {
		w.note("%s: %s notices %s", m.name, c.Agent, c.Name)
		m.noticed[c], f.noticed = true, true
	}
}

func (w *walk) restores(m *walkMachine) {
	l := w.letters[w.letterNames()[w.IntN(len(w.letters))]]
	c := Copy{Agent: l.Message.To[0], Name: l.name}
	before := w.restoresOf(m, c)
	_, err := m.Workspace.Workspace.Restore(w.t.Context(), l.Message, c.Agent, func(mailbox.Entry) error { return nil })
	if err == nil && !mailbox.IsShared(m.Workspace.Workspace) { // its files say all
		l.to[c.Agent].unnoted = true
	}
	for _, id := range w.restoresOf(m, c) {
		if !slices.Contains(before, id) {
			l.to[c.Agent].restores[id] = true
			w.note("%s restores %s of %s: %v, %v", m.name, l.name, c.Agent, id, err)
		}
	}
}

// removesAgent removes an agent, and adds it again.
func (w *walk) removesAgent(m *walkMachine) {
	agent := w.agents[w.IntN(len(w.agents))]
	if m == w.busy || !mailbox.IsShared(m.Workspace.Workspace) {
		return
	}
	w.sync(m) // its archive and its outbox go, too
	w.note("%s removes %s", m.name, agent)
	entries, err := m.Inbox(w.t.Context(), agent)
	for _, e := range entries {
		if name, err := mailbox.LongName(m.Workspace.Workspace, e); err == nil {
			f := w.letters[name].to[agent]
			f.ended, f.removed = true, true
			f.ends(w.restoresOf(m, Copy{Agent: agent, Name: name}))
		}
	}
	err = errors.Join(err, mailbox.RemoveAgent(w.t.Context(), m.Workspace.Workspace, agent))
	for _, box := range []mailbox.Box{mailbox.Inbox, mailbox.Outbox, mailbox.DeadLetters} {
		err = errors.Join(err, m.MakeFolder(schema.BoxPath(agent, box)))
	}
	if err != nil {
		w.t.Error(err)
	}
}

// putsBackOldFiles copies a box, or writes an old copy of its files over it.
func (w *walk) putsBackOldFiles(m *walkMachine) {
	agent := w.agents[w.IntN(len(w.agents))]
	box := m.BoxPath(agent, []mailbox.Box{mailbox.Inbox, mailbox.Archive, mailbox.DeadLetters}[w.IntN(3)])
	if m.old[box] == nil {
		files := make(map[string]string)
		found, _ := os.ReadDir(box)
		for _, file := range found {
			if data, err := os.ReadFile(filepath.Join(box, file.Name())); err == nil {
				files[file.Name()] = string(data)
			}
		}
		m.old[box] = files
		return
	}
	w.note("%s gets old copies of %d files in %s", m.name, len(m.old[box]), box)
	for name, data := range m.old[box] {
		// The tool that puts a backup back knows nothing of the other boxes: there may be two files of a message now.
		_ = os.MkdirAll(box, 0o755)
		if err := os.WriteFile(filepath.Join(box, name), []byte(data), 0o644); err != nil {
			w.t.Error(err)
		}
	}
	delete(m.old, box)
}

func (w *walk) letterNames() []string { return slices.Sorted(maps.Keys(w.letters)) }

// box returns the path of a box, of all boxes of an agent, or of more.
func (w *walk) box(m *walkMachine) string {
	boxes := []mailbox.Box{mailbox.Inbox, mailbox.Outbox, mailbox.Archive, mailbox.DeadLetters, ".", "..", "../../state"}
	return m.BoxPath(w.agents[w.IntN(len(w.agents))], boxes[w.IntN(len(boxes))])
}

// removes removes files or folders of a machine that has just synced.
func (w *walk) removes(m *walkMachine) {
	if w.busy != nil {
		return
	}
	w.sync(m)
	path := w.box(m)
	if w.IntN(2) == 0 {
		w.note("%s is removed", path)
		w.remove(path)
		return
	}
	files, _ := os.ReadDir(path)
	for _, file := range files {
		if schema.IsMessageFile(file.Name()) && w.IntN(2) == 0 {
			w.note("%s is removed from %s", file.Name(), path)
			w.remove(filepath.Join(path, file.Name()))
		}
	}
}

func (w *walk) rewinds() {
	w.carrier = newTree()
	if len(w.snapshots) > 0 && w.IntN(10) < 7 {
		w.carrier = w.snapshots[w.IntN(len(w.snapshots))].clone()
	}
	w.pushes++
	w.note("the carrier is rewound to %d messages", len(w.carrier.copies))
}

// prunes removes the bytes of some messages from the carrier, and their files here.
func (w *walk) prunes(m *walkMachine) {
	old, err := m.Prunable(w.t.Context(), time.Now().Add(time.Hour))
	if err != nil {
		w.t.Error(err)
		return
	}
	salt := fmt.Sprint(w.IntN(1000))
	may := func(name string) bool {
		hash := fnv.New32a()
		fmt.Fprint(hash, name, salt)
		return hash.Sum32()%3 == 0 && old(name)
	}
	w.sync(m)
	pending := make(map[string]bool)
	for c, at := range w.carrier.copies {
		pending[c.Name] = pending[c.Name] || at.Place() == Pending
	}
	for name, l := range w.letters {
		if pending[name] || !may(name) && !may(filepath.Base(l.Outbox)) {
			continue
		}
		w.note("%s prunes %s", m.name, name)
		l.pruned = true
		w.carrier.pruned[name] = true
		delete(w.carrier.sent, name)
		for c, at := range w.carrier.copies {
			if c.Name == name {
				w.carrier.copies[c] = carried{Set: at.Set}
			}
		}
	}
	w.pushes++
	if _, err := m.Prune(w.t.Context(), func(name string) bool { return may(name) && !pending[name] }, false); err != nil {
		w.t.Error(err)
	}
	for _, l := range w.letters {
		l.pruned = l.pruned || may(filepath.Base(l.Outbox))
	}
}

// errKilled is what a sync panics with at the step at which it is killed.
var errKilled = errors.New("killed")

// syncs syncs a machine, and lets something happen at one of the steps.
func (w *walk) syncs(m *walkMachine) {
	if m == w.busy {
		return
	}
	if w.busy != nil {
		w.sync(m)
		return
	}
	at, what, count := w.IntN(12), w.IntN(5), 0
	if what == 2 && w.removed {
		w.sync(m) // what is renamed away and no machine has is lost
		other := w.machines[w.IntN(len(w.machines))]
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
			if w.removed {
				putBack = w.renamesAway(m)
			}
		case 3:
			w.act(m)
		default:
			other := w.machines[w.IntN(len(w.machines))]
			w.act(other)
			w.syncs(other)
		}
	}
	w.sync(m)
}

// renamesAway renames a box, and returns a function that renames it back unless something is in its place by then.
func (w *walk) renamesAway(m *walkMachine) (putBack func()) {
	box := w.box(m)
	away := filepath.Join(m.dir, fmt.Sprintf("away-%d", len(w.history)))
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

// sync syncs a machine, in the order of gitmail: fetch, merge, apply, record, push.
func (w *walk) sync(m *walkMachine) {
	w.note("%s syncs", m.name)
	w.disturb()
	for range 5 {
		_, _ = m.Recover(w.t.Context())
		w.shares(m)
		tip, pushes := w.carrier.clone(), w.pushes
		w.disturb()
		result, outcomes, read := w.merge(m, tip)
		w.disturb()
		agreed := make(map[schema.AgentName]map[string]facts.Set)
		for c, at := range result.copies {
			if agreed[c.Agent] == nil {
				agreed[c.Agent] = make(map[string]facts.Set)
			}
			agreed[c.Agent][c.Name] = at.Set
		}
		for _, agent := range w.agents {
			if err := m.Prepare(agent, read[agent], agreed[agent]); err != nil {
				w.note("%s: %v", m.name, err)
				return
			}
		}
		waiting, unsent := w.apply(m, result, outcomes, read)
		w.disturb()
		for _, agent := range w.agents { // a file that could not move is not in the place that the base says
			marks := make(map[string]facts.Mark)
			for name, place := range waiting[agent] {
				marks[name] = facts.Mark{Facts: agreed[agent][name], Placed: place}
			}
			if _, err := mailbox.AddMarks(m.Workspace.Workspace, agent, marks); err != nil {
				w.note("%s: %v", m.name, err)
				return
			}
		}
		w.disturb()
		m.base = result.clone()
		for _, name := range unsent {
			delete(m.base.sent, name)
		}
		w.disturb()
		for _, agent := range w.agents {
			err := m.Settle(agent, read[agent].Marks, read[agent].MarkFiles, func(name string) facts.Set { return agreed[agent][name] }, waiting[agent])
			if err != nil {
				w.note("%s: %v", m.name, err)
			}
		}
		w.disturb()
		if pushes != w.pushes {
			w.note("%s begins again", m.name)
			continue // another machine was faster
		}
		w.carrier = result
		w.pushes++
		w.disturb()
		return
	}
}

// shares makes a workspace note what happens, if it does not yet, or no more.
func (w *walk) shares(m *walkMachine) {
	if mailbox.IsShared(m.Workspace.Workspace) {
		return
	}
	marks := make(map[schema.AgentName]map[string]facts.Mark)
	for c, at := range m.base.copies {
		if at.Restores() != nil {
			if marks[c.Agent] == nil {
				marks[c.Agent] = make(map[string]facts.Mark)
			}
			marks[c.Agent][c.Name] = facts.Mark{Facts: at.Set}
		}
	}
	if err := mailbox.Share(m.Workspace.Workspace, marks); err != nil {
		w.note("%s: %v", m.name, err)
	}
}

// merge joins what is here with what the carrier has.
func (w *walk) merge(m *walkMachine, tip tree) (result tree, outcomes []Outcome, read map[schema.AgentName]*Files) {
	result = tip.clone()
	maps.Copy(result.pruned, m.base.pruned)
	keys, read := make(map[Copy]Place), make(map[schema.AgentName]*Files)
	for _, t := range []tree{tip, m.base} {
		for c := range t.copies {
			keys[c] = Nowhere
		}
	}
	for _, agent := range w.agents {
		w.disturb()
		files := m.Scan(agent, nil)
		read[agent] = files
		places, sent := byName(files)
		for name := range files.Marks {
			keys[Copy{Agent: agent, Name: name}] = Nowhere
		}
		for name, place := range places {
			keys[Copy{Agent: agent, Name: name}] = place
		}
		for name := range sent {
			if e, err := m.find(agent, mailbox.Outbox, name); result.sent[name] == "" && err == nil && e.Name != "" {
				if data, err := mailbox.ReadUnscreened(m.Workspace.Workspace, e); err == nil {
					result.sent[name] = string(data)
				}
			}
		}
	}
	for name, data := range m.base.sent {
		result.sent[name] = data
	}
	for name := range result.pruned {
		delete(result.sent, name)
	}
	for _, c := range slices.SortedFunc(maps.Keys(keys), func(a, b Copy) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Agent, b.Agent))
	}) {
		at, base, place := tip.copies[c], m.base.copies[c], keys[c]
		joined := carried{m.Here(c, place, read[c.Agent].Marks[c.Name], base.Set).Join(at.Set), cmp.Or(at.data, base.data), cmp.Or(at.reason, base.reason)}
		if joined.Place() == Dead && joined.Has(facts.WasRecalled) && m.noticed[c] {
			joined.Set = joined.Add(facts.Kept)
		}
		if joined.data == "" && joined.Set != at.Set {
			data, _ := m.Read(c) // without it, it is gone
			joined.data = string(data)
		}
		want := joined.Place()
		if want == Dead && joined.reason == "" {
			reason, _ := os.ReadFile(filepath.Join(m.BoxPath(c.Agent, mailbox.DeadLetters), c.Name+mailbox.ReasonSuffix))
			joined.reason = string(reason)
		}
		if joined.data == "" && !at.IsKnown() && !base.IsKnown() {
			continue // it is gone
		}
		result.copies[c] = joined
		if (want != place || read[c.Agent].Twice[c]) && (place != Nowhere || joined.data != "" && want != Removed) {
			o := Outcome{Copy: c, Was: place, Want: want, Data: []byte(joined.data), Reason: []byte(joined.reason)}
			if place != Nowhere {
				o.Data, _ = m.Read(c) // without it, somebody moved it meanwhile
			}
			outcomes = append(outcomes, o)
		}
	}
	return result, outcomes, read
}

// byName returns the places of the messages that an agent got, and those that it sent.
func byName(f *Files) (places map[string]Place, sent map[string]bool) {
	places, sent = make(map[string]Place), make(map[string]bool)
	for c, place := range f.Places {
		if c.Sent {
			sent[c.Name] = true
		} else {
			places[c.Name] = place
		}
	}
	return places, sent
}

// apply gives a machine the result. It returns the messages that it did not take.
func (w *walk) apply(m *walkMachine, result tree, outcomes []Outcome, read map[schema.AgentName]*Files) (waiting map[schema.AgentName]map[string]Place, unsent []string) {
	waiting = make(map[schema.AgentName]map[string]Place)
	for _, agent := range w.agents {
		waiting[agent] = make(map[string]Place)
	}
	arrivals := make(map[string]*mailbox.Received)
	arrival := func(name, data string) *mailbox.Received {
		if arrivals[name] == nil {
			arrivals[name] = &mailbox.Received{From: Sender(name), Name: name, Data: []byte(data)}
		}
		return arrivals[name]
	}
	here := make(map[string]bool)
	for _, agent := range w.agents {
		_, sent := byName(m.Scan(agent, nil))
		maps.Copy(here, sent)
	}
	for name, data := range result.sent {
		if here[name] {
			continue
		}
		if e, err := m.find(Sender(name), mailbox.Outbox, name); err == nil && e.Name == "" {
			arrival(name, data)
		}
	}
	var later []Outcome
	for _, o := range outcomes {
		if sent, err := m.find(Sender(o.Name), mailbox.Outbox, o.Name); o.Was != Nowhere || o.Want != Pending || sent.Name != "" || err != nil {
			later = append(later, o)
			continue
		}
		a := arrival(o.Name, string(o.Data))
		a.Pending = append(a.Pending, o.Agent)
	}
	for _, name := range slices.Sorted(maps.Keys(arrivals)) {
		a := arrivals[name]
		err := m.Receive(w.t.Context(), []mailbox.Received{*a})[0].Err
		if _, queued := errors.AsType[*mailbox.QueuedError](err); err != nil && !queued {
			w.note("%s does not receive %s: %v", m.name, name, err)
			unsent = append(unsent, name)
		}
		w.disturb()
	}
	for _, o := range later {
		if _, err := m.Apply(w.t.Context(), o); err != nil {
			w.note("%s does not take %v of %s for %s, which was %v: %v", m.name, o.Want, o.Name, o.Agent, o.Was, err)
			place := cmp.Or(o.Was, read[o.Agent].Marks[o.Name].Placed, m.base.copies[o.Copy].Place()) // its box may be away
			if place > Pending {
				waiting[o.Agent][o.Name] = place
			}
		}
		w.disturb()
	}
	return waiting, unsent
}

// check checks what a machine has after all have synced: what the carrier has, and what happened.
func (w *walk) check(m *walkMachine) {
	held := make(map[Copy]Place)
	sent := make(map[string]bool)
	for _, agent := range w.agents {
		files := m.Scan(agent, nil)
		for path, err := range files.Problems {
			w.t.Errorf("%s: %s: %v", m.name, path, err)
		}
		places, outbox := byName(files)
		for name, place := range places {
			held[Copy{Agent: agent, Name: name}] = place
			if w.letters[name] == nil {
				w.t.Errorf("%s: %s is %v for %s, and nobody sent it", m.name, name, place, agent)
			}
		}
		maps.Copy(sent, outbox)
	}
	for _, name := range w.letterNames() {
		l := w.letters[name]
		if !sent[name] && !l.pruned {
			w.t.Errorf("%s: %s is not in the outbox", m.name, name)
		}
		for to, f := range l.to {
			c := Copy{Agent: to, Name: name}
			place, at := held[c], w.carrier.copies[c]
			agreed, again := at.Place(), len(f.restores) > 0
			fail := func(what string) {
				w.t.Errorf("%s: %s: %s for %s: its file is %v, and the carrier says %v, %s", m.name, what, name, to, place, agreed, at)
			}
			switch {
			case place != agreed && agreed != Removed && !(place == Nowhere && l.pruned):
				fail("machines differ")
			case agreed == Nowhere:
				fail("lost")
			case agreed == Handled && !f.ended, agreed == Dead && !f.ended && !f.recalled, agreed == Removed && !f.removed:
				fail("ended by nobody")
			case agreed == Pending && f.ended && !again && !f.recalled && !f.unnoted && w.limit(f) == "":
				fail("pending again")
			case agreed != Pending && again && !f.recalled && w.limit(f) == "":
				fail("restore annulled")
			case agreed == Pending && f.recalled && !f.noticed && !f.ended && !again:
				fail("recall undone")
			}
			w.checkFiles(m, l, to, place)
		}
	}
	staged, err := os.ReadDir(filepath.Join(m.Dir(), "state", "outgoing"))
	if len(staged) > 0 || err != nil && !errors.Is(err, fs.ErrNotExist) {
		w.t.Errorf("%s: %v are staged, %v", m.name, staged, err)
	}
}

// limit returns the limit of docs/git.md that a message may have met; empty if there is none.
func (w *walk) limit(f *fate) string {
	switch {
	case f.byOther && (w.removed || w.oldCopies):
		return "an end by a program that notes nothing, whose file was removed or overwritten before the next sync"
	case f.byOther:
		return "an end by a program that notes nothing, after a kill between a move and its note"
	case w.oldCopies:
		return "an older copy of the archive over a restored message"
	case w.removed:
		return "restores, and ends of restored messages, that were not synced when state was removed"
	}
	return ""
}

// checkFiles checks that a message has one file, whose bytes are those that were sent, and a reason as a dead letter.
func (w *walk) checkFiles(m *walkMachine, l *letter, to schema.AgentName, place Place) {
	for _, of := range []Place{Pending, Dead, Handled} {
		e, err := m.find(to, Box(of), l.name)
		if err != nil || (e.Name != "") != (of == place) {
			w.t.Errorf("%s: %s is %v for %s, and its file in %s is %q, %v", m.name, l.name, place, to, Box(of), e.Name, err)
			continue
		}
		if of != place {
			continue
		}
		if data, err := mailbox.ReadUnscreened(m.Workspace.Workspace, e); err != nil || string(data) != l.data {
			w.t.Errorf("%s: %s is not what was sent: %q, %v", m.name, e.Path, data, err)
		}
		if _, err := os.Stat(e.Path + mailbox.ReasonSuffix); (err == nil) != (place == Dead) && !l.to[to].byOther && !w.oldCopies {
			w.t.Errorf("%s: %s is %v, and its reason: %v", m.name, e.Path, place, err)
		}
	}
}
