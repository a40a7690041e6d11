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
	walkSeeds = flag.Int("walk-seeds", 4, "how many walks TestRandomWalk makes, with the seeds that follow")
)

// A tree is what the carrier has, or what a machine last agreed on.
type tree struct {
	copies map[Copy]carried
	// sent are the messages in outboxes, and pruned the messages without bytes.
	sent   map[string]string
	pruned map[string]bool
}

// A carried is the state of a message for one recipient, with the bytes unless they were pruned.
type carried struct {
	State
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
}

// A letter is a message, and what happened to it at some time on some machine.
type letter struct {
	*mailbox.Receipt
	name, data string
	// restored says that it may be pending although it was handled, and restores counts.
	handled, restored map[schema.AgentName]bool
	restores          map[schema.AgentName]int
	pruned            bool
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
	mode := w.IntN(5) // as in TestModel
	w.faults = faults{removed: mode == 1 || mode == 3, rewound: mode == 2 || mode == 3, lostBase: mode == 4, pruned: w.IntN(2) == 0}
	for i := range 3 {
		w.join(fmt.Sprintf("m%d", i))
	}
	for range 120 {
		w.act(w.machines[w.IntN(len(w.machines))])
	}
	w.settle()
	w.restoresAgain()
	w.settle()
	if t.Failed() {
		t.Logf("%+v\n%s", w.faults, strings.Join(w.history, "\n"))
	}
}

// settle syncs all machines until they agree, and checks them.
func (w *walk) settle() {
	w.note("settling")
	for range 2 {
		for _, m := range w.machines {
			w.sync(m)
		}
	}
	for _, m := range w.machines {
		w.check(m)
	}
}

// restoresAgain restores messages that were handled, whatever happened to them before, and handles them again. All
// machines follow.
func (w *walk) restoresAgain() {
	for _, name := range w.letterNames()[:5] {
		l, m, other := w.letters[name], w.machines[w.IntN(len(w.machines))], w.machines[w.IntN(len(w.machines))]
		c := Copy{Agent: l.Message.To[0], Name: name}
		if stage, _, err := m.Look(c); stage <= Pending || err != nil {
			continue
		}
		if _, err := m.Workspace.Workspace.Restore(w.t.Context(), l.Message, c.Agent, func(mailbox.Entry) error { return nil }); err != nil {
			w.t.Errorf("%s: restoring %s: %v", m.name, name, err)
			continue
		}
		w.note("%s restores %s of %s", m.name, name, c.Agent)
		l.restores[c.Agent]++
		w.sync(m)
		w.sync(other)
		stage, e, err := other.Look(c)
		if stage != Pending || err != nil {
			w.t.Errorf("%s restores %s, and on %s it is %v, %v", m.name, name, other.name, stage, err)
			continue
		}
		if err := other.Acknowledge(e); err != nil {
			w.t.Error(err)
		}
		l.restored[c.Agent] = false // and handled for good
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
	m := &walkMachine{name: name, dir: w.t.TempDir(), base: newTree()}
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
			l.handled[l.Message.To[0]] = true
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
	case x < 50:
		w.sends(m)
	case x < 72:
		w.handles(m)
	case x < 80:
		w.restores(m)
	case x < 86 && w.removed:
		w.removes(m)
	case x < 88 && w.rewound:
		w.snapshots = append(w.snapshots, w.carrier.clone())
	case x < 91 && w.rewound:
		w.rewinds()
	case x < 84 && w.lostBase:
		w.note("%s loses its base", m.name)
		m.base = newTree()
	case x < 95 && w.pruned && w.busy == nil:
		w.prunes(m)
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
	l := &letter{r, name, string(data), make(map[schema.AgentName]bool), make(map[schema.AgentName]bool), make(map[schema.AgentName]int), false}
	w.letters[name] = l
	w.note("%s sends %s", m.name, l.name)
	return l
}

// handles acknowledges a message or gives one up.
func (w *walk) handles(m *walkMachine) {
	agent := w.agents[w.IntN(len(w.agents))]
	entries, _ := m.Inbox(w.t.Context(), agent)
	if len(entries) == 0 {
		return
	}
	e := entries[w.IntN(len(entries))]
	name, err := m.longName(e.Agent, e.Box, e.Name)
	if err != nil || w.letters[name] == nil {
		w.t.Errorf("%s: %s is not a message that was sent: %v", m.name, e.Path, err)
		return
	}
	w.letters[name].handled[agent] = true
	if w.IntN(4) > 0 {
		w.note("%s: %s acknowledges %s", m.name, agent, name)
		err = m.Acknowledge(e)
	} else {
		w.note("%s: %s gives %s up", m.name, agent, name)
		_, err = m.DeadLetter(e, mailbox.DeadLetterReason{Reason: "it cannot be done on " + m.name})
	}
	if err != nil {
		w.t.Errorf("%s: %s cannot be handled: %v", m.name, e.Path, err)
	}
}

func (w *walk) restores(m *walkMachine) {
	l := w.letters[w.letterNames()[w.IntN(len(w.letters))]]
	to := l.Message.To[0]
	if _, err := m.Workspace.Workspace.Restore(w.t.Context(), l.Message, to, func(mailbox.Entry) error { return nil }); err == nil {
		l.restored[to] = true
		l.restores[to]++
		w.note("%s restores %s of %s", m.name, l.name, to)
	}
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
		pending[c.Name] = pending[c.Name] || at.Stage == Pending
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
				w.carrier.copies[c] = carried{State: at.State}
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
		tip, pushes := w.carrier.clone(), w.pushes
		w.disturb()
		result, outcomes := w.merge(m, tip)
		w.disturb()
		waiting, unsent := w.apply(m, result, outcomes)
		w.disturb()
		base := result.clone()
		for _, c := range waiting {
			if at, ok := m.base.copies[c]; ok {
				base.copies[c] = at
			} else {
				delete(base.copies, c)
			}
		}
		for _, name := range unsent {
			delete(base.sent, name)
		}
		m.base = base
		w.disturb()
		if pushes != w.pushes {
			w.note("%s begins again", m.name)
			continue // another machine was faster
		}
		for c, at := range result.copies {
			if at.Epoch > w.letters[c.Name].restores[c.Agent] {
				w.t.Errorf("%s: %s was restored by nobody for %s: %v", m.name, c.Name, c.Agent, at.State)
			}
		}
		w.carrier = result
		w.pushes++
		w.disturb()
		return
	}
}

