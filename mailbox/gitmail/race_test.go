package gitmail_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oacp-go/oacp/internal/orphans"
	"github.com/oacp-go/oacp/internal/testing/check"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/watch"
	"github.com/oacp-go/oacp/schema"
)

// The size of TestRace. A run of five machines with 200 messages each takes some minutes.
var (
	raceMachines = flag.Int("race-machines", 3, "how many machines take part in TestRace")
	raceMessages = flag.Int("race-messages", 15, "how many messages each machine sends in TestRace")
	raceSeed     = flag.Uint64("race-seed", 0, "the seed of TestRace; 0 means another one in each run")
)

// A race is a network on whose machines agents send and acknowledge at random, while processes that
// sync are killed. Agent mI works on machine I; shared works on all of them.
type race struct {
	*network
	interval time.Duration
	agents   []schema.AgentName
	random   *rand.Rand
	// mutex guards the rest.
	mutex sync.Mutex
	// arrived counts what the watchers saw: "machine agent id".
	arrived map[string]int
	kills   map[string]int
	lines   map[string]int
}

const shared schema.AgentName = "shared"

// TestRace lets machines send, acknowledge, archive and bury messages at random and sync all the
// time. Processes are killed in the middle: with their children, without them, and the children
// alone. In the end no message is lost or doubled, and no acknowledgement is undone.
func TestRace(t *testing.T) {
	t.Parallel()
	seed := *raceSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("-race-machines %d -race-messages %d -race-seed %d", *raceMachines, *raceMessages, seed)
	r := &race{
		interval: time.Second, random: rand.New(rand.NewPCG(seed, 1)),
		arrived: make(map[string]int), kills: make(map[string]int), lines: make(map[string]int),
	}
	if *raceMessages < 100 {
		r.interval = 200 * time.Millisecond
	}
	for i := range *raceMachines {
		r.agents = append(r.agents, schema.AgentName(fmt.Sprintf("m%d", i)))
	}
	r.network = newNetwork(t, *raceMachines, append([]schema.AgentName{shared}, r.agents...)...)
	r.settle()
	r.protectRemote()
	stopWatching := sync.OnceFunc(r.watch())
	defer stopWatching()
	r.run()
	r.recover()
	r.settle()
	stopWatching()
	r.checkEqual()
	r.checkMessages()
	t.Logf("kills: %v; lines: %v", r.kills, r.lines)
}

// protectRemote lets the processes of the remote live when those of a machine are killed, as they do on
// a server.
func (r *race) protectRemote() {
	for _, service := range []string{"upload-pack", "receive-pack"} {
		script := writeScript(r.t, filepath.Join(r.dir, service), "unset "+orphans.Variable+"; exec git "+service+` "$@"`)
		for _, m := range r.machines {
			r.git(m.clone, "config", "remote.oacp."+strings.ReplaceAll(service, "-", ""), script)
		}
	}
}

// watch counts the arrivals in the inboxes of all machines.
func (r *race) watch() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	for _, m := range r.machines {
		var targets []watch.Target
		for _, agent := range append(r.agents, shared) {
			targets = append(targets, watch.Target{Workspace: m.w, Agent: agent})
		}
		watcher, err := watch.New(targets, nil)
		if err != nil {
			r.t.Fatal(err)
		}
		group.Go(func() {
			for event, err := range watcher.Events(ctx) {
				switch {
				case err != nil:
					r.t.Errorf("watching %s: %v", m.name, err)
				case event.Kind == watch.EventArrived:
					r.mutex.Lock()
					r.arrived[fmt.Sprintf("%s %s %s", m.name, event.Agent, event.Message.ID)]++
					r.mutex.Unlock()
				case event.Kind == watch.EventError:
					r.t.Errorf("watching %s: %s: %v", m.name, event.Path, event.Err)
				}
			}
			if err := watcher.Close(); err != nil {
				r.t.Error(err)
			}
		})
	}
	return func() { cancel(); group.Wait() }
}

