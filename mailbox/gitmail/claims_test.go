package gitmail

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oacp-go/oacp/internal/git"
	"github.com/oacp-go/oacp/schema"
)

// sharedRefs is a remote in memory with the messages that are pending.
type sharedRefs struct {
	mu      sync.Mutex
	objects map[string]string // by ref
	texts   map[string]string // of the objects
	pending map[schema.ID]bool
	pushes  int
	dead    map[string]bool // processes
}

// testMachine is a machine with its copy of the remote. It is its claims' store.
type testMachine struct {
	*Claims
	t      testing.TB
	shared *sharedRefs
	// mu guards the rest.
	mu      sync.Mutex
	refs    map[string]string
	pending map[schema.ID]bool
	// handled are messages that were acknowledged here, and not yet on the remote.
	handled []schema.ID
	// down fails everything, mute applies pushes and then fails, and hangs waits for the context.
	down, mute, hangs bool
	warnings          []string
}

var errDown = errors.New("the remote does not answer")

func (m *testMachine) set(change func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change()
}

func (m *testMachine) reach(ctx context.Context) error {
	m.mu.Lock()
	down, hangs := m.down, m.hangs
	m.mu.Unlock()
	if hangs {
		<-ctx.Done()
		return ctx.Err()
	}
	if down {
		return errDown
	}
	time.Sleep(10 * time.Millisecond) // of the clock of the test
	return nil
}

func (m *testMachine) commit(_ context.Context, c Claim) (object string, err error) {
	m.shared.mu.Lock()
	defer m.shared.mu.Unlock()
	object = fmt.Sprintf("%x", c.text())
	m.shared.texts[object] = c.text()
	return object, nil
}

func (m *testMachine) push(ctx context.Context, updates []git.Update) (moved []bool, err error) {
	moved = make([]bool, len(updates))
	if err := m.reach(ctx); err != nil {
		return moved, err
	}
	m.shared.mu.Lock()
	defer m.shared.mu.Unlock()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.shared.pushes++
	pushed := make(map[string]bool)
	for i, u := range updates {
		if pushed[u.Ref] {
			m.t.Errorf("a push updates %s twice, which git refuses", u.Ref)
		}
		pushed[u.Ref] = true
		if m.shared.objects[u.Ref] != u.From {
			continue
		}
		if moved[i] = !m.mute; u.To == "" {
			delete(m.shared.objects, u.Ref)
		} else {
			m.shared.objects[u.Ref] = u.To
		}
	}
	if m.mute {
		return moved, errDown
	}
	return moved, nil
}

func (m *testMachine) remember(map[schema.ID]observation) error { return nil }

func (m *testMachine) ListClaims(context.Context) (claims []Claim, err error) {
	m.shared.mu.Lock()
	defer m.shared.mu.Unlock()
	m.mu.Lock()
	defer m.mu.Unlock()
	for ref, object := range m.refs {
		if c, ok := claimAt(ref, object, m.shared.texts[object]); ok {
			claims = append(claims, c)
		}
	}
	return claims, nil
}

// sync pushes what was acknowledged here, and fetches what is pending and claimed.
func (m *testMachine) sync(ctx context.Context) error {
	if err := m.reach(ctx); err != nil {
		return err
	}
	m.shared.mu.Lock()
	defer m.shared.mu.Unlock()
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, id := range m.handled {
		delete(m.shared.pending, id)
	}
	m.handled = nil
	m.refs, m.pending = maps.Clone(m.shared.objects), maps.Clone(m.shared.pending)
	return nil
}

// handle acknowledges a message.
func (m *testMachine) handle(id schema.ID) {
	m.set(func() {
		delete(m.pending, id)
		m.handled = append(m.handled, id)
	})
	m.Done(id)
}

const testLease = 5 * time.Minute

