package gitmail_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oacp-go/oacp/internal/testing/check"
	"github.com/oacp-go/oacp/internal/testing/gittest"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/gitmail"
	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/schema"
)

var (
	walkSeed  = flag.Uint64("walk-seed", 1, "the seed of the first walk of TestRandomWalk; 0 means another one in each run")
	walkSeeds = flag.Int("walk-seeds", 1, "how many walks TestRandomWalk makes, with the seeds that follow")
)

// A walk is a network on which things happen at random, one after the other.
type walk struct {
	*network
	*rand.Rand
	// removed files, a rewound remote, or a lost base; and pruning. The last base and a rewound remote exclude each
	// other: a machine that loses both has lost the mail.
	removes, rewinds, repairs, prunes bool
	agents                            []schema.AgentName
	letters                           []*letter
	// tips are commits that the remote had.
	tips []string
	// history is what happened, for the log.
	history []string
	// busy is the machine whose sync an event interrupts, and depth says whether there is one.
	busy  *machine
	depth int
}

// A letter is a message, and what happened to it at some time on some machine.
type letter struct {
	*mailbox.Receipt
	data              string
	handled, restored map[schema.AgentName]bool
}

// guest is an agent that comes and goes. All others stay.
const guest schema.AgentName = "guest"

// TestRandomWalk sends, handles, restores and syncs at random, and has faults: syncs that are killed at a step, or
// during which agents work, boxes are renamed away or other machines sync; removed files, boxes and folders; rewound,
// squashed, emptied and deleted branches; lost repositories, which are repaired as the documentation says; pruning; and
// agents that are removed and added again. In the end, all machines agree. Nothing is lost, changed, handled by nobody, or
// pending again unless it is restored.
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
	w := &walk{Rand: rand.New(rand.NewPCG(seed, 4)), agents: []schema.AgentName{"claude", "codex", "gemini"}}
	mode := w.IntN(5) // as in the model of mailbox/replica
	w.removes, w.rewinds, w.repairs, w.prunes = mode == 1 || mode == 3, mode == 2 || mode == 3, mode == 4, w.IntN(2) == 0
	w.network = newNetwork(t, 3, append(w.agents, guest)...)
	w.pruned = make(map[string]bool)
	defer func() {
		if t.Failed() {
			t.Logf("%+v\n%s", []any{"removes", w.removes, "rewinds", w.rewinds, "repairs", w.repairs, "prunes", w.prunes}, strings.Join(w.history, "\n"))
		}
	}()
	w.tolerant = true
	for range 60 {
		w.act(w.pick())
	}
	w.note("settling")
	w.settle()
	if w.prunes && w.rewinds {
		w.settle() // what was pruned comes back with an old branch, a sync after its state
	}
	w.tolerant = false
	w.checkEqual()
	w.checkLetters()
}

func (w *walk) pick() *machine { return w.machines[w.IntN(len(w.machines))] }

func (w *walk) note(format string, args ...any) {
	w.history = append(w.history, strings.Repeat("  ", w.depth)+fmt.Sprintf(format, args...))
}

// act does something on a machine.
func (w *walk) act(m *machine) {
	switch x := w.IntN(100); {
	case x < 28:
		w.syncs(m, w.IntN(2) == 0)
	case x < 48:
		w.sends(m)
	case x < 68:
		w.handles(m)
	case x < 75:
		w.restores(m)
	case x < 81 && w.removes:
		w.removesFiles(m)
	case x < 87 && w.rewinds:
		w.revises()
	case x < 83 && w.repairs:
		w.repairsRepository(m)
	case x < 91 && w.prunes:
		w.prunesMail(m)
	case x == 91:
		w.changesGuest(m)
	case x == 92:
		w.squashes(m)
	case x >= 97:
		agent := w.agents[w.IntN(len(w.agents))]
		err := project.SetStatus(m.w, agent, project.Busy, m.name, time.Now())
		w.note("%s says the status of %s: %v", m.name, agent, err) // its folder may be removed
	}
}