// run runs the agents and the processes that sync until all messages are sent.
func (r *race) run() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var group sync.WaitGroup
	seeds := make([]uint64, len(r.machines))
	for i := range seeds {
		seeds[i] = r.random.Uint64()
	}
	for i, m := range r.machines {
		group.Go(func() { r.runSync(ctx, m, rand.New(rand.NewPCG(seeds[i], 2))) })
		group.Go(func() { r.runAgent(ctx, i, m, rand.New(rand.NewPCG(seeds[i], 3))) })
	}
	deadline := time.After(10 * time.Minute)
	for r.sent() < *raceMachines**raceMessages {
		select {
		case <-deadline:
			r.t.Errorf("%d messages were sent in ten minutes, want %d", r.sent(), *raceMachines**raceMessages)
			cancel()
			group.Wait()
			return
		case <-time.After(100 * time.Millisecond):
		}
	}
	cancel()
	group.Wait()
}

// recover syncs each machine until that succeeds: a killed git leaves locks, which count as stale
// only after some seconds.
func (r *race) recover() {
	deadline := time.Now().Add(time.Minute)
	for _, m := range r.machines {
		for {
			_, err := m.trySync()
			if err == nil {
				break
			}
			if time.Now().After(deadline) {
				r.t.Fatalf("%s does not sync again after the kills: %v", m.name, err)
			}
			r.note([]string{"afterwards: " + err.Error()})
			<-time.After(time.Second)
		}
	}
}

// sent returns how many messages are in their senders' outboxes.
func (r *race) sent() (count int) {
	for i, m := range r.machines {
		paths, err := filepath.Glob(filepath.Join(m.w.BoxPath(r.agents[i], mailbox.Outbox), "*.yaml"))
		if err != nil {
			r.t.Error(err)
		}
		count += len(paths)
	}
	return count
}

// runSync keeps a process that syncs running and kills it now and then, until the context ends.
func (r *race) runSync(ctx context.Context, m *machine, random *rand.Rand) {
	for ctx.Err() == nil {
		mark := orphans.OwnerOf("").NewMark()
		p := r.start(child{Role: "every", Dir: m.dir, Interval: r.interval}, mark)
		select {
		case <-ctx.Done():
			if err := p.end(); err != nil {
				r.t.Errorf("the process that syncs %s: %v %q", m.name, err, p.lines)
			}
		case <-p.ended:
			r.t.Errorf("the process that syncs %s ended: %v %q", m.name, p.err, p.lines)
		case <-time.After(100*time.Millisecond + time.Duration(random.Int64N(int64(3*r.interval)))):
			kind := []string{"all", "parent", "children"}[random.IntN(3)]
			if kind == "children" {
				r.killChildren(p)
			}
			if kind == "parent" {
				p.kill()
			} else if kind == "all" {
				if _, err := orphans.OwnerOf("").End(context.Background(), mark); err != nil {
					r.note([]string{"kill: a process takes long to die"}) // it waits for the disk
				}
				<-p.ended
			} else if err := p.end(); err != nil {
				r.t.Errorf("the process that syncs %s: %v %q", m.name, err, p.lines)
			}
			r.mutex.Lock()
			r.kills[kind]++
			r.mutex.Unlock()
		}
		r.note(p.lines)
	}
}

// note counts the lines that a process printed, up to a length, because their ends differ.
func (r *race) note(lines []string) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	for _, line := range lines {
		if len(line) > 160 {
			line = line[:160]
		}
		r.lines[line]++
	}
}

// runAgent keeps an agent running and kills it now and then.
func (r *race) runAgent(ctx context.Context, i int, m *machine, random *rand.Rand) {
	for ctx.Err() == nil {
		p := r.start(child{
			Role: "agent", Dir: m.dir, Agent: r.agents[i], Shared: shared, Count: *raceMessages, Seed: random.Uint64(),
			Others: slices.DeleteFunc(append(slices.Clone(r.agents), shared), func(a schema.AgentName) bool { return a == r.agents[i] }),
			Pause:  r.interval, Journal: r.journal(m),
		})
		select {
		case <-ctx.Done():
			if err := p.end(); err != nil {
				r.t.Errorf("the agent of %s: %v %q", m.name, err, p.lines)
			}
		case <-p.ended:
			r.t.Errorf("the agent of %s ended: %v %q", m.name, p.err, p.lines)
		case <-time.After(r.interval + time.Duration(random.Int64N(int64(20*r.interval)))):
			p.kill()
			r.mutex.Lock()
			r.kills["agent"]++
			r.mutex.Unlock()
		}
	}
}