// newMachines makes machines that share messages 1 to n, and starts their claims. The times that
// each of them publishes are hours from the next one's.
func newMachines(t testing.TB, machines, n int) (*sharedRefs, []*testMachine) {
	t.Helper()
	shared := &sharedRefs{objects: make(map[string]string), texts: make(map[string]string), pending: make(map[schema.ID]bool), dead: make(map[string]bool)}
	for i := range n {
		shared.pending[number(i+1).ID] = true
	}
	all := make([]*testMachine, machines)
	for i := range all {
		all[i] = startMachine(t, shared, fmt.Sprintf("m%d", i), strings.Repeat(fmt.Sprintf("%02x", i), 16))
		all[i].now = func() time.Time { return time.Now().Add(time.Duration(i-1) * 7 * time.Hour) }
	}
	return shared, all
}

func startMachine(t testing.TB, shared *sharedRefs, name, workspace string, handled ...schema.ID) *testMachine {
	t.Helper()
	m := &testMachine{t: t, shared: shared, refs: make(map[string]string), pending: make(map[schema.ID]bool), handled: handled}
	m.Claims = newClaims("codex", testLease, m, workspace)
	m.machine = name
	m.ended = func(process string) bool {
		shared.mu.Lock()
		defer shared.mu.Unlock()
		return shared.dead[process]
	}
	if err := m.Start(t.Context(), func(err error) {
		m.set(func() { m.warnings = append(m.warnings, err.Error()) })
	}); err != nil {
		t.Error(err)
	}
	return m
}

func (m *testMachine) isPending(_ context.Context, id schema.ID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.pending[id]
}

// restart kills the machine's process and starts another one on the same workspace.
func (m *testMachine) restart() *testMachine {
	m.die()
	return startMachine(m.t, m.shared, m.machine, m.workspace, m.handled...)
}

// syncNow makes a round with a sync.
func syncNow(ctx context.Context, c *Claims) error {
	c.mu.Lock()
	c.synced = time.Time{}
	c.mu.Unlock()
	_, err := c.round(ctx)
	return err
}

// die ends the machine's goroutines without giving anything up.
func (m *testMachine) die() {
	m.stop()
	m.running.Wait()
	m.shared.mu.Lock()
	defer m.shared.mu.Unlock()
	m.shared.dead[m.process] = true
}

func number(i int) Wanted {
	id := schema.ID(fmt.Sprintf("msg-20260313T1430Z-claude-%04d", i))
	return Wanted{ID: id}
}

func (m *testMachine) take(wanted ...Wanted) (int, context.Context, error) {
	return m.Take(m.t.Context(), wanted)
}

// mustTake takes a message, and fails the test unless its turn has the given number.
func (m *testMachine) mustTake(attempt int, wanted ...Wanted) context.Context {
	m.t.Helper()
	got, held, err := m.take(wanted...)
	if err != nil || got != attempt {
		m.t.Fatalf("%s takes %s: turn %d, %v, want turn %d", m.machine, wanted[0].ID, got, err, attempt)
	}
	return held
}

// mustNotTake fails the test if it can take a message that another machine has.
func (m *testMachine) mustNotTake(from string, wanted ...Wanted) {
	m.t.Helper()
	_, _, err := m.take(wanted...)
	other, _ := m.Other(wanted[0].ID)
	if !errors.Is(err, ErrElsewhere) || other == nil || other.Machine != from {
		m.t.Fatalf("%s takes %s: %v, want %s to have it", m.machine, wanted[0].ID, err, from)
	}
}

// claimed returns the claims on the remote: message, machine, state and attempt.
func (s *sharedRefs) claimed() map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make(map[string]string)
	for ref, object := range s.objects {
		c, err := parseClaim(s.texts[object])
		text := fmt.Sprintf("%s %s %d", c.Machine, c.State, c.Attempt)
		if err != nil {
			text = err.Error()
		}
		all[ref[len(ref)-1:]] = text
	}
	return all
}

