package gitmail

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/oacp-go/oacp/schema"
)

// Bounds of claims.
const (
	DefaultLease = 5 * time.Minute
	// MinLease is the shortest lease: a renewal has to fit into a third of it. MaxLease bounds for how
	// long others wait for a machine that is gone.
	MinLease = time.Second
	MaxLease = 24 * time.Hour
	// MaxBatch is how many messages Take takes at most.
	MaxBatch = 100
)

var (
	// ErrNoRemote says that a repository has no remote, where other machines would see claims.
	ErrNoRemote = errors.New("the git repository of the workspace has no remote")
	// ErrNotPending says that a message is no longer in the inbox: it was handled elsewhere.
	ErrNotPending = errors.New("the message is no longer in the inbox")
	// ErrClaimLost says that this machine lost a claim, or that another machine may soon take it.
	ErrClaimLost = errors.New("the claim on the message is lost")
)

// ElsewhereError says that another machine has a message.
type ElsewhereError struct{ Claim Claim }

// Error names the machine, if it is known.
func (e *ElsewhereError) Error() string {
	if e.Claim.Machine == "" {
		return "another machine has the message"
	}
	return e.Claim.Machine + " has the message"
}

// ClaimOptions say how claims are made.
type ClaimOptions struct {
	// Agent is the agent whose inbox is worked.
	Agent schema.AgentName
	// Lease is how long a claim holds without a renewal; see DefaultLease.
	Lease time.Duration
	// Sync are the options of the syncs that claims need.
	Sync Options
}

// Wanted is a message to be claimed.
type Wanted struct {
	ID schema.ID
	// File is its name in the inbox.
	File string
	// Attempts is how many turns on it began here.
	Attempts int
}

// Claims let one of several machines that work an inbox have a message. A claim is a ref on the remote
// that only one machine can create. It is renewed while it is held, and deleted after the
// acknowledgement of the message is on the remote. A claim that stays the same for a whole lease, on the
// clock of the machine that looks, belongs to a machine that is gone, and may be taken.
//
// The methods note what the refs are to say, and put makes the remote agree. Take and Confirm wait for
// it. Four goroutines do the rest, because a sync may take long, and a remote may hang: renew renews
// claims, finish syncs and gives claims up, watch looks at those of other machines, and expire stops turns.
//
// The methods may be called from any goroutine, between Start and Stop.
type Claims struct {
	agent                       schema.AgentName
	lease                       time.Duration
	machine, workspace, process string

	refs claimStore
	// sync brings the workspace in step with the remote, pending reports whether a file is in the inbox,
	// and inbox returns the messages there.
	sync    func(context.Context) error
	pending func(file string) bool
	inbox   func(context.Context) (map[schema.ID]bool, error)
	// now returns the time that claims publish, with a monotonic reading.
	now  func() time.Time
	warn func(error)

	changed chan struct{}
	// pushing holds a value during a push.
	pushing chan struct{}
	stop    context.CancelFunc
	running sync.WaitGroup

	mu      sync.Mutex
	counter uint64
	// held are the claims that this process has, takes or gives up.
	held map[schema.ID]*heldClaim
	// seen are the other claims that the last sync fetched, by ref.
	seen map[string]*sighting
	// synced is when the last successful sync began.
	synced time.Time
}

// claimStore is where claims are: gitRefs, or memory in a test.
type claimStore interface {
	// push sets the objects of the updates. It returns no results if it could not make them.
	push(ctx context.Context, updates []refUpdate) ([]refResult, error)
	// remote returns the objects of the refs on the remote that begin with the prefix, and local the claims on
	// those that the last sync fetched.
	remote(ctx context.Context, prefix string) (map[string]string, error)
	local(ctx context.Context, prefix string) ([]Claim, error)
}

// heldClaim is a claim that this process has, takes or gives up. Its fields are guarded by Claims.mu. State is
// what the ref is to say, Object is where it is on the remote, as far as known, and Renewed is when the put
// began that last renewed it.
type heldClaim struct {
	Claim
	// file is the message's name in the inbox.
	file string
	// turns is how many turns on the message began before the present one.
	turns int
	// ours says that this process made the object.
	ours bool
	// tried are the pushes since then whose results are not known.
	tried []refUpdate
	// endTurn ends the context of the turn. It is nil before a turn begins.
	endTurn context.CancelCauseFunc
	// done is when the message was handled. The claim ends after a later sync.
	done time.Time
}

// claimGone is the state of a claim whose ref is to be deleted.
const claimGone ClaimState = ""

func (h *heldClaim) isEnding() bool { return h.State == claimGone || h.State == ClaimFree }

// sighting is a claim that others may hold. Its times are by the clock of this machine.
type sighting struct {
	claim Claim
	// until is when the claim ends unless it changes, and sweep when to check that its message is pending.
	until, sweep time.Time
}

// Changed gets a value after what Other returns may have changed.
func (c *Claims) Changed() <-chan struct{} { return c.changed }

func (c *Claims) signal() {
	select {
	case c.changed <- struct{}{}:
	default: // it has one
	}
}

// Other returns the claim of another machine on a message, as far as it is known here, and until when it
// holds unless it is renewed. It returns nil if this machine may try to take the message.
func (c *Claims) Other(id schema.ID) (claim *Claim, until time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.other(id)
}

func (c *Claims) other(id schema.ID) (*Claim, time.Time) {
	s := c.seen[claimRef(c.agent, id)]
	switch {
	case s == nil, c.held[id] != nil, !time.Now().Before(s.until):
		return nil, time.Time{}
	case s.claim.Err == nil && (s.claim.State == ClaimFree || s.claim.workspace == c.workspace):
		return nil, time.Time{}
	}
	claim := s.claim
	return &claim, s.until
}

