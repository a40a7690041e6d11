package turn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
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
	// Start begins to keep claims, and Stop gives them all up. Until then, Start may call warn at any time.
	// Its error says why other machines cannot be asked now.
	Start(ctx context.Context, warn func(error)) error
	Stop(ctx context.Context) error
	// Other returns the claim of another machine on a message, and until when it holds if it is not
	// renewed; nil if this machine may try to take the message. It does not ask other machines.
	Other(id schema.ID) (claim *gitmail.Claim, until time.Time)
	// Changed gets a value after what Other returns may have changed.
	Changed() <-chan struct{}
	// Take claims the first message for work that begins now, and may claim the others ahead. It
	// returns the number of the turn, which counts those on all machines, and a context that ends if the
	// claim is lost. The error is gitmail.ErrElsewhere, or says why other machines cannot be asked. If
	// another machine handled the message, it is no longer in the inbox.
	Take(ctx context.Context, wanted []gitmail.Wanted) (attempt int, held context.Context, err error)
	// Confirm makes sure that this machine still has the claim. Its error is gitmail.ErrClaimLost or that of
	// the context.
	Confirm(ctx context.Context, id schema.ID) error
	// Done gives up the claim on a message that left the inbox. Release gives up the claim on one that
	// stays, and records the number of its turns. They do not block, and do nothing without a claim.
	Done(id schema.ID)
	Release(id schema.ID, turns int)
}

// startTime is how long a Runner waits for other machines when it starts. Without an answer it continues, but begins no
// turns. A run with Once waits for startTimeOnce, and then fails.
const (
	startTime     = 2 * time.Second
	startTimeOnce = 5 * time.Second
)

// An UnclaimedError ends a run with Once that cannot reach other machines: no turn begins without a claim.
type UnclaimedError struct{ Err error }

func (e *UnclaimedError) Error() string {
	return "no turn begins without a claim on its message: " + e.Err.Error()
}

func (e *UnclaimedError) Explain() (code, hint string) {
	if remote, ok := errors.AsType[*gitmail.RemoteError](e.Err); ok && remote.Refused {
		return "", ""
	}
	return "remote_unreachable", "the mail stays in the inbox; if no other machine works it, oacp run --claim none gives it turns without the remote"
}

func (e *UnclaimedError) Unwrap() error { return e.Err }

// stopTime is how long the claims may take to be given up when the Runner stops.
const stopTime = 10 * time.Second

// maxAway is the longest pause before the Runner again asks a remote that did not answer.
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
	err = fmt.Errorf("giving up claims, for which other machines now wait until the lease ends: %w", err)
	if ctx.Err() != nil {
		r.events.publish(Event{Kind: EventWarning, Reason: err.Error(), Err: err})
		return nil
	}
	return err
}

// elsewhere returns the decision to wait for another machine if one has the message.
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

// ahead returns the messages that a run with Once claims together with an item: those that are probably next.
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

// claim is this machine's claim on a message: a context that ends with the Runner's or with the claim, and
// the number of the turn among those on all machines, which is 0 without claims.
type claim struct {
	ctx     context.Context
	attempt int
}

// claimed claims the message, and others ahead, and then carries out the decision about it.
func (r *Runner) claimed(ctx context.Context, it *item, ahead []*item, do action) outcome {
	if r.config.Claims == nil {
		return r.worker.workOn(ctx, claim{ctx: ctx}, it, do)
	}
	if _, err := os.Lstat(r.worker.entryOf(it).Path); mailbox.IsGone(err) { // another machine has handled it
		return outcome{item: it, done: true}
	}
	wanted := make([]gitmail.Wanted, 0, len(ahead)+1)
	for _, next := range append([]*item{it}, ahead...) {
		rec, _ := r.journal.Get(next.Key)
		wanted = append(wanted, gitmail.Wanted{ID: next.ID, Attempts: rec.Attempts})
	}
	attempt, held, err := r.config.Claims.Take(ctx, wanted)
	if err == nil && do != try { // an earlier turn had the claim, perhaps long ago
		err = r.config.Claims.Confirm(ctx, it.ID)
	}
	switch {
	case err == nil:
		return r.worker.workOn(ctx, claim{held, attempt}, it, do)
	case errors.Is(err, gitmail.ErrElsewhere), errors.Is(err, gitmail.ErrClaimLost), ctx.Err() != nil:
		return outcome{item: it} // it is decided again
	}
	return outcome{item: it, unavailable: &UnclaimedError{err}}
}

// confirm returns err, the result of a turn, if this machine still has the claim. If another machine may have
// the message by now, confirm returns an error that matches gitmail.ErrClaimLost instead, and the turn does
// not count, although nothing undoes what it did. If the remote does not answer, confirm waits.
func (k *worker) confirm(ctx context.Context, held claim, it *item, err error) error {
	if k.config.Claims == nil || ctx.Err() != nil {
		return err
	}
	if err != nil && held.ctx.Err() != nil {
		return context.Cause(held.ctx)
	}
	return cmp.Or(k.config.Claims.Confirm(ctx, it.ID), err)
}

// tooMany gives up a message that had all its turns, on machines that died during them or lost their journal.
func (k *worker) tooMany(it *item, m *schema.Message, turns int) outcome {
	rec, _ := k.journal.Get(it.Key)
	rec.Envelope, rec.Attempts = it.Envelope, turns
	rec.Reason = cmp.Or(rec.Reason, "the last one, on another machine or without its journal, never ended")
	return k.deadLetter(it, m, k.unquoted(&rec))
}

// endClaim gives up the claim on a message, unless a retry, or work that follows an outcome, is left to do here. It keeps
// that on a message whose turn was stopped or asked back, so that no other machine begins one.
func (r *Runner) endClaim(it *item, gone bool) {
	if r.config.Claims == nil {
		return
	}
	rec, _ := r.journal.Get(it.Key)
	switch {
	case gone:
		r.config.Claims.Done(it.ID)
	case rec.Outcome == "" && rec.RetryAt.IsZero() && rec.Stopped == "" && len(rec.Awaits) == 0:
		r.config.Claims.Release(it.ID, rec.Attempts)
	}
}

// AddClaims sets the Claim of each recipient that has the message in the inbox. It ignores errors: most workspaces have
// no claims, and the rest of the progress is right without them.
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