// merge joins what is here with what the carrier has.
func (w *walk) merge(m *walkMachine, tip tree) (result tree, outcomes []Outcome) {
	result = tip.clone()
	maps.Copy(result.pruned, m.base.pruned)
	keys := make(map[Copy]Stage)
	for _, t := range []tree{tip, m.base} {
		for c := range t.copies {
			keys[c] = Unknown
		}
	}
	for _, agent := range w.agents {
		w.disturb()
		files := m.Scan(agent)
		stages, sent := byName(files)
		for name, stage := range stages {
			keys[Copy{Agent: agent, Name: name}] = stage
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
		at, base, stage := tip.copies[c], m.base.copies[c], keys[c]
		joined := carried{Join(Here(stage, base.State), at.State), cmp.Or(at.data, base.data), cmp.Or(at.reason, base.reason)}
		if joined.data == "" && joined.State != at.State {
			data, _ := m.Read(c) // without it, it is gone
			joined.data = string(data)
		}
		if joined.Stage == Dead && joined.reason == "" {
			reason, _ := os.ReadFile(filepath.Join(m.BoxPath(c.Agent, mailbox.DeadLetters), c.Name+mailbox.ReasonSuffix))
			joined.reason = string(reason)
		}
		if joined.data == "" && at.Stage == Unknown && base.Stage == Unknown {
			continue // it is gone
		}
		result.copies[c] = joined
		if joined.Stage != stage && (stage != Unknown || joined.data != "") {
			o := Outcome{Copy: c, Was: stage, Want: joined.Stage, Data: []byte(joined.data), Reason: []byte(joined.reason)}
			if stage != Unknown {
				o.Data, _ = m.Read(c) // without it, somebody moved it meanwhile
			}
			outcomes = append(outcomes, o)
		}
	}
	return result, outcomes
}

// byName returns the stages of the messages that an agent got, and those that it sent.
func byName(f *Files) (stages map[string]Stage, sent map[string]bool) {
	stages, sent = make(map[string]Stage), make(map[string]bool)
	for c, stage := range f.Stages {
		if c.Sent {
			sent[c.Name] = true
		} else {
			stages[c.Name] = stage
		}
	}
	return stages, sent
}

// apply gives a machine the result. It returns the messages that it did not take.
func (w *walk) apply(m *walkMachine, result tree, outcomes []Outcome) (waiting []Copy, unsent []string) {
	arrivals := make(map[string]*mailbox.Received)
	arrival := func(name, data string) *mailbox.Received {
		if arrivals[name] == nil {
			arrivals[name] = &mailbox.Received{From: Sender(name), Name: name, Data: []byte(data)}
		}
		return arrivals[name]
	}
	here := make(map[string]bool)
	for _, agent := range w.agents {
		_, sent := byName(m.Scan(agent))
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
		if sent, err := m.find(Sender(o.Name), mailbox.Outbox, o.Name); o.Was != Unknown || o.Want != Pending || sent.Name != "" || err != nil {
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
			for _, agent := range a.Pending {
				waiting = append(waiting, Copy{Agent: agent, Name: name})
			}
		}
		w.disturb()
	}
	for _, o := range later {
		if _, err := m.Apply(w.t.Context(), o); err != nil {
			w.note("%s does not take %v of %s for %s, which was %v: %v", m.name, o.Want, o.Name, o.Agent, o.Was, err)
			waiting = append(waiting, o.Copy)
		}
		w.disturb()
	}
	return waiting, unsent
}

// check checks what a machine has after all have synced: what the carrier has, and what happened.
func (w *walk) check(m *walkMachine) {
	held := make(map[Copy]Stage)
	sent := make(map[string]bool)
	for _, agent := range w.agents {
		files := m.Scan(agent)
		for path, err := range files.Problems {
			w.t.Errorf("%s: %s: %v", m.name, path, err)
		}
		stages, outbox := byName(files)
		for name, stage := range stages {
			held[Copy{Agent: agent, Name: name}] = stage
		}
		maps.Copy(sent, outbox)
	}
	for _, name := range w.letterNames() {
		l := w.letters[name]
		if !sent[name] && !l.pruned {
			w.t.Errorf("%s: %s is not in the outbox", m.name, name)
		}
		for _, to := range l.Message.To {
			c := Copy{Agent: to, Name: name}
			stage, agreed := held[c], w.carrier.copies[c].Stage
			switch {
			case stage != agreed && !(stage == Unknown && l.pruned):
				w.t.Errorf("%s: %s is %v for %s, and the carrier says %v", m.name, name, stage, to, agreed)
			case agreed == Unknown:
				w.t.Errorf("%s is lost for %s", name, to)
			case agreed != Pending && !l.handled[to]:
				w.t.Errorf("%s: nobody handled %s for %s, and it is %v", m.name, name, to, agreed)
			case agreed == Pending && (l.handled[to] && !l.restored[to] || stage == Unknown):
				w.t.Errorf("%s: %s is pending again for %s", m.name, name, to)
			}
			w.checkFiles(m, l, to, stage)
		}
	}
	staged, err := os.ReadDir(filepath.Join(m.Dir(), "state", "outgoing"))
	if len(staged) > 0 || err != nil && !errors.Is(err, fs.ErrNotExist) {
		w.t.Errorf("%s: %v are staged, %v", m.name, staged, err)
	}
}

// checkFiles checks that a message has one file, whose bytes are those that were sent, and a reason as a dead letter.
func (w *walk) checkFiles(m *walkMachine, l *letter, to schema.AgentName, stage Stage) {
	for of := Pending; of <= Handled; of++ {
		e, err := m.find(to, of.Box(), l.name)
		if err != nil || (e.Name != "") != (of == stage) {
			w.t.Errorf("%s: %s is %v for %s, and its file in %s is %q, %v", m.name, l.name, stage, to, of.Box(), e.Name, err)
			continue
		}
		if of != stage {
			continue
		}
		if data, err := mailbox.ReadUnscreened(m.Workspace.Workspace, e); err != nil || string(data) != l.data {
			w.t.Errorf("%s: %s is not what was sent: %q, %v", m.name, e.Path, data, err)
		}
		if _, err := os.Stat(e.Path + mailbox.ReasonSuffix); (err == nil) != (stage == Dead) {
			w.t.Errorf("%s: %s is %v, and its reason: %v", m.name, e.Path, stage, err)
		}
	}
}
