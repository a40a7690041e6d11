package replica

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"
)

var modelSeeds = flag.Int("model-seeds", 250, "how many random runs TestModel makes in each mode")

// faults are what can go wrong in a run of the model.
type faults struct{ removed, rewound, lostBase, pruned bool }

// A world is a model of machines that share mail through a carrier: files, bases and what the carrier has,
// without a file system. A message has one recipient.
type world struct {
	*rand.Rand
	faults
	machines []*modelMachine
	carrier  map[int]State
	// bytes are the messages of which the carrier has more than the state.
	bytes     map[int]bool
	snapshots []modelSnapshot
	// handled, restored and gone are the messages that were handled, restored and pruned. created counts the messages.
	handled, restored, gone map[int]bool
	created                 int
}

type modelMachine struct {
	files map[int]Stage
	base  map[int]State
	// bytes are the messages of which the base has more than the state.
	bytes map[int]bool
}

type modelSnapshot struct {
	carrier map[int]State
	bytes   map[int]bool
}

// sync is what a sync does, and killed is where it ends.
func (w *world) sync(m *modelMachine, killed string) {
	result := maps.Clone(w.carrier)
	for k := range w.created {
		if s := Join(Here(m.files[k], m.base[k]), w.carrier[k]); s.Stage != Unknown {
			result[k] = s
		}
	}
	if killed == "before the push" {
		return
	}
	for k, s := range result {
		// The bytes travel with a state that the carrier does not have. The base also has them.
		if w.carrier[k] != s && (m.files[k] != Unknown || m.bytes[k]) {
			w.bytes[k] = true
		}
		w.carrier[k] = s
	}
	if killed == "after the push" {
		return
	}
	for k, s := range result {
		if (killed != "while applying" || w.IntN(2) == 0) && (m.files[k] != Unknown || w.bytes[k]) {
			m.files[k] = s.Stage
		}
	}
	if killed == "" {
		m.base, m.bytes = result, maps.Clone(w.bytes)
	}
}

// step lets something happen.
func (w *world) step() {
	m, x := w.machines[w.IntN(len(w.machines))], w.Float64()
	pick := func(want Stage) (k int, ok bool) {
		var of []int
		for k := range w.created {
			if m.files[k] == want {
				of = append(of, k)
			}
		}
		if len(of) == 0 {
			return 0, false
		}
		return of[w.IntN(len(of))], true
	}
	switch {
	case x < 0.15:
		m.files[w.created] = Pending
		w.created++
	case x < 0.35:
		if k, ok := pick(Pending); ok {
			m.files[k] = Handled
			if w.IntN(4) == 0 {
				m.files[k] = Dead
			}
			w.handled[k] = true
		}
	case x < 0.38:
		if k, ok := pick([]Stage{Handled, Dead}[w.IntN(2)]); ok {
			m.files[k] = Pending
			w.restored[k] = true
		}
	case x < 0.80:
		w.sync(m, []string{"", "", "", "before the push", "after the push", "while applying", "before the base"}[w.IntN(7)])
	case w.removed && x < 0.84:
		for k, stage := range m.files {
			if m.base[k].Stage == stage && w.IntN(2) == 0 {
				delete(m.files, k)
			}
		}
	case w.rewound && x < 0.86:
		w.snapshots = append(w.snapshots, modelSnapshot{maps.Clone(w.carrier), maps.Clone(w.bytes)})
	case w.rewound && x < 0.88 && len(w.snapshots) > 0:
		old := w.snapshots[w.IntN(len(w.snapshots))]
		if w.IntN(10) < 3 {
			old = modelSnapshot{}
		}
		w.carrier, w.bytes = make(map[int]State), make(map[int]bool)
		maps.Copy(w.carrier, old.carrier)
		maps.Copy(w.bytes, old.bytes)
	case w.lostBase && x < 0.885:
		m.base, m.bytes = make(map[int]State), nil
	case w.pruned && x > 0.985:
		// Pruning removes bytes, and no states: from the carrier, and here what the base has as handled.
		for k, s := range w.carrier {
			if s.Stage > Pending && k < w.created-50 {
				delete(w.bytes, k)
				w.gone[k] = true
				if m.files[k] > Pending && m.base[k].Stage > Pending {
					delete(m.files, k)
				}
			}
		}
	}
}

// check returns what is wrong after all machines have synced.
func (w *world) check() (found []string) {
	for k := range w.created {
		held, stages := false, make(map[Stage]bool)
		for _, m := range w.machines {
			held = held || m.files[k] != Unknown
			stages[m.files[k]] = true
		}
		switch {
		case !held && !(w.handled[k] && w.gone[k]):
			found = append(found, fmt.Sprintf("message %d is lost", k))
		case len(stages) > 1 && !w.gone[k]:
			found = append(found, fmt.Sprintf("machines differ about message %d: %v", k, stages))
		case !w.handled[k] && (stages[Handled] || stages[Dead]):
			found = append(found, fmt.Sprintf("message %d was handled by nobody", k))
		case w.handled[k] && !w.restored[k] && stages[Pending]:
			found = append(found, fmt.Sprintf("message %d is pending again", k))
		}
	}
	return found
}

// runModel makes a random run and returns what is wrong at its end.
func runModel(seed uint64, f faults, machines, steps int) []string {
	w := &world{
		Rand: rand.New(rand.NewPCG(seed, 1)), faults: f, carrier: make(map[int]State), bytes: make(map[int]bool),
		handled: make(map[int]bool), restored: make(map[int]bool), gone: make(map[int]bool),
	}
	for range machines {
		w.machines = append(w.machines, &modelMachine{files: make(map[int]Stage), base: make(map[int]State)})
	}
	for range steps {
		w.step()
	}
	for range 3 {
		for _, m := range w.machines {
			w.sync(m, "")
		}
	}
	return w.check()
}

// TestModel lets random machines send, handle and restore messages, and sync and be killed, with all kinds of
// faults. Nothing is lost, handled by nobody or pending again, and all agree in the end.
func TestModel(t *testing.T) {
	for mode, f := range map[string]faults{
		"no faults": {}, "removed files": {removed: true}, "rewound carrier": {rewound: true},
		"both": {removed: true, rewound: true}, "lost base": {lostBase: true},
	} {
		for _, f.pruned = range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, pruning %v", mode, f.pruned), func(t *testing.T) {
				t.Parallel()
				for seed := range *modelSeeds {
					if found := runModel(uint64(seed), f, 4, 400); len(found) > 0 {
						t.Fatalf("seed %d: %q", seed, found)
					}
				}
			})
		}
	}
}

// TestModelFindsFaults checks that the model notices a rule that is wrong: one in which a missing file
// means handled.
func TestModelFindsFaults(t *testing.T) {
	w := &world{handled: map[int]bool{}, restored: map[int]bool{}, gone: map[int]bool{}, created: 2}
	w.machines = []*modelMachine{{files: map[int]Stage{0: Handled, 1: Pending}}, {files: map[int]Stage{0: Handled}}}
	if found := w.check(); len(found) != 2 {
		t.Errorf("the model finds %q, want that one message was handled by nobody, and that machines differ", found)
	}
}