func (r *race) journal(m *machine) string { return filepath.Join(r.dir, m.name+".journal") }

// checkMessages checks where each message is.
func (r *race) checkMessages() {
	dealt := r.dealt()
	for i, m := range r.machines {
		sent, err := m.w.List(context.Background(), r.agents[i], mailbox.Outbox)
		if err != nil {
			r.t.Fatal(err)
		}
		if len(sent) != *raceMessages {
			r.t.Errorf("%s sent %d messages, want %d", m.name, len(sent), *raceMessages)
		}
		for _, e := range sent {
			for _, to := range e.Message.To {
				r.checkRecipient(dealt, to, e.Message.ID)
			}
		}
	}
	for what, count := range r.arrived {
		if count != 1 {
			r.t.Errorf("%s arrived %d times", what, count)
		}
	}
	if len(r.arrived) == 0 || len(dealt) == 0 {
		r.t.Errorf("%d arrivals and %d acknowledgements were seen: the test does not test", len(r.arrived), len(dealt))
	}
}

// checkRecipient checks that a message is in an agent's inbox on all machines or on none, and that
// it is pending unless the agent dealt with it.
func (r *race) checkRecipient(dealt map[string][]string, to schema.AgentName, id schema.ID) {
	key := string(to) + " " + string(id)
	for _, m := range r.machines {
		var found []string
		for _, box := range []mailbox.Box{mailbox.Inbox, mailbox.Archive, mailbox.DeadLetters} {
			for range count(m.boxes(to, box), id) {
				found = append(found, string(box))
			}
		}
		want := []string{"inbox"}
		if how, done := dealt[key]; done {
			want = how
		}
		if !slices.Equal(found, want) {
			// An agent that was killed may not have written down what it did.
			if _, done := dealt[key]; done || len(found) > 1 {
				r.t.Errorf("%s: %s for %s is in %q, want %q", m.name, id, to, found, want)
			}
		}
	}
}

func count(ids []schema.ID, id schema.ID) (n int) {
	for _, other := range ids {
		if other == id {
			n++
		}
	}
	return n
}

// boxes is ids with a cache: the mailboxes no longer change.
func (m *machine) boxes(agent schema.AgentName, box mailbox.Box) []schema.ID {
	key := string(agent) + "/" + string(box)
	if m.remembered == nil {
		m.remembered = make(map[string][]schema.ID)
	}
	ids, ok := m.remembered[key]
	if !ok {
		ids = m.ids(agent, box)
		m.remembered[key] = ids
	}
	return ids
}

// dealt reads the journals. It returns, for "agent id", the boxes other than the outbox in which the
// message has to be. It also checks that no machine sees a message again that it had dealt with.
func (r *race) dealt() map[string][]string {
	dealt := make(map[string][]string)
	boxes := map[string]string{"acknowledged": "archive", "buried": "dead_letter"}
	for _, m := range r.machines {
		done := make(map[string]bool)
		for line := range strings.Lines(check.ReadFile(r.t, r.journal(m))) {
			what, key, _ := strings.Cut(strings.TrimSpace(line), " ")
			if done[key] {
				r.t.Errorf("%s %s a message again that it had dealt with: %s", m.name, what, key)
			}
			if what == "saw" {
				continue
			}
			done[key] = true
			dealt[key] = append(dealt[key], boxes[what])
		}
	}
	for key, how := range dealt {
		dealt[key] = []string{slices.Min(how)} // handled is more than dead
	}
	return dealt
}
