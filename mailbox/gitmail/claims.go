package gitmail

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/git"
	"github.com/oacp-go/oacp/internal/process"
	"github.com/oacp-go/oacp/schema"
)

// Bounds of leases. A lease is how long a claim holds unless it is renewed. A renewal has to fit into a third of it.
const (
	DefaultLease = 5 * time.Minute
	MinLease     = time.Second
	MaxLease     = 24 * time.Hour
)

const (
	// claimTick is the longest time between two rounds. A claim on a handled message ends with the next round, or
	// with the push of the next claim that is taken.
	claimTick = time.Second
	// maxRetry is the longest pause after a remote did not answer, however long the lease is.
	maxRetry = 10 * time.Second
	// mostRounds is how often settle and Take try, and roundPause the pause after a failure: a remote may refuse a push
	// because of another one at the same moment.
	mostRounds = 3
	roundPause = 200 * time.Millisecond
)

var (
	// ErrNoRemote says that a repository has no remote, which claims need.
	ErrNoRemote = failure.New("no_remote", "the git repository of the workspace has no remote", "oacp init --git --remote NAME-OR-URL adds one")
	// ErrElsewhere says that another machine has a message.
	ErrElsewhere = errors.New("another machine has the message")
	// ErrClaimLost says that this machine lost a claim, or that another machine may soon take it.
	ErrClaimLost = errors.New("the claim on the message is lost")
	errTakenOver = fmt.Errorf("%w: another machine has taken the message over", ErrClaimLost)
)

// Wanted is a message to claim, and how many turns on it began here.
type Wanted struct {
	ID       schema.ID
	Attempts int
}

// Claims make sure that of several machines that work on an inbox, only one works on a message. A claim is a ref on the
// remote that only one machine can create. That machine renews it while it needs it, and deletes it once the
// acknowledgement of the message is on the remote. If a claim stays the same for a whole lease, as measured by another
// machine, its machine is gone, and the other one may take the message.
//
// The methods change a list of wanted claims, and rounds update the remote to the list. One goroutine makes rounds to
// renew claims and to give them up. A timer ends a turn whose claim is not renewed, even while the remote hangs.
//
// The methods may be called from any goroutine between Start and Stop.
type Claims struct {
	agent                       schema.AgentName
	lease                       time.Duration
	machine, workspace, process string
	store                       claimStore
	// ended reports whether the process of a claim of this workspace has ended.
	ended func(process string) bool
	// now returns the time that claims publish, with a monotonic reading.
	now     func() time.Time
	warn    func(error)
	changed chan struct{}
	// busy holds a value during a round.
	busy    chan struct{}
	stop    context.CancelFunc
	running sync.WaitGroup

	mu sync.Mutex
	// held is the list of claims that this process has, takes or gives up. seen are all claims that the last sync
	// fetched.
	held map[schema.ID]*heldClaim
	seen map[schema.ID]sighting
	// earlier is what an earlier process saw.
	earlier map[schema.ID]observation
	// synced is when the last successful sync began, and counter counts rounds.
	synced  time.Time
	counter uint64
}

// claimStore is where claims are: gitClaims, or memory in a test.
type claimStore interface {
	// sync syncs the workspace, and isPending reports whether a message is in the inbox.
	sync(ctx context.Context) error
	isPending(ctx context.Context, id schema.ID) bool
	// commit makes the commit of a claim. push makes updates, and reports for each whether it moved the ref. The error
	// says why refs did not move, unless another machine had moved them.
	commit(ctx context.Context, c Claim) (object string, err error)
	push(ctx context.Context, updates []git.Update) (moved []bool, err error)
	// ListClaims returns the claims that the last sync fetched.
	ListClaims(ctx context.Context) ([]Claim, error)
	// remember keeps when claims were first seen, for the next process of this workspace.
	remember(seen map[schema.ID]observation) error
}

// An observation is when a process of this workspace first saw an object at the ref of a claim. The time counts from the start of the
// machine.
type observation struct {
	Object string        `json:"object"`
	First  time.Duration `json:"first_ns"`
}

