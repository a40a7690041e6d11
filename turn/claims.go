package turn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/gitmail"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn/track"
)

// Claims let several machines work the inbox of one agent: a message has its turn, or is given up, only
// while this machine has a claim on it. The claim is taken before the turn is recorded, confirmed before
// its success is, and given up after the message left the inbox. *gitmail.Claims are claims.
type Claims interface {
	// Start begins to keep claims, and Stop gives them all up. Start may warn at any time until then. Its
	// own error tells why other machines cannot be asked now.
	Start(ctx context.Context, warn func(error)) error
	Stop(ctx context.Context) error
	// Other returns the claim of another machine on a message, and until when it holds if it is not
	// renewed; nil if this machine may try to take the message. It does not ask other machines.
	Other(id schema.ID) (claim *gitmail.Claim, until time.Time)
	// Changed gets a value after what Other returns may have changed.
	Changed() <-chan struct{}
	// Take takes the first message for work that begins now, and may take the others ahead. It
	// returns the number of the turn among those on all machines, and a context that ends if the
	// claim is lost. The error is gitmail.ErrElsewhere, or says why other machines cannot be asked. If
	// the message was handled elsewhere before, it is no longer in the inbox.
	Take(ctx context.Context, wanted []gitmail.Wanted) (attempt int, held context.Context, err error)
	// Confirm makes sure that this machine still has the claim. Its error is gitmail.ErrClaimLost or that of
	// the context.
	Confirm(ctx context.Context, id schema.ID) error
	// Done gives up the claim on a message that left the inbox, and Release that on one that stays, after
	// so many turns. They do not block, and do nothing without a claim.
	Done(id schema.ID)
	Release(id schema.ID, turns int)
}

// startTime is how long a Runner that goes on waits for other machines at its start, and startTimeOnce how long one
// with Once does, which fails without them.
const (
	startTime     = 2 * time.Second
	startTimeOnce = 5 * time.Second
)

// An UnclaimedError ends a run with Once: without a claim no turn begins, and other machines could not be asked.
type UnclaimedError struct{ Err error }

// Error says why they could not be asked.
func (e *UnclaimedError) Error() string {
	return "no turn begins without a claim on its message: " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *UnclaimedError) Unwrap() error { return e.Err }

// stopTime is how long the claims may take to be given up when the Runner stops.
const stopTime = 10 * time.Second

// maxAway is the longest time until a remote is asked again that did not answer.
const maxAway = 10 * time.Second

// startClaims begins to keep claims. If other machines cannot be asked now, no turns begin until they can.
func (r *Runner) startClaims(ctx context.Context) error {
	if r.config.Claims == nil {
		return nil
	}
	limit := startTime
	if r.config.Once {
		limit = startTimeOnce
	}
	starting, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("the remote did not answer within %v", limit))
	defer cancel()
	err := r.config.Claims.Start(starting, func(err error) {
		r.events.publish(Event{Kind: EventWarning, Reason: err.Error(), Err: err})
	})
	if err == nil || ctx.Err() != nil {
		return err
	}
	r.pause(&UnclaimedError{cmp.Or(context.Cause(starting), err)})
	return r.stop
}

// stopClaims gives up all claims. If a signal stopped the Runner, a failure is only a warning.
func (r *Runner) stopClaims(ctx context.Context) error {
	if r.config.Claims == nil {
		return nil
	}
	stopping, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), stopTime, errors.New("the remote does not answer"))
	defer cancel()
	err := r.config.Claims.Stop(stopping)
	if err == nil {
		return nil
	}
	err = fmt.Errorf("other machines wait for the lease: giving up claims: %w", err)
	if ctx.Err() != nil {
		r.events.publish(Event{Kind: EventWarning, Reason: err.Error(), Err: err})
		return nil
	}
	return err
}

// claimsChanged is nil without claims.
func (r *Runner) claimsChanged() <-chan struct{} {
	if r.config.Claims == nil {
		return nil
	}
	return r.config.Claims.Changed()
}

// elsewhere returns the decision about a message that another machine has, if one has it.
func (r *Runner) elsewhere(it *item) (decision, bool) {
	if r.config.Claims == nil {
		return decision{}, false
	}
	claim, until := r.config.Claims.Other(it.ID)
	if claim == nil {
		return decision{}, false
	}
	d := decision{do: wait, at: until, kind: EventClaimedElsewhere, machine: claim.Machine, reason: claim.Machine + " has it"}
	if claim.Err != nil {
		d.reason = "another program has it: " + claim.Err.Error()
	}
	return d, true
}

// claimBatch is how many messages a run with Once claims at once: a push for each would take most of its time.
const claimBatch = 20

// ahead returns the messages that a run with Once claims together with one: those that are probably next.
func (r *Runner) ahead(it *item, now time.Time) []*item {
	if r.config.Claims == nil || !r.config.Once {
		return nil
	}
	var ahead []*item
	for _, next := range r.schedule.following(it) {
		if d := r.decide(next, now); d.do == try && !d.alone {
			ahead = append(ahead, next)
		}
		if len(ahead) == claimBatch-1 {
			break
		}
	}
	return ahead
}

// hold is this machine's claim on a message: a context that ends with the Runner's or with the claim, and
// the number of the turn among those on all machines. It is 0 without claims.
type hold struct {
	ctx     context.Context
	attempt int
}