// errKilled is what a sync panics with at the step at which it is killed.
var errKilled = errors.New("killed")

// syncs syncs a machine. If it is disturbed, something happens at one of the steps.
func (w *walk) syncs(m *machine, disturbed bool) {
	at, what, obstructed := -1, w.IntN(4), false
	if m == w.busy {
		return
	}
	if disturbed && w.depth == 0 {
		at = w.IntN(len(steps))
	}
	if at >= 0 && what == 1 && w.removes {
		w.syncs(m, false) // what is renamed away and no machine has is lost
		other := w.pick()
		w.handles(other)
		w.handles(other)
		w.syncs(other, false)
	}
	w.note("%s syncs", m.name)
	putBack := func() {}
	err := w.sync1(m, gitmail.Options{}, func(count int, name string) {
		if count == at+2 && w.IntN(2) == 0 {
			putBack()
		}
		if count != at {
			return
		}
		w.busy, w.depth = m, 1
		defer func() { w.busy, w.depth = nil, 0 }()
		w.note("at the step %s:", name)
		switch {
		case what == 0:
			w.note("killed")
			panic(errKilled)
		case what == 1 && w.removes:
			obstructed = true
			putBack = w.renamesAway(m)
		case what == 2:
			w.act(m)
		default:
			other := w.pick()
			w.act(other)
			if other != m {
				w.syncs(other, false)
			}
		}
	})
	putBack()
	_, blocked := errors.AsType[*gitmail.BlockedError](err)
	if err != nil && !errors.Is(err, errKilled) && !(obstructed && blocked) {
		w.t.Errorf("%s: sync = %v", m.name, err)
	}
}

// sync1 syncs a machine, and calls step with the number and the name of each step. The machine may not sync yet.
func (w *walk) sync1(m *machine, o gitmail.Options, step func(count int, name string)) (err error) {
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
	defer cancel()
	r, err := gitmail.Open(ctx, m.w)
	if err != nil {
		return err
	}
	defer func() {
		if killed := recover(); killed == errKilled {
			err = errKilled
		} else if killed != nil {
			panic(killed)
		}
	}()
	count := 0
	r.SetStep(func(name string) {
		step(count, name)
		count++
	})
	_, err = r.Sync(ctx, o)
	return err
}

