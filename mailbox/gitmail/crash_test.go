package gitmail_test

import (
	"slices"
	"testing"

	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/gitmail"
	"github.com/oacp-go/oacp/schema"
)

// steps are those at which Sync calls the function of SetStep.
var steps = []string{"locked", "fetched", "merged", "received", "arrived", "moved", "applied", "committed", "noted", "recorded", "settled", "pushed"}

// A correspondence is mail between claude on here and codex on there, in every state that a sync can
// find. The messages are named after what happened to them since the last sync.
type correspondence struct {
	*network
	here, there *machine

	// These were pending everywhere.
	acknowledgedHere, acknowledgedThere, buriedHere, buriedThere, pending *mailbox.Receipt
	// These were dead letters everywhere.
	restoredHere, restoredThere *mailbox.Receipt
	// These were sent since.
	sentHere, sentThere, answered *mailbox.Receipt
}

// both are the agents of a correspondence.
var both = []schema.AgentName{"claude", "codex"}

// newCorrespondence returns a correspondence in which much happened since the last sync. Only the machine there has
// synced it.
func newCorrespondence(t *testing.T) *correspondence {
	t.Helper()
	c := &correspondence{network: newNetwork(t, 2, both...)}
	c.here, c.there = c.machines[0], c.machines[1]
	c.settle()
	old := []**mailbox.Receipt{
		&c.acknowledgedHere, &c.acknowledgedThere, &c.buriedHere, &c.buriedThere, &c.pending, &c.restoredHere, &c.restoredThere,
	}
	for i, r := range old {
		*r = c.machines[i%2].send("codex", "claude")
	}
	c.settle()
	c.here.bury("claude", c.restoredHere.Message.ID)
	c.there.bury("claude", c.restoredThere.Message.ID)
	c.settle()

	c.there.acknowledge("claude", c.acknowledgedThere.Message.ID)
	c.there.bury("claude", c.buriedThere.Message.ID)
	c.there.restore("claude", c.restoredThere)
	c.sentThere = c.there.send("codex", "claude")
	c.answered = c.there.send("codex", "claude")
	c.there.acknowledge("claude", c.answered.Message.ID)
	c.there.sync()
	c.here.acknowledge("claude", c.acknowledgedHere.Message.ID)
	c.here.bury("claude", c.buriedHere.Message.ID)
	c.here.restore("claude", c.restoredHere)
	c.sentHere = c.here.send("claude", "codex")
	return c
}

// copy returns a copy of the correspondence for another test.
func (c *correspondence) copy(t *testing.T, prepare ...func(dir string)) *correspondence {
	t.Helper()
	copied := *c
	copied.network = c.network.copy(t, prepare...)
	copied.here, copied.there = copied.machines[0], copied.machines[1]
	return &copied
}

// check syncs, and checks that both machines have each message in the right box. The arguments are the messages that
// were acknowledged and sent meanwhile.
func (c *correspondence) check(acknowledged, received []*mailbox.Receipt) {
	c.t.Helper()
	c.settle()
	pending := append([]*mailbox.Receipt{c.pending, c.restoredHere, c.restoredThere, c.sentThere}, received...)
	pending = slices.DeleteFunc(pending, func(r *mailbox.Receipt) bool { return slices.Contains(acknowledged, r) })
	c.want("claude", mailbox.Inbox, pending...)
	c.want("claude", mailbox.Archive, append([]*mailbox.Receipt{c.acknowledgedHere, c.acknowledgedThere, c.answered}, acknowledged...)...)
	c.want("claude", mailbox.DeadLetters, c.buriedHere, c.buriedThere)
	c.want("claude", mailbox.Outbox, c.sentHere)
	c.want("codex", mailbox.Inbox, c.sentHere)
	c.checkEqual()
}

func TestCorrespondence(t *testing.T) {
	t.Parallel()
	c := newCorrespondence(t)
	c.check(nil, nil)
}

// TestKilledAtEveryStep kills a process that syncs at each of its steps. Whatever happens before the
// next sync, everything is right after it.
func TestKilledAtEveryStep(t *testing.T) {
	notInShort(t)
	t.Parallel()
	original := newCorrespondence(t)
	meanwhile := []struct {
		name   string
		happen func(c *correspondence) (acknowledged, received []*mailbox.Receipt)
	}{
		{"nothing", func(*correspondence) (_, _ []*mailbox.Receipt) { return nil, nil }},
		{"acknowledged here", (*correspondence).acknowledgeHere},
		{"received there", (*correspondence).receiveThere},
	}
	for i, step := range steps {
		for j, m := range meanwhile {
			if !*thorough && i%len(meanwhile) != j {
				continue
			}
			t.Run(step+"/"+m.name, func(t *testing.T) {
				c := original.copy(t)
				p := c.start(child{Role: "once", Dir: c.here.dir, KillAt: step})
				<-p.ended
				if p.err == nil || len(p.lines) > 0 {
					t.Fatalf("the process got past the step (%v): %q", p.err, p.lines)
				}
				acknowledged, received := m.happen(c)
				c.runOnce(child{Role: "once", Dir: c.here.dir})
				c.check(acknowledged, received)
			})
		}
	}
}

// acknowledgeHere acknowledges what has arrived here and is pending, and sends a message.
func (c *correspondence) acknowledgeHere() (acknowledged, received []*mailbox.Receipt) {
	pending := c.here.ids("claude", mailbox.Inbox)
	for _, r := range []*mailbox.Receipt{c.pending, c.sentThere, c.restoredHere, c.restoredThere} {
		if slices.Contains(pending, r.Message.ID) {
			c.here.acknowledge("claude", r.Message.ID)
			acknowledged = append(acknowledged, r)
		}
	}
	return acknowledged, append(received, c.here.send("codex", "claude"))
}

// receiveThere lets the other machine be faster.
func (c *correspondence) receiveThere() (acknowledged, received []*mailbox.Receipt) {
	c.there.acknowledge("claude", c.pending.Message.ID)
	received = append(received, c.there.send("codex", "claude"))
	c.there.sync()
	return append(acknowledged, c.pending), received
}

// TestEveryStepIsReached checks that a sync has exactly the steps of TestKilledAtEveryStep.
func TestEveryStepIsReached(t *testing.T) {
	t.Parallel()
	c := newCorrespondence(t)
	reached := make(map[string]bool)
	c.here.syncWith(gitmail.Options{}, func(name string) { reached[name] = true })
	for _, step := range steps {
		if !reached[step] {
			t.Errorf("no sync gets to the step %q", step)
		}
		delete(reached, step)
	}
	for step := range reached {
		t.Errorf("no test kills a process at the step %q", step)
	}
}