func (s *sharedRefs) want(t testing.TB, claims ...string) {
	t.Helper()
	if got, want := fmt.Sprint(s.claimed()), "map["+strings.Join(claims, " ")+"]"; got != want {
		t.Errorf("claims on the remote: %s, want %s", got, want)
	}
}

// TestClaims runs scenarios of three machines on a fake clock.
func TestClaims(t *testing.T) {
	for name, scenario := range map[string]func(t *testing.T, shared *sharedRefs, a, b, c *testMachine){
		"one of several takes a message": func(t *testing.T, shared *sharedRefs, a, b, c *testMachine) {
			a.mustTake(1, number(1))
			b.mustNotTake("m0", number(1))
			c.mustTake(1, number(2))
			shared.want(t, "1:m0 working 1", "2:m2 working 1")
		},
		"several at once": func(t *testing.T, shared *sharedRefs, a, b, c *testMachine) {
			b.mustTake(1, number(2))
			a.mustTake(1, number(1), number(2), number(3))
			shared.want(t, "1:m0 working 1", "2:m1 working 1", "3:m0 ahead 0")
			c.mustNotTake("m0", number(3))
			a.mustTake(1, number(3))
			time.Sleep(testLease / 2)
			shared.want(t, "1:m0 working 1", "2:m1 working 1", "3:m0 working 1")
		},
		"a message that was handled meanwhile": func(t *testing.T, shared *sharedRefs, a, b, c *testMachine) {
			a.mustTake(1, number(1))
			a.handle(number(1).ID)
			time.Sleep(time.Second)
			shared.want(t)
			b.mustTake(1, number(1), number(2))
			if b.isPending(t.Context(), number(1).ID) {
				t.Error("the message is still pending here")
			}
			b.Done(number(1).ID)
			time.Sleep(time.Second)
			shared.want(t, "2:m1 ahead 0")
		},
		"a message that was given back is taken ahead": func(t *testing.T, shared *sharedRefs, a, b, c *testMachine) {
			a.mustTake(1, number(1), number(2))
			a.Release(number(1).ID, 1)
			a.Release(number(2).ID, 0)
			a.mustTake(1, number(3), number(1), number(2))
			a.mustTake(2, number(1))
			a.mustTake(1, number(2))
			time.Sleep(testLease / 2)
			shared.want(t, "1:m0 working 2", "2:m0 working 1", "3:m0 working 1")
			if err := a.Stop(t.Context()); err != nil {
				t.Error(err)
			}
			shared.want(t, "1:m0 free 2", "2:m0 free 1", "3:m0 free 1")
		},
		"a claim ends only after the acknowledgement is on the remote": func(t *testing.T, shared *sharedRefs, a, b, c *testMachine) {
			a.mustTake(1, number(1))
			a.set(func() { a.down = true })
			a.handle(number(1).ID)
			time.Sleep(time.Minute)
			shared.want(t, "1:m0 working 1")
			a.set(func() { a.down = false })
			time.Sleep(time.Minute)
			shared.want(t)
			if shared.pending[number(1).ID] {
				t.Error("the message is still pending")
			}
		},
		"a stop tries again": func(t *testing.T, shared *sharedRefs, a, b, c *testMachine) {
			a.mustTake(1, number(1), number(2))
			a.set(func() { a.down = true })
			time.AfterFunc(roundPause/2, func() { a.set(func() { a.down = false }) })
			if err := a.Stop(t.Context()); err != nil {
				t.Error(err)
			}
			shared.want(t, "1:m0 free 1")
		},
		"renewals keep a claim": func(t *testing.T, shared *sharedRefs, a, b, c *testMachine) {
			held := a.mustTake(1, number(1))
			for range 10 {
				time.Sleep(testLease)
				if err := syncNow(t.Context(), b.Claims); err != nil {
					t.Fatal(err)
				}
				b.mustNotTake("m0", number(1))
			}
			if held.Err() != nil {
				t.Error(context.Cause(held))
			}
		},
		"the claim of a dead machine is taken after a lease": func(t *testing.T, shared *sharedRefs, a, b, c *testMachine) {
			a.mustTake(1, number(1), number(2))
			a.die()
			b.mustNotTake("m0", number(1))
			time.Sleep(testLease - 3*time.Second)
			b.mustNotTake("m0", number(1))
			time.Sleep(4 * time.Second)
			b.mustTake(2, number(1), number(2))
			shared.want(t, "1:m1 working 2", "2:m1 ahead 0")
		},
		"a machine that comes back does not hold what was taken from it": func(t *testing.T, shared *sharedRefs, a, b, c *testMachine) {
			held := a.mustTake(1, number(1))
			b.mustNotTake("m0", number(1))
			a.set(func() { a.hangs = true }) // as if it were frozen
			time.Sleep(testLease + time.Second)
			b.mustTake(2, number(1))
			a.set(func() { a.hangs = false })
			if err := a.Confirm(t.Context(), number(1).ID); !errors.Is(err, ErrClaimLost) {
				t.Errorf("confirming: %v, want ErrClaimLost", err)
			}
			if !errors.Is(context.Cause(held), ErrClaimLost) {
				t.Errorf("the turn goes on: %v", context.Cause(held))
			}
			a.Release(number(1).ID, 1)
			time.Sleep(time.Minute)
			shared.want(t, "1:m1 working 2")
		},
		"a claim that is not renewed for two thirds of the lease stops its turn": func(t *testing.T, shared *sharedRefs, a, b, c *testMachine) {
			for _, hangs := range []bool{false, true} {
				held := a.mustTake(1, number(1))
				a.set(func() { a.down, a.hangs = !hangs, hangs })
				time.Sleep(testLease/2 + 10*time.Second)
				if held.Err() != nil {
					t.Errorf("the turn stops early: %v", context.Cause(held))
				}
				time.Sleep(testLease / 6)
				if !errors.Is(context.Cause(held), ErrClaimLost) {
					t.Errorf("the turn goes on: %v", context.Cause(held))
				}
				// It is still ours, and a turn that had ended may be recorded.
				a.set(func() { a.down, a.hangs = false, false })
				if err := a.Confirm(t.Context(), number(1).ID); err != nil {
					t.Error(err)
				}
				a.Release(number(1).ID, 0)
				time.Sleep(time.Minute)
				shared.want(t)
			}
		},
		"no turn begins without the remote": func(t *testing.T, shared *sharedRefs, a, b, c *testMachine) {
			a.mustTake(1, number(1), number(2))
			a.set(func() { a.down = true })
			a.mustTake(1, number(2)) // it was taken ahead
			time.Sleep(testLease)
			for _, w := range []Wanted{number(2), number(3)} {
				if _, _, err := a.take(w); !errors.Is(err, errDown) {
					t.Errorf("got %v, want %v", err, errDown)
				}
			}
		},
		"an answer that is lost on its way": func(t *testing.T, shared *sharedRefs, a, b, c *testMachine) {
			a.mustTake(1, number(1))
			a.set(func() { a.mute = true })
			time.Sleep(testLease)
			if err := a.Confirm(t.Context(), number(1).ID); err != nil || len(a.warnings) > 0 {
				t.Errorf("the remote has the renewals: %v, %q", err, a.warnings)
			}
			a.mustTake(1, number(2))
			a.Done(number(1).ID)
			time.Sleep(time.Minute)
			shared.want(t, "2:m0 working 1")
		},
		"a machine that slept asks before it confirms": func(t *testing.T, shared *sharedRefs, a, b, c *testMachine) {
			a.mustTake(1, number(1))
			shared.mu.Lock()
			shared.objects[claimRef("codex", number(1).ID)] = "another machine's" // while the clock of a stood still
			shared.mu.Unlock()
			if err := a.Confirm(t.Context(), number(1).ID); err != nil {
				t.Errorf("a claim that was renewed a moment ago: %v", err)
			}
			now := a.now
			a.now = func() time.Time { return now().Add(8 * time.Hour) }
			if err := a.Confirm(t.Context(), number(1).ID); !errors.Is(err, ErrClaimLost) {
				t.Errorf("got %v, want ErrClaimLost", err)
			}
		},
		"a turn of a long lease does not wait long for a remote that is back": func(t *testing.T, shared *sharedRefs, a, b, c *testMachine) {
			a.lease = MaxLease
			a.mustTake(1, number(1))
			a.set(func() { a.down = true })
			a.now = func() time.Time { return time.Now().Add(24 * time.Hour) }
			time.AfterFunc(time.Minute, func() { a.set(func() { a.down = false }) })
			begun := time.Now()
			if err := a.Confirm(t.Context(), number(1).ID); err != nil || time.Since(begun) > 2*time.Minute {
				t.Errorf("confirmed after %v: %v", time.Since(begun), err)
			}
			a.set(func() { a.down = true })
			a.handle(number(1).ID)
			time.Sleep(time.Minute)
			a.set(func() { a.down = false })
			time.Sleep(time.Minute)
			shared.want(t)
		},
		"a claim joins the next push": func(t *testing.T, shared *sharedRefs, a, b, c *testMachine) {
			for i := range 5 {
				a.mustTake(1, number(i+1))
				a.handle(number(i + 1).ID)
			}
			shared.mu.Lock()
			pushes := shared.pushes
			shared.mu.Unlock()
			if pushes != 5 {
				t.Errorf("there were %d pushes of claims, want 5", pushes)
			}
			time.Sleep(20 * time.Second)
			shared.want(t)
		},
		"turns count across machines": func(t *testing.T, shared *sharedRefs, a, b, c *testMachine) {
			a.mustTake(1, number(1))
			a.mustTake(2, number(1)) // the first failed
			a.Release(number(1).ID, 2)
			time.Sleep(time.Second)
			shared.want(t, "1:m0 free 2")
			b.mustTake(3, number(1))
			b.Release(number(1).ID, 2) // it was stopped and does not count
			three := number(1)
			three.Attempts = 3
			b.mustTake(4, three)
			b.Release(number(1).ID, 4)
			if err := b.Stop(t.Context()); err != nil {
				t.Error(err)
			}
			shared.want(t, "1:m1 free 4")
			c.mustTake(5, number(1))
		},
		"the next process of a machine goes on": func(t *testing.T, shared *sharedRefs, a, b, c *testMachine) {
			a.mustTake(1, number(1), number(2))
			a.handle(number(1).ID)
			a = a.restart()
			defer a.die()
			shared.want(t, "2:m0 ahead 0")
			a.mustTake(1, number(2))
			shared.want(t, "2:m0 working 1")
		},
		"a copy of the machine waits while the process lives": func(t *testing.T, shared *sharedRefs, a, b, c *testMachine) {
			a.mustTake(1, number(1))
			d := startMachine(t, shared, "copy", a.workspace)
			defer d.die()
			d.mustNotTake("m0", number(1))
			a.mustTake(2, number(1))
		},
		"another machine removes the claim on a handled message": func(t *testing.T, shared *sharedRefs, a, b, c *testMachine) {
			a.mustTake(1, number(1))
			a.set(func() { a.handled = append(a.handled, number(1).ID) })
			if err := a.sync(t.Context()); err != nil {
				t.Fatal(err)
			}
			a.die()
			if err := syncNow(t.Context(), b.Claims); err != nil {
				t.Fatal(err)
			}
			time.Sleep(testLease - 5*time.Second)
			shared.want(t, "1:m0 working 1")
			time.Sleep(10 * time.Second)
			shared.want(t)
		},
		"refs that are not claims": func(t *testing.T, shared *sharedRefs, a, b, c *testMachine) {
			shared.mu.Lock()
			shared.objects[claimRef("codex", number(1).ID)] = "garbage"
			shared.objects[claimRefs+"codex/-rf"] = "garbage"
			shared.mu.Unlock()
			a.mustNotTake("", number(1))
			a.mustTake(1, number(2))
			time.Sleep(testLease)
			a.mustTake(1, number(1))
			if len(a.warnings) != 1 {
				t.Errorf("warnings: %q, want one about the message", a.warnings)
			}
		},
		"messages that were taken ahead do not wait forever": func(t *testing.T, shared *sharedRefs, a, b, c *testMachine) {
			a.mustTake(1, number(1), number(2))
			time.Sleep(testLease / 2)
			shared.want(t, "1:m0 working 1", "2:m0 ahead 0")
			time.Sleep(testLease)
			shared.want(t, "1:m0 working 1")
			b.mustTake(1, number(2))
		},
		"a stop gives everything up": func(t *testing.T, shared *sharedRefs, a, b, c *testMachine) {
			a.mustTake(1, number(1), number(2), number(3))
			a.handle(number(1).ID)
			a.mustTake(1, number(2))
			a.Release(number(2).ID, 0)
			if err := a.Stop(t.Context()); err != nil {
				t.Error(err)
			}
			shared.want(t)
			if shared.pending[number(1).ID] {
				t.Error("the message is still pending")
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				shared, m := newMachines(t, 3, 9)
				synctest.Wait() // tests change what the machines read when they start
				scenario(t, shared, m[0], m[1], m[2])
				for _, one := range m {
					one.die()
				}
			})
		})
	}
}

