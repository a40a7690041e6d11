package gitmail

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/oacp-go/oacp/schema"
)

// Bounds of claims. A lease is how long a claim holds that is not renewed; a renewal has to fit into a third of it.
// Take takes at most MaxBatch messages.
const (
	DefaultLease = 5 * time.Minute
	MinLease     = time.Second
	MaxLease     = 24 * time.Hour
	MaxBatch     = 100
)

var (
	// ErrNoRemote says that a repository has no remote, where other machines would see claims.
	ErrNoRemote = errors.New("the git repository of the workspace has no remote")
	// ErrClaimLost says that this machine lost a claim, or that another machine may soon take it.
	ErrClaimLost = errors.New("the claim on the message is lost")
	errTakenOver = fmt.Errorf("%w: another machine has taken the message over", ErrClaimLost)
)

// ElsewhereError says that another machine has a message.
type ElsewhereError struct{ Claim Claim }

// Error names the machine, if it is known.
func (e *ElsewhereError) Error() string {
	return cmp.Or(e.Claim.Machine, "another machine") + " has the message"
}

// Wanted is a message to be claimed, and how many turns on it began here.
type Wanted struct {
	ID       schema.ID
	Attempts int
}

// Claims let one of several machines that work an inbox have a message. A claim is a ref on the remote
// that only one machine can create. It is renewed while it is held, and deleted after the
// acknowledgement of the message is on the remote. A claim that stays the same for a whole lease, on the
// clock of the machine that looks, belongs to a machine that is gone, and may be taken.
//
// The methods note in a list what the refs are to say. push makes the remote agree; one goroutine calls it, too, to
// renew claims and to give them up. A timer ends a turn whose claim is not renewed, also while the remote hangs.
//
// The methods may be called from any goroutine, between Start and Stop.
type Claims struct {
	agent                       schema.AgentName
	lease                       time.Duration
	machine, workspace, process string
	refs                        claimStore
	// sync syncs the workspace, and pending reports whether a message is in the inbox.
	sync    func(context.Context) error
	pending func(context.Context, schema.ID) bool
	// now returns the time that claims publish, with a monotonic reading.
	now     func() time.Time
	warn    func(error)
	changed chan struct{}
	// pushing holds a value during a push.
	pushing chan struct{}
	stop    context.CancelFunc
	running sync.WaitGroup

	mu      sync.Mutex
	counter uint64
	// held is the list: the claims that this process has, takes or gives up. seen are the others that the last
	// sync fetched, by ref.
	held map[schema.ID]*heldClaim
	seen map[string]*sighting
	// synced is when the last successful sync began.
	synced time.Time
}

// heldClaim is a claim in the list. State is what the ref is to say, Object where it is on the remote, as far as known,
// and Renewed when the push began that last renewed it.
type heldClaim struct {
	Claim
	// turns is how many turns on the message began before the present one.
	turns int
	// ours says that Object is of this process, or to be removed. tried are the objects of pushes since then whose
	// outcomes are not known.
	ours  bool
	tried []string
	// endTurn ends the context of the turn, and expiry calls it. They are nil before a turn.
	endTurn context.CancelCauseFunc
	expiry  *time.Timer
	// done is when the message was handled. The claim ends after a later sync.
	done time.Time
}

// claimGone is the state of a claim whose ref is to be deleted.
const claimGone ClaimState = ""

func (h *heldClaim) isEnding() bool { return h.State == claimGone || h.State == ClaimFree }

// Changed gets a value after what Other returns may have changed.
func (c *Claims) Changed() <-chan struct{} { return c.changed }

// Other returns the claim of another machine on a message, as far as it is known here, and until when it
// holds unless it is renewed. It returns nil if this machine may try to take the message.
func (c *Claims) Other(id schema.ID) (claim *Claim, until time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.other(id); s != nil {
		return new(s.claim), s.until
	}
	return nil, time.Time{}
}

func (c *Claims) other(id schema.ID) *sighting {
	if s := c.seen[claimRef(c.agent, id)]; s != nil && c.held[id] == nil && time.Now().Before(s.until) {
		return s
	}
	return nil
}

// Take takes the first message for a turn that begins now. If that takes a push, it also takes the others,
// ahead of their turns; some of them may be lost. It returns the number of the turn, counted across all
// machines, and a context that ends if the claim is lost. If the message was handled elsewhere before, it is no longer in the
// inbox. The error is an *ElsewhereError if another machine has the message; others say that the remote could not be reached.
func (c *Claims) Take(ctx context.Context, wanted []Wanted) (attempt int, held context.Context, err error) {
	const rounds = 3 // what is known here of a claim may be old
	for round := 0; ; round++ {
		if attempt, held = c.begin(ctx, wanted[0]); held != nil {
			return attempt, held, nil
		}
		if round == rounds {
			return 0, nil, &ElsewhereError{}
		}
		if err := c.win(ctx, wanted); err != nil {
			return 0, nil, err
		}
	}
}