// heldClaim is a claim in the list. State is the wanted state. Object is what the ref on the remote points to, as far as
// that is known. Renewed is when the push began that last renewed the claim. Attempt counts the turns before the current one.
type heldClaim struct {
	Claim
	// ours says that this process made Object, or has to remove it.
	ours bool
	// sent is the claim of the last push. inDoubt says that only a sync can tell whether that arrived.
	sent    Claim
	inDoubt bool
	// endTurn ends the context of the turn, and expiry calls it. They are nil before a turn.
	endTurn context.CancelCauseFunc
	expiry  *time.Timer
	// done is when the message was handled. The claim ends after a later sync.
	done time.Time
}

// sighting is a claim that the last sync fetched. The claim ends at the time until, unless it changes before. At the time
// check, its message may no longer be pending. Both are times of this machine's clock.
type sighting struct {
	claim        Claim
	until, check time.Time
	first        time.Duration // as in observation
}

func newClaims(agent schema.AgentName, lease time.Duration, store claimStore, workspace string) *Claims {
	return &Claims{
		agent: agent, lease: cmp.Or(lease, DefaultLease), machine: hostName(), workspace: workspace, process: process.Mark(), ended: process.Ended,
		store: store, now: time.Now, changed: make(chan struct{}, 1), busy: make(chan struct{}, 1), held: make(map[schema.ID]*heldClaim),
	}
}

// Start begins to keep claims, and gives up those that an earlier process of this workspace left on
// messages that it handled. It calls warn about refs that hold no claim and about a remote that does not
// answer. Start returns an error if it could not reach the remote, but keeps claims even then.
func (c *Claims) Start(ctx context.Context, warn func(error)) error {
	c.warn = warn
	err := c.settle(ctx)
	kept, stop := context.WithCancel(context.WithoutCancel(ctx))
	c.stop = stop
	c.running.Go(func() { c.keep(kept) })
	return err
}

// Stop gives all claims up, after a sync if messages were handled since the last one.
func (c *Claims) Stop(ctx context.Context) error {
	c.stop()
	c.running.Wait()
	c.mu.Lock()
	for _, h := range c.held {
		if h.endTurn != nil {
			h.Attempt++
		}
		h.giveBack(h.Attempt, time.Time{})
	}
	isDone := len(c.held) == 0
	c.mu.Unlock()
	if isDone {
		return nil
	}
	return c.settle(ctx)
}

// Changed gets a value after what Other returns may have changed.
func (c *Claims) Changed() <-chan struct{} { return c.changed }

func (c *Claims) signal() {
	select {
	case c.changed <- struct{}{}:
	default: // it has one
	}
}

// Other returns the claim of another machine on a message as of the last sync, and until when it holds unless it is
// renewed. It returns nil if this machine may try to take the message.
func (c *Claims) Other(id schema.ID) (claim *Claim, until time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.seen[id]; c.isElsewhere(id) {
		return new(s.claim), s.until
	}
	return nil, time.Time{}
}

func (c *Claims) isElsewhere(id schema.ID) bool {
	return c.held[id] == nil && time.Now().Before(c.seen[id].until)
}

// Take claims the first message for a turn that begins now. If that needs a push, Take also claims the others ahead of
// their turns, but other machines may get some of them. It returns the number of the turn, counted across all machines,
// and a context that ends if the claim is lost. The caller must check that the message is still in the inbox: another
// machine may have handled it. The error is ErrElsewhere if another machine has the message; other errors say that the
// remote could not be reached.
func (c *Claims) Take(ctx context.Context, wanted []Wanted) (attempt int, held context.Context, err error) {
	limited, cancel := c.limit(ctx)
	defer cancel()
	for round := 0; ; round++ { // what is known here of a claim may be old, and a remote may refuse because of another push
		if attempt, held = c.begin(ctx, wanted[0]); held != nil {
			return attempt, held, nil // an error was about other messages, which can wait
		}
		if round == mostRounds || limited.Err() != nil {
			return 0, nil, cmp.Or(err, ErrElsewhere)
		}
		if err != nil {
			_ = pause(limited, roundPause) // the check above sees its end
		}
		if err = c.want(wanted); err != nil {
			return 0, nil, err
		}
		_, err = c.round(limited)
	}
}