// TestClaimRace has machines handle messages at the same time. Some die, and their next processes go on.
func TestClaimRace(t *testing.T) {
	for _, batch := range []int{1, 5} {
		t.Run(fmt.Sprint(batch), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const messages = 60
				shared, machines := newMachines(t, 3, messages)
				var mu sync.Mutex
				turns := make(map[schema.ID]int)
				var working sync.WaitGroup
				for i, m := range machines {
					working.Go(func() {
						for len(m.left()) > 0 {
							m = m.workOne(i, batch, func(id schema.ID) {
								mu.Lock()
								defer mu.Unlock()
								turns[id]++
							})
						}
						if err := m.Stop(t.Context()); err != nil {
							t.Error(err)
						}
					})
				}
				working.Wait()
				for i := range messages {
					if n := turns[number(i+1).ID]; n != 1 {
						t.Errorf("%s was handled %d times", number(i+1).ID, n)
					}
				}
				shared.want(t)
			})
		})
	}
}

// left returns the messages that are pending as far as the machine knows, in order.
func (m *testMachine) left() (wanted []Wanted) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range 100 {
		if m.pending[number(i).ID] {
			wanted = append(wanted, number(i))
		}
	}
	return wanted
}

// workOne handles one message, or waits. Sometimes the machine dies and comes back.
func (m *testMachine) workOne(seed, batch int, handled func(schema.ID)) *testMachine {
	var wanted []Wanted
	for _, w := range m.left() {
		if other, _ := m.Other(w.ID); other == nil && len(wanted) < batch {
			wanted = append(wanted, w)
		}
	}
	if len(wanted) == 0 {
		time.Sleep(time.Second)
		if err := syncNow(m.t.Context(), m.Claims); err != nil {
			m.t.Error(err)
		}
		return m
	}
	attempt, _, err := m.take(wanted...)
	if err != nil {
		return m // another machine was faster
	}
	if !m.isPending(m.t.Context(), wanted[0].ID) {
		m.Done(wanted[0].ID)
		return m
	}
	time.Sleep(time.Duration(100*(seed+1)) * time.Millisecond)
	if last := wanted[0].ID[len(wanted[0].ID)-1]; attempt == 1 && int(last)%3 == seed {
		return m.restart()
	}
	if err := m.Confirm(m.t.Context(), wanted[0].ID); err != nil {
		m.t.Errorf("confirming %s: %v", wanted[0].ID, err)
		return m
	}
	handled(wanted[0].ID)
	m.handle(wanted[0].ID)
	return m
}