// Take takes the first message for a turn that begins now. If that takes a push, it also takes the others,
// ahead of their turns; some of them may be lost. It returns the number of the turn, counted across all
// machines, and a context that ends if the claim is lost.
//
// The error is an *ElsewhereError if another machine has the message, and ErrNotPending if it was
// handled. Other errors say that the remote could not be reached.
func (c *Claims) Take(ctx context.Context, wanted []Wanted) (attempt int, held context.Context, err error) {
	const rounds = 3 // what is known here of a claim may be old
	for range rounds {
		claims, err := c.want(wanted)
		if err == nil && len(claims) > 0 {
			err = c.win(ctx, claims)
		}
		if err != nil {
			return 0, nil, err
		}
		if attempt, held := c.begin(ctx, wanted[0]); held != nil {
			return attempt, held, nil
		}
	}
	return 0, nil, &ElsewhereError{}
}

// want returns the claims to push: that on the first message, and those on the others that no machine is
// known to have. It returns none if this machine has the first.
func (c *Claims) want(wanted []Wanted) (claims []*heldClaim, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, w := range wanted {
		h := c.held[w.ID]
		switch other, _ := c.other(w.ID); {
		case i == 0 && other != nil:
			return nil, &ElsewhereError{Claim: *other}
		case i > 0 && (other != nil || h != nil):
			continue
		case h == nil:
			h = c.hold(w.ID)
			h.State, h.file, h.turns = ClaimAhead, w.File, max(h.turns, w.Attempts)
		}
		if i == 0 {
			h.State, h.done = ClaimWorking, time.Time{} // it may have been given up
			if c.isFresh(h) {
				return nil, nil
			}
		}
		claims = append(claims, h)
	}
	return claims, nil
}

// hold returns a new claim on a message. Its ref is where it was last seen.
func (c *Claims) hold(id schema.ID) *heldClaim {
	h := &heldClaim{Claim: Claim{
		Agent: c.agent, ID: id, Machine: c.machine, Since: c.now(), Lease: c.lease, workspace: c.workspace, process: c.process,
		Ref: claimRef(c.agent, id),
	}}
	if s := c.seen[h.Ref]; s != nil {
		h.Object, h.turns = s.claim.Object, s.claim.Attempt
	}
	c.held[id] = h
	return h
}

// win asks the remote for claims, and then for what has happened to their messages: one may have been
// handled between the last sync and the claim. The error is about the first one.
func (c *Claims) win(ctx context.Context, claims []*heldClaim) error {
	first := claims[0]
	ending, _ := c.ending(0)
	err := c.put(ctx, append(ending, claims...))
	c.mu.Lock()
	if c.held[first.ID] != first || c.isFresh(first) {
		err = nil // it is about another claim, which can wait
	}
	c.mu.Unlock()
	if err == nil {
		err = c.syncNow(ctx)
	}
	for _, h := range claims {
		isPending := c.pending(h.file)
		c.mu.Lock()
		if c.held[h.ID] == h && h.endTurn == nil && (!h.ours || !isPending || err != nil) {
			h.giveBack(h.turns)
		}
		c.mu.Unlock()
	}
	if err == nil && !c.pending(first.file) {
		err = ErrNotPending
	}
	return err
}

// begin begins a turn if this machine has the claim on the message.
func (c *Claims) begin(ctx context.Context, w Wanted) (attempt int, held context.Context) {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := c.held[w.ID]
	if h == nil || !c.isFresh(h) {
		return 0, nil
	}
	if h.endTurn != nil {
		h.endTurn(nil)
		h.turns++
	}
	h.State, h.turns = ClaimWorking, max(h.turns, w.Attempts)
	held, h.endTurn = context.WithCancelCause(ctx)
	return h.turns + 1, held
}

// Confirm makes sure that no other machine has taken over a message, or will do so within the next third
// of the lease. It waits for a remote that does not answer. The error is ErrClaimLost or that of the context.
func (c *Claims) Confirm(ctx context.Context, id schema.ID) error {
	for {
		c.mu.Lock()
		h := c.held[id]
		isFresh := h != nil && c.isFresh(h)
		c.mu.Unlock()
		switch {
		case h == nil:
			return errTakenOver
		case isFresh:
			return nil
		}
		if c.put(ctx, []*heldClaim{h}) != nil {
			if err := pause(ctx, c.retryDelay()); err != nil {
				return err
			}
		}
	}
}

// isFresh reports whether a claim was renewed less than half a lease ago: then no other machine can have it.
func (c *Claims) isFresh(h *heldClaim) bool { return h.ours && c.age(h.Renewed) < c.lease/2 }

// age returns how long ago a time was. A clock that was set, or stood still while the machine slept, makes
// a time older and never younger.
func (c *Claims) age(t time.Time) time.Duration {
	now := c.now()
	return max(now.Sub(t), now.Round(0).Sub(t.Round(0)).Abs())
}

// Done gives up a claim after its message left the inbox, as soon as the remote has the acknowledgement.
func (c *Claims) Done(id schema.ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if h := c.held[id]; h != nil && !h.isEnding() {
		h.giveBack(0)
		h.done = time.Now()
	}
}

// Release gives up a claim although the message stays in the inbox, and records how many turns it had.
func (c *Claims) Release(id schema.ID, turns int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if h := c.held[id]; h != nil && !h.isEnding() {
		h.giveBack(max(turns, h.turns))
	}
}

// giveBack ends the turn, if there is one, and lets other machines take the message. The ref is to say how
// many turns there were, and to be deleted if there were none.
func (h *heldClaim) giveBack(turns int) {
	if h.endTurn != nil {
		h.endTurn(nil)
		h.endTurn = nil
	}
	if h.State, h.turns = ClaimFree, turns; turns == 0 {
		h.State = claimGone
	}
}