// renamesAway renames a box, and returns a function that renames it back unless something is in its place by then.
func (w *walk) renamesAway(m *machine) (putBack func()) {
	box := w.box(m)
	away := filepath.Join(w.dir, fmt.Sprintf("away-%d", len(w.history)))
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

// box returns the path of a box, or of all boxes of an agent.
func (w *walk) box(m *machine) string {
	agent := w.agents[w.IntN(len(w.agents))]
	boxes := []mailbox.Box{mailbox.Inbox, mailbox.Outbox, mailbox.Archive, mailbox.DeadLetters, "."}
	return m.w.BoxPath(agent, boxes[w.IntN(len(boxes))])
}

func (w *walk) sends(m *machine) {
	agents := w.agents
	if m.w.Knows(guest) && w.IntN(4) == 0 {
		agents = append(slices.Clone(agents), guest)
	}
	order := w.Perm(len(agents))
	to := []schema.AgentName{agents[order[1]]}
	if w.IntN(2) == 0 {
		to = append(to, agents[order[2]])
	}
	r, err := m.w.Send(w.t.Context(), draft(agents[order[0]], to...), nil)
	if err != nil {
		w.note("%s sends nothing: %v", m.name, err) // perhaps in a box that is renamed away
		return
	}
	w.letters = append(w.letters, &letter{r, check.ReadFile(w.t, r.Outbox), make(map[schema.AgentName]bool), make(map[schema.AgentName]bool)})
	w.note("%s sends %s", m.name, filepath.Base(r.Outbox))
}

// handles acknowledges a message or gives one up.
func (w *walk) handles(m *machine) {
	agent := w.agents[w.IntN(len(w.agents))]
	entries, _ := m.w.Inbox(w.t.Context(), agent)
	if len(entries) == 0 {
		return
	}
	e := entries[w.IntN(len(entries))]
	at := slices.IndexFunc(w.letters, func(l *letter) bool { return e.Message != nil && l.Message.ID == e.Message.ID })
	if at < 0 {
		w.t.Errorf("%s: %s is not a message that was sent: %v", m.name, e.Path, e.Err)
		return
	}
	w.letters[at].handled[agent] = true
	var err error
	if w.IntN(4) > 0 {
		err = m.w.Acknowledge(e)
		w.note("%s: %s acknowledges %s %v", m.name, agent, e.Name, err)
	} else {
		_, err = m.w.DeadLetter(e, mailbox.DeadLetterReason{Reason: "it cannot be done on " + m.name})
		w.note("%s: %s gives %s up %v", m.name, agent, e.Name, err)
	}
	if err != nil {
		w.t.Errorf("%s: %s cannot be handled: %v", m.name, e.Path, err)
	}
}

func (w *walk) restores(m *machine) {
	if len(w.letters) == 0 {
		return
	}
	l := w.letters[w.IntN(len(w.letters))]
	to := l.Message.To[0]
	if _, err := m.w.Restore(w.t.Context(), l.Message, to, func(mailbox.Entry) error { return nil }); err == nil {
		l.restored[to] = true
		w.note("%s restores %s of %s", m.name, filepath.Base(l.Outbox), to)
	}
}

// removesFiles removes files, a box or a folder of a machine that has just synced.
func (w *walk) removesFiles(m *machine) {
	if w.depth > 0 {
		return // it is not in sync
	}
	w.syncs(m, false)
	path := w.box(m)
	switch w.IntN(6) {
	case 0:
		path = filepath.Join(m.dir, []string{"agents", "state", "state/git", "workspace.json"}[w.IntN(4)])
		fallthrough
	case 1, 2:
		w.note("%s is removed", path)
		check.Remove(w.t, path)
	default:
		files, err := os.ReadDir(path)
		if err != nil {
			return
		}
		for _, file := range files {
			if w.IntN(2) == 0 && schema.IsMessageFile(file.Name()) {
				w.note("%s is removed from %s", file.Name(), path)
				check.Remove(w.t, filepath.Join(path, file.Name()))
			}
		}
	}
}

// revises does something to the branch.
func (w *walk) revises() {
	if tip, err := gittest.Try(w.remote, "", "rev-parse", "--verify", "--quiet", mailRef); err == nil {
		w.tips = append(w.tips, strings.Fields(w.git(w.remote, "rev-list", strings.TrimSpace(tip)))...)
	}
	slices.Sort(w.tips)
	w.tips = slices.Compact(w.tips)
	old := w.tips[w.IntN(len(w.tips))]
	name := []string{"rewound", "deleted", "squashed", "empty", "rewound and deepened"}[w.IntN(5)]
	if _, err := gittest.Try(w.remote, "", "rev-parse", "--verify", "--quiet", mailRef); err != nil {
		name = "rewound" // it was deleted
	}
	revisions[name](w.network, old)
	w.note("the branch is %s (%s)", name, old)
	if w.IntN(2) == 0 {
		w.removesRefs()
	}
}

// removesRefs removes the refs of machines on the remote.
func (w *walk) removesRefs() {
	for ref := range strings.FieldsSeq(w.git(w.remote, "for-each-ref", "--format=%(refname)", "refs/oacp/machines")) {
		w.git(w.remote, "update-ref", "-d", ref)
		w.note("%s is deleted", ref)
	}
}

// repairsRepository syncs a machine, removes its repository, and repairs that as the documentation says.
func (w *walk) repairsRepository(m *machine) {
	if w.depth > 0 {
		return
	}
	w.syncs(m, false)
	w.note("%s loses its repository", m.name)
	if err := os.Rename(filepath.Join(m.dir, ".git"), filepath.Join(w.dir, fmt.Sprintf("damaged-%d", len(w.history)))); err != nil {
		w.t.Fatal(err)
	}
	m.init()
}

// prunesMail prunes some mail on all machines.
func (w *walk) prunesMail(m *machine) {
	if w.depth > 0 {
		return // a sync at a time
	}
	old, err := m.w.Prunable(w.t.Context(), time.Now().Add(time.Hour))
	if err != nil {
		w.note("%s prunes nothing: %v", m.name, err)
		return
	}
	salt := fmt.Sprint(w.IntN(1000))
	may := func(name string) bool {
		hash := fnv.New32a()
		fmt.Fprint(hash, name, salt)
		if hash.Sum32()%3 > 0 || !old(name) {
			return false
		}
		if !w.pruned[name] {
			w.note("%s may be pruned", name)
		}
		w.pruned[name] = true
		return true
	}
	w.note("%s prunes", m.name)
	if err := w.sync1(m, gitmail.Options{Prune: may}, func(int, string) {}); err != nil {
		w.t.Errorf("%s: pruning: %v", m.name, err)
	}
	if _, err := m.w.Prune(w.t.Context(), may, false); err != nil {
		w.t.Errorf("%s: pruning: %v", m.name, err)
	}
}

// changesGuest removes the guest, or adds it again.
func (w *walk) changesGuest(m *machine) {
	switch {
	case w.depth > 0:
	case m.w.Knows(guest):
		w.note("%s removes the guest", m.name)
		m.removeAgent(guest)
	default:
		w.note("%s adds the guest", m.name)
		m.addAgent(guest)
	}
}

// squashes makes one commit of the history.
func (w *walk) squashes(m *machine) {
	if w.depth > 0 {
		return
	}
	w.note("%s squashes the history", m.name)
	if _, err := m.squash(nil); err != nil {
		w.t.Errorf("%s: squash: %v", m.name, err)
	}
}

// checkLetters checks where the messages are.
func (w *walk) checkLetters() {
	for _, m := range w.machines {
		held := make(map[string]int) // by box and id
		for _, agent := range append(w.agents, guest) {
			if !m.w.Knows(agent) {
				continue
			}
			for _, box := range []mailbox.Box{mailbox.Inbox, mailbox.Outbox, mailbox.Archive, mailbox.DeadLetters} {
				for _, id := range m.boxes(agent, box) {
					held[fmt.Sprint(agent, box, id)]++
				}
			}
		}
		for _, l := range w.letters {
			name, id := filepath.Base(l.Outbox), l.Message.ID
			if held[fmt.Sprint(l.Message.From, mailbox.Outbox, id)] != 1 && l.Message.From != guest && !w.pruned[name] {
				w.t.Errorf("%s: %s is not in the outbox", m.name, name)
			}
			for _, to := range l.Message.To {
				pending := held[fmt.Sprint(to, mailbox.Inbox, id)]
				done := held[fmt.Sprint(to, mailbox.Archive, id)] + held[fmt.Sprint(to, mailbox.DeadLetters, id)]
				switch {
				case to == guest:
				case pending+done > 1 || pending+done == 0 && !w.pruned[name]:
					w.t.Errorf("%s: %s is %d times pending and %d times handled for %s", m.name, name, pending, done, to)
				case !l.handled[to] && pending != 1:
					w.t.Errorf("%s: nobody handled %s for %s, and it is not pending", m.name, name, to)
				case l.handled[to] && !l.restored[to] && pending != 0:
					w.t.Errorf("%s: %s is pending again for %s", m.name, name, to)
				}
			}
		}
		paths, err := filepath.Glob(filepath.Join(m.dir, "agents/*/*/*.yaml"))
		archives, archiveErr := filepath.Glob(filepath.Join(m.dir, "agents/*/inbox/archive/*.yaml"))
		if err := errors.Join(err, archiveErr); err != nil {
			w.t.Fatal(err)
		}
		for _, path := range append(paths, archives...) {
			at := slices.IndexFunc(w.letters, func(l *letter) bool { return filepath.Base(l.Outbox) == filepath.Base(path) })
			if at < 0 || check.ReadFile(w.t, path) != w.letters[at].data {
				w.t.Errorf("%s: %s is not what was sent", m.name, path)
			}
		}
	}
}
