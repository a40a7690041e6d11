package gitmail

import (
	"cmp"
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
// The methods may be called from any goroutine, between Start and Stop.
type Claims struct {
	agent                       schema.AgentName
	lease                       time.Duration
	machine, workspace, process string

	refs claimStore
	// sync brings the workspace in step with the remote, pending reports whether a file is in the inbox,
	// and inbox returns the messages there.
	sync    func(context.Context) error
	pending func(file string) (bool, error)
	inbox   func(context.Context) (map[schema.ID]bool, error)
	// wall returns the time that claims publish. Leases are measured with time.Since.
	wall func() time.Time
	warn func(error)

	changed chan struct{}
	// taking is held while claims are taken or given up, and pushing during a push.
	taking, pushing semaphore
	// renewals and ends wake the goroutines that renew claims and give them up.
	renewals, ends chan struct{}
	stop           context.CancelFunc
	running        sync.WaitGroup

	mu      sync.Mutex
	counter uint64
	held    map[schema.ID]*heldClaim
	// ending are claims to be given up.
	ending []*heldClaim
	seen   map[schema.ID]*sighting
	// strange are the refs that are no claims, by name and object, so that each is reported once.
	strange map[string]string
	// synced is when the last successful sync began.
	synced time.Time
}

// claimStore is where claims are: gitRefs, or memory in a test.
type claimStore interface {
	write(ctx context.Context, text string, at time.Time) (object string, err error)
	push(ctx context.Context, updates []refUpdate) ([]refResult, error)
	remote(ctx context.Context, prefix string) (map[string]string, error)
	local(ctx context.Context, prefix string) ([]Claim, error)
}

// heldClaim is a claim that this process has, takes or gives up. Its fields are guarded by Claims.mu.
type heldClaim struct {
	Wanted
	ref     string
	state   ClaimState
	attempt int
	// object is where the ref is on the remote, as far as known. tried are the objects to which pushes
	// with an unknown result may have moved it.
	object string
	tried  []string
	// ours says that the claim was won, and lost that another machine has it now.
	ours, lost bool
	// taken is when this process won the claim, and renewed when the last successful push began. since and
	// published are the same two times as claims publish them. isNew says that no other push followed.
	taken, since, renewed, published time.Time
	isNew                            bool
	// cancel stops the turn.
	cancel context.CancelCauseFunc
	// done is when the message was handled; then the claim ends after a later sync.
	done time.Time
	// remove says that the ref is to be deleted.
	remove bool
}

// sighting is a claim as it is in the repository since a time.
type sighting struct {
	claim Claim
	since time.Time
	// checked is when the claim was last found to be on a message that is pending.
	checked time.Time
}

// A semaphore is a lock. A context can end the wait for it.
type semaphore chan struct{}

func (s semaphore) lock(ctx context.Context) error {
	select {
	case s <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (s semaphore) unlock() { <-s }

// signal wakes the goroutine that waits on the channel, now or later.
func signal(wake chan struct{}) {
	select {
	case wake <- struct{}{}:
	default:
	}
}

// Changed gets a value after what Other returns may have changed.
func (c *Claims) Changed() <-chan struct{} { return c.changed }

// Other returns the claim of another machine on a message, as far as it is known here, and until when it
// holds unless it is renewed. It returns nil if this machine may try to take the message.
func (c *Claims) Other(id schema.ID) (claim *Claim, until time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.other(id)
}

func (c *Claims) other(id schema.ID) (*Claim, time.Time) {
	s := c.seen[id]
	if s == nil || c.held[id] != nil || s.claim.Err == nil && (s.claim.State == ClaimFree || s.claim.workspace == c.workspace) {
		return nil, time.Time{}
	}
	until := s.since.Add(c.leaseOf(&s.claim))
	if !time.Now().Before(until) {
		return nil, time.Time{}
	}
	claim := s.claim
	return &claim, until
}

// leaseOf returns how long a claim holds. A ref that holds no claim delays a message for our own lease.
func (c *Claims) leaseOf(claim *Claim) time.Duration {
	if claim.Err != nil {
		return c.lease
	}
	return claim.Lease
}

// Take takes the first message for a turn that begins now. If that takes a push, it also takes the others,
// ahead of their turns; some of them may be lost. It returns the number of the turn, counted across all
// machines, and a context that ends if the claim is lost.
//
// The error is an *ElsewhereError if another machine has the message, and ErrNotPending if it was
// handled. Other errors say that the remote could not be reached.
func (c *Claims) Take(ctx context.Context, wanted []Wanted) (attempt int, held context.Context, err error) {
	if err := c.taking.lock(ctx); err != nil {
		return 0, nil, err
	}
	defer c.taking.unlock()
	const rounds = 3 // what is known here of a claim may be old
	for range rounds {
		if h := c.revive(wanted[0]); h != nil {
			if err := c.confirm(ctx, h); !errors.Is(err, ErrClaimLost) {
				if err != nil {
					return 0, nil, err
				}
				attempt, held = c.begin(ctx, h, wanted[0].Attempts)
				return attempt, held, nil
			}
		}
		if other, _ := c.Other(wanted[0].ID); other != nil {
			return 0, nil, &ElsewhereError{Claim: *other}
		}
		if err := c.takeNew(ctx, wanted); err != nil {
			return 0, nil, err
		}
		switch is, err := c.pending(wanted[0].File); {
		case err != nil:
			return 0, nil, err
		case !is:
			return 0, nil, ErrNotPending
		}
	}
	return 0, nil, &ElsewhereError{}
}

// revive returns the claim on a message if this machine has it, also if it was to be given up.
func (c *Claims) revive(w Wanted) *heldClaim {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, h := range c.ending {
		if h.ID == w.ID && h.ours && !h.lost {
			c.ending = append(c.ending[:i:i], c.ending[i+1:]...)
			h.done, h.remove, h.File = time.Time{}, false, w.File
			c.held[h.ID] = h
			break
		}
	}
	return c.held[w.ID]
}

// begin marks a claim as that of a turn.
func (c *Claims) begin(ctx context.Context, h *heldClaim, attempts int) (int, context.Context) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if h.state != ClaimWorking || h.cancel != nil { // else it was taken for this turn
		h.attempt = max(attempts, h.attempt) + 1
	}
	h.state = ClaimWorking
	held, cancel := context.WithCancelCause(ctx)
	if h.cancel != nil {
		h.cancel(nil)
	}
	h.cancel = cancel
	signal(c.renewals)
	return h.attempt, held
}

// takeNew asks the remote for all messages that this machine may take, and then for what has happened to
// them: a message may have been handled between the last sync and the claim.
func (c *Claims) takeNew(ctx context.Context, wanted []Wanted) error {
	claims := c.candidates(wanted)
	if len(claims) == 0 {
		return nil // another machine took it a moment ago
	}
	err := c.put(ctx, append(claims, c.endable()...))
	c.forgetEnded()
	c.mu.Lock()
	for _, h := range claims {
		if h.ours && !h.lost {
			c.held[h.ID] = h
		}
	}
	c.mu.Unlock()
	if claims[0].ours || claims[0].lost {
		err = nil // it is about another claim, which can wait
	}
	err = cmp.Or(err, c.syncNow(ctx))
	for _, h := range claims {
		is, pendingErr := c.pending(h.File)
		c.mu.Lock()
		switch {
		case !h.ours || h.lost:
			if len(h.tried) > 0 && !h.lost { // it may be ours after all
				h.remove = true
				c.endLater(h)
			}
		case err != nil || pendingErr != nil || !is:
			h.giveBack()
			c.endLater(h)
		}
		c.mu.Unlock()
	}
	signal(c.renewals)
	return err
}

// candidates returns the claims to take: that on the first message, and those on the others that no
// machine is known to have.
func (c *Claims) candidates(wanted []Wanted) (claims []*heldClaim) {
	c.mu.Lock()
	defer c.mu.Unlock()
	since := c.wall()
	for i, w := range wanted {
		if other, _ := c.other(w.ID); other != nil || c.held[w.ID] != nil {
			continue
		}
		h := &heldClaim{Wanted: w, ref: claimRef(c.agent, w.ID), state: ClaimAhead, attempt: w.Attempts, taken: time.Now(), since: since}
		if s := c.seen[w.ID]; s != nil {
			h.object, h.attempt = s.claim.Object, max(h.attempt, s.claim.Attempt)
		}
		if i == 0 {
			h.state = ClaimWorking
			h.attempt++
		}
		claims = append(claims, h)
	}
	return claims
}

// giveBack prepares a claim for its end. It keeps the number of turns on the message, if there were any.
// A first turn that never began does not count.
func (h *heldClaim) giveBack() {
	if h.state == ClaimWorking && h.cancel == nil {
		h.attempt--
	}
	h.free(h.attempt)
}

// free prepares a claim for its end, and records how many turns the message had.
func (h *heldClaim) free(turns int) {
	h.state, h.attempt, h.remove = ClaimFree, turns, turns == 0
}