// win asks the remote for claims on the first message and on the others that no machine is known to have, and then for
// what has happened to the messages: one may have been handled between the last sync and the claim. The error is about
// the first.
func (c *Claims) win(ctx context.Context, wanted []Wanted) error {
	claims, err := c.want(wanted)
	if err != nil {
		return err
	}
	if err = c.push(ctx, 0); err == nil || c.isFresh(claims[0]) { // otherwise the error is about others, which can wait
		err = c.syncNow(ctx)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, h := range claims {
		if err != nil && h.endTurn == nil {
			h.giveBack(h.turns)
		}
	}
	return err
}

// want puts claims into the list.
func (c *Claims) want(wanted []Wanted) (claims []*heldClaim, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, w := range wanted {
		h, other := c.held[w.ID], c.other(w.ID)
		switch {
		case i == 0 && other != nil:
			return nil, &ElsewhereError{Claim: other.claim}
		case i > 0 && (other != nil || h != nil):
			continue
		case h == nil:
			h = c.hold(w)
		}
		if i == 0 {
			h.State, h.done = ClaimWorking, time.Time{} // it may have been given up
		}
		claims = append(claims, h)
	}
	return claims, nil
}

// hold puts a claim on a message into the list. Its ref is where it was last seen.
func (c *Claims) hold(w Wanted) *heldClaim {
	h := &heldClaim{turns: w.Attempts, Claim: Claim{
		Agent: c.agent, ID: w.ID, Ref: claimRef(c.agent, w.ID), Machine: c.machine, State: ClaimAhead, Since: c.now(), Lease: c.lease,
		workspace: c.workspace, process: c.process,
	}}
	if s := c.seen[h.Ref]; s != nil {
		h.Object, h.turns = s.claim.Object, max(h.turns, s.claim.Attempt)
	}
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
		h.turns++
	}
	h.State, h.done, h.turns = ClaimWorking, time.Time{}, max(h.turns, w.Attempts)
	held, cancel := context.WithCancelCause(ctx)
	expiry := time.AfterFunc(c.rest(h), func() { cancel(fmt.Errorf("%w: it could not be renewed for %v", ErrClaimLost, c.lease*2/3)) })
	h.expiry, h.endTurn = expiry, func(cause error) {
		expiry.Stop()
		cancel(cause)
	}
	return h.turns + 1, held
}

// Confirm makes sure that no other machine has taken over a message, or will do so within the next third
// of the lease. It waits for a remote that does not answer. The error is ErrClaimLost or that of the context.
func (c *Claims) Confirm(ctx context.Context, id schema.ID) error {
	for {
		c.mu.Lock()
		h := c.held[id]
		c.mu.Unlock()
		switch {
		case h == nil:
			return errTakenOver
		case c.isFresh(h):
			return nil
		}
		if c.push(ctx, 0) != nil {
			if err := pause(ctx, c.retryDelay()); err != nil {
				return err
			}
		}
	}
}

// isFresh reports whether a claim is held and was renewed less than half a lease ago: then no other machine can have it.
func (c *Claims) isFresh(h *heldClaim) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.held[h.ID] == h && c.age(h.Renewed) < c.lease/2
}

// rest returns for how long a turn goes on whose claim is not renewed.
func (c *Claims) rest(h *heldClaim) time.Duration { return c.lease*2/3 - c.now().Sub(h.Renewed) }

// age returns how long ago a time was. A clock that was set, or stood still while the machine slept, makes
// a time older and never younger.
func (c *Claims) age(t time.Time) time.Duration {
	now := c.now()
	return max(now.Sub(t), now.Round(0).Sub(t.Round(0)).Abs())
}

// Done gives up a claim after its message left the inbox, as soon as the remote has the acknowledgement.
func (c *Claims) Done(id schema.ID) { c.giveUp(id, 0, time.Now()) }

// Release gives up a claim although the message stays in the inbox, and records how many turns it had.
func (c *Claims) Release(id schema.ID, turns int) { c.giveUp(id, turns, time.Time{}) }

func (c *Claims) giveUp(id schema.ID, turns int, done time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if h := c.held[id]; h != nil && !h.isEnding() {
		if done.IsZero() {
			turns = max(turns, h.turns)
		}
		h.giveBack(turns)
		h.done = done
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
