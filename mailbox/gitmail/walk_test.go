package gitmail_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

var walkSeed = flag.Uint64("walk-seed", 1, "the seed of TestRandomWalk; 0 means another one in each run")

// A walk is a network on which things happen at random, one after the other.
type walk struct {
	*network
	random *rand.Rand
	agents []schema.AgentName
	sent   []*mailbox.Receipt
	// acknowledged and restored say what happened to "agent id" at some time on some machine.
	acknowledged, restored map[string]bool
	// history is what happened, for people.
	history []string
}

// TestRandomWalk sends, acknowledges, archives, buries, restores and syncs at random. All machines get
// into step; nothing is lost, and nothing that was acknowledged comes back unless it is restored.
func TestRandomWalk(t *testing.T) {
	t.Parallel()
	seed := *walkSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("-walk-seed %d", seed)
	w := &walk{
		random: rand.New(rand.NewPCG(seed, 4)), agents: []schema.AgentName{"claude", "codex", "gemini"},
		acknowledged: make(map[string]bool), restored: make(map[string]bool),
	}
	w.network = newNetwork(t, 3, w.agents...)
	w.settle()
	for range 80 {
		w.act(w.machines[w.random.IntN(len(w.machines))])
	}
	w.settle()
	w.checkEqual()
	w.checkEnd()
	if t.Failed() {
		for _, line := range w.history {
			t.Log(line)
		}
	}
}

// act does something on a machine.
func (w *walk) act(m *machine) {
	agent := w.agents[w.random.IntN(len(w.agents))]
	pending := m.ids(agent, mailbox.Inbox)
	what := "sync"
	switch choice := w.random.IntN(10); {
	case choice < 3:
		m.sync()
		w.history = append(w.history, m.name+" sync")
		return
	case choice < 6 || len(w.sent) == 0:
		to := slices.DeleteFunc(slices.Clone(w.agents), func(a schema.AgentName) bool { return a == agent })
		r := m.send(agent, to[:1+w.random.IntN(2)]...)
		w.sent = append(w.sent, r)
		w.history = append(w.history, fmt.Sprintf("%s sends %s to %v", m.name, r.Message.ID, r.Message.To))
		return
	case choice == 9:
		r := w.sent[w.random.IntN(len(w.sent))]
		to := r.Message.To[0]
		_, err := m.w.Restore(w.t.Context(), r.Message, to, func(mailbox.Entry) error { return nil })
		if err == nil {
			w.restored[string(to)+" "+string(r.Message.ID)] = true
			w.history = append(w.history, fmt.Sprintf("%s restores %s of %s", m.name, r.Message.ID, to))
		}
		return
	case len(pending) == 0:
		return
	}
	id := pending[w.random.IntN(len(pending))]
	switch w.random.IntN(3) {
	case 0:
		what = "acknowledges"
		m.acknowledge(agent, id)
	case 1:
		what = "archives"
		m.acknowledge(agent, id)
	default:
		what = "buries"
		m.bury(agent, id)
	}
	w.acknowledged[string(agent)+" "+string(id)] = true
	w.history = append(w.history, fmt.Sprintf("%s %s %s of %s", m.name, what, id, agent))
}

func (w *walk) checkEnd() {
	for _, r := range w.sent {
		for _, m := range w.machines {
			if count(m.boxes(r.Message.From, mailbox.Outbox), r.Message.ID) != 1 {
				w.t.Errorf("%s: %s is not in the outbox of %s", m.name, r.Message.ID, r.Message.From)
			}
			for _, to := range r.Message.To {
				key := string(to) + " " + string(r.Message.ID)
				got := count(m.boxes(to, mailbox.Inbox), r.Message.ID)
				switch {
				case !w.acknowledged[key] && got != 1:
					w.t.Errorf("%s: nobody acknowledged %s, and it is %d times in the inbox of %s", m.name, r.Message.ID, got, to)
				case w.acknowledged[key] && !w.restored[key] && got != 0:
					w.t.Errorf("%s: %s was acknowledged and is %d times in the inbox of %s", m.name, r.Message.ID, got, to)
				}
			}
		}
	}
}