// want puts claims into the list: the first one, and others that no other machine seems to have.
func (c *Claims) want(wanted []Wanted) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, w := range wanted {
		h := c.held[w.ID]
		if h == nil && !c.isElsewhere(w.ID) {
			h = c.hold(w)
		}
		switch {
		case i == 0 && h == nil:
			return ErrElsewhere
		case i == 0:
			h.State, h.Since = ClaimWorking, c.now() // it may have been given up
		}
	}
	return nil
}

// hold puts a claim on a message into the list. Its ref is where it was last seen.
func (c *Claims) hold(w Wanted) *heldClaim {
	there := c.seen[w.ID].claim
	h := &heldClaim{Claim: Claim{
		Agent: c.agent, ID: w.ID, Ref: claimRef(c.agent, w.ID), Object: there.Object, Machine: c.machine, Workspace: c.workspace, Process: c.process,
		State: ClaimAhead, Attempt: max(w.Attempts, there.Attempt), Since: c.now(), Lease: c.lease,
	}}
	c.held[w.ID] = h
	return h
}

// begin begins a turn if this machine has the claim on the message.
func (c *Claims) begin(ctx context.Context, w Wanted) (attempt int, held context.Context) {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := c.held[w.ID]
	if h == nil || c.age(h.Renewed) >= c.lease/2 {
		return 0, nil
	}
	if h.endTurn != nil {
		h.endTurn(nil)
		h.Attempt++
	}
	h.State, h.Attempt = ClaimWorking, max(h.Attempt, w.Attempts)
	held, cancel := context.WithCancelCause(ctx)
	h.endTurn = cancel
	h.expiry = time.AfterFunc(c.rest(h), func() { cancel(fmt.Errorf("%w: it could not be renewed for %v", ErrClaimLost, c.lease*2/3)) })
	return h.Attempt + 1, held
}

// Confirm makes sure that no other machine has taken over a message, or can do so within the next third
// of the lease. It waits while the remote does not answer. The error is ErrClaimLost or that of the context.
func (c *Claims) Confirm(ctx context.Context, id schema.ID) error {
	for {
		c.mu.Lock()
		h := c.held[id]
		isFresh := h != nil && c.age(h.Renewed) < c.lease/2
		c.mu.Unlock()
		switch {
		case h == nil:
			return errTakenOver
		case isFresh:
			return nil
		}
		if c.settle(ctx) != nil {
			if err := pause(ctx, c.retryDelay()); err != nil {
				return err
			}
		}
	}
}

// rest returns how long a turn may still go on without a renewal.
func (c *Claims) rest(h *heldClaim) time.Duration { return c.lease*2/3 - c.now().Sub(h.Renewed) }

// age returns how long ago a time was. If the clock was set, or stood still while the machine slept, the age may be too
// large, but not too small.
func (c *Claims) age(t time.Time) time.Duration {
	now := c.now()
	return max(now.Sub(t), now.Round(0).Sub(t.Round(0)).Abs())
}

// Done gives up a claim on a message that was handled, once the remote has the acknowledgement.
func (c *Claims) Done(id schema.ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if h := c.held[id]; h != nil {
		h.giveBack(0, time.Now())
	}
}

// Release gives up a claim on a message that stays in the inbox, and records how many turns it had.
func (c *Claims) Release(id schema.ID, turns int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if h := c.held[id]; h != nil {
		h.giveBack(max(turns, h.Attempt), time.Time{})
	}
}

// giveBack ends the turn, if there is one, and lets other machines take the message. The ref keeps the number of
// turns, and is deleted if that is 0.
func (h *heldClaim) giveBack(turns int, done time.Time) {
	if h.State.isEnding() {
		return
	}
	if h.endTurn != nil {
		h.endTurn(nil)
		h.endTurn = nil
	}
	h.State, h.Attempt, h.done = ClaimFree, turns, done
	if turns == 0 {
		h.State = claimGone
	}
}