// claimed carries out the decision about a message once this machine has the claim on it. The others are
// claimed ahead.
func (r *Runner) claimed(ctx context.Context, it *item, ahead []*item, do action) outcome {
	if r.config.Claims == nil {
		return r.worker.workOn(ctx, hold{ctx: ctx}, it, do)
	}
	wanted := make([]gitmail.Wanted, 0, len(ahead)+1)
	for _, next := range append([]*item{it}, ahead...) {
		rec, _ := r.journal.Get(next.Key)
		wanted = append(wanted, gitmail.Wanted{ID: next.ID, Attempts: rec.Attempts})
	}
	attempt, held, err := r.config.Claims.Take(ctx, wanted)
	switch {
	case err == nil && do == try:
		return r.worker.workOn(ctx, hold{held, attempt}, it, do)
	case err == nil:
		// An earlier turn had the claim, perhaps long ago.
		if r.config.Claims.Confirm(ctx, it.ID) != nil {
			return outcome{item: it}
		}
		return r.worker.workOn(ctx, hold{held, attempt}, it, do)
	case errors.Is(err, gitmail.ErrElsewhere), ctx.Err() != nil:
		return outcome{item: it} // it is decided again
	}
	return outcome{item: it, unavailable: &UnclaimedError{err}}
}

// confirm returns the error of a turn that has ended, nil if it succeeded. If another machine may have the
// message by now, confirm returns another error, which matches gitmail.ErrClaimLost: then the end of the
// turn is not recorded. Nothing can undo what the turn did. A turn that is over waits for a remote that
// does not answer.
func (k *worker) confirm(ctx context.Context, held hold, it *item, err error) error {
	if k.config.Claims == nil || ctx.Err() != nil {
		return err
	}
	if err != nil && held.ctx.Err() != nil {
		return context.Cause(held.ctx)
	}
	return cmp.Or(k.config.Claims.Confirm(ctx, it.ID), err)
}

// tooMany gives a message up that had all its turns, on machines that died in them.
func (k *worker) tooMany(it *item, m *schema.Message, turns int) outcome {
	rec, _ := k.journal.Get(it.Key)
	rec.Envelope, rec.Attempts = it.Envelope, turns
	rec.Reason = cmp.Or(rec.Reason, "the last one, on another machine, never ended")
	return k.deadLetter(it, m, &rec)
}

// endClaim releases the claim on a message unless a retry is pending here, or the rest of what follows its outcome.
func (r *Runner) endClaim(it *item, gone bool) {
	if r.config.Claims == nil {
		return
	}
	rec, _ := r.journal.Get(it.Key)
	switch {
	case gone:
		r.config.Claims.Done(it.ID)
	case rec.Outcome == "" && rec.RetryAt.IsZero():
		r.config.Claims.Release(it.ID, rec.Attempts)
	}
}

// fenceVariable is the variable of a turn that holds the number of its claim on the message. It rises with each turn on
// any machine. It is empty without claims.
const fenceVariable = "OACP_FENCE"

// A FencedError reports that a turn answers or acknowledges a message that another machine has taken over.
type FencedError struct {
	ID schema.ID
	// Fence is the number of the turn's claim, and Claim the later one.
	Fence int
	Claim gitmail.Claim
}

// Error names the machine.
func (e *FencedError) Error() string {
	return fmt.Sprintf("%s took message %s over: its turn %d began after turn %d", e.Claim.Machine, e.ID, e.Claim.Attempt, e.Fence)
}

// CheckFence returns a *FencedError if another machine has a later claim on a message than the turn that this process
// belongs to, as of the last sync. Getenv returns variables of the process; without those of a turn on this message, there
// is nothing to check.
func CheckFence(ctx context.Context, w *mailbox.Workspace, id schema.ID, agent schema.AgentName, getenv func(string) string) error {
	fence, err := strconv.Atoi(getenv(fenceVariable))
	if err != nil || getenv("OACP_MESSAGE_ID") != string(id) {
		return nil
	}
	repository, err := gitmail.Open(ctx, w)
	if err != nil {
		return nil // the turn was in another workspace
	}
	claims, err := repository.ListClaims(ctx)
	for _, c := range claims {
		if c.Err == nil && c.ID == id && c.Agent == agent && c.Attempt > fence {
			return &FencedError{ID: id, Fence: fence, Claim: c}
		}
	}
	return err
}

// AddClaims adds which machine has the message for each recipient that has it in the inbox. Most workspaces have no
// claims, and how far a message got is known without them, so failures do not count.
func AddClaims(ctx context.Context, w *mailbox.Workspace, all []track.Progress) {
	if !slices.ContainsFunc(all, func(p track.Progress) bool { return p.Stage.IsPending() }) {
		return
	}
	repository, err := gitmail.Open(ctx, w)
	if err != nil {
		return
	}
	claims, _ := repository.ListClaims(ctx)
	for i := range all {
		p := &all[i]
		for _, c := range claims {
			if c.Err == nil && c.ID == p.ID && c.Agent == p.Agent && c.State != gitmail.ClaimFree && p.Stage.IsPending() {
				p.Claim = &track.Claim{Machine: c.Machine, State: string(c.State), Attempt: c.Attempt, Since: c.Since, Renewed: c.Renewed}
			}
		}
	}
}
