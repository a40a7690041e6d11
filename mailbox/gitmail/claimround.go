package gitmail

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/oacp-go/oacp/internal/git"
	"github.com/oacp-go/oacp/internal/process"
	"github.com/oacp-go/oacp/schema"
)

// retryDelay is the time between attempts to reach a remote that did not answer.
func (c *Claims) retryDelay() time.Duration { return min(maxRetry, c.lease/12) }

// pause waits. It returns an error if the context ends first.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

// keep renews claims, gives them up and looks at those of other machines, until the context ends. It warns only about
// the first of several failures in a row.
func (c *Claims) keep(ctx context.Context) {
	tick := min(claimTick, c.lease/12)
	for wait := tick; pause(ctx, wait) == nil; {
		err := c.settle(ctx)
		if err != nil && wait == tick && ctx.Err() == nil {
			c.warn(fmt.Errorf("claims are not kept: %w", err))
		}
		wait = tick
		if err != nil {
			wait += c.retryDelay()
		}
	}
}

// settle makes rounds until nothing is left to do.
func (c *Claims) settle(ctx context.Context) (err error) {
	for range mostRounds {
		var idle bool
		if idle, err = c.round(ctx); idle || err != nil && pause(ctx, roundPause) != nil {
			break
		}
	}
	return err
}

// limit bounds the time of an attempt to reach the remote: one that hangs must not keep claims from being renewed.
func (c *Claims) limit(ctx context.Context) (context.Context, context.CancelFunc) {
	limit := min(networkLimit, max(c.lease/3, maxRetry/2))
	return context.WithTimeoutCause(ctx, limit, fmt.Errorf("no answer within %v: %w", limit, context.DeadlineExceeded))
}

// round updates the refs on the remote to the list with one push, syncs if that is needed, and looks at the claims
// that were fetched. It reports whether there was nothing to push or to sync.
func (c *Claims) round(ctx context.Context) (idle bool, err error) {
	select {
	case c.busy <- struct{}{}:
		defer func() { <-c.busy }()
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
	ctx, cancel := c.limit(ctx)
	defer cancel()
	claims, needsSync := c.differences()
	if len(claims) > 0 {
		var inDoubt bool
		inDoubt, err = c.push(ctx, claims)
		needsSync = needsSync || inDoubt
	}
	if needsSync {
		begun := time.Now()
		if syncErr := c.store.sync(ctx); syncErr != nil {
			return false, cmp.Or(err, syncErr)
		}
		c.mu.Lock()
		c.synced = begun
		c.mu.Unlock()
	}
	return len(claims) == 0 && !needsSync, cmp.Or(err, c.look(ctx))
}

// differences returns the claims in the list that have to be pushed: they are new, changed or due for a renewal. It
// reports whether a sync is needed, without which other claims cannot be pushed.
func (c *Claims) differences() (claims []*heldClaim, needsSync bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counter++
	needsSync = c.synced.IsZero()
	for id, h := range c.held {
		if h.endTurn == nil && c.age(h.Since) >= c.lease {
			h.giveBack(h.Attempt, time.Time{}) // other machines may be free
		}
		switch {
		case !h.State.isEnding() && c.age(h.Renewed) < c.lease/4:
		case h.State.isEnding() && !h.ours && !h.inDoubt: // it was never won
			delete(c.held, id)
		case h.State.isEnding() && h.done.After(c.synced):
			needsSync = true
		default:
			h.sent, h.inDoubt = h.Claim, false
			h.sent.Renewed, h.sent.Counter, h.sent.Object = c.now(), c.counter, ""
			if h.State == ClaimWorking {
				h.sent.Attempt++
			} else if h.State.isEnding() {
				h.Renewed = time.Time{} // another machine may have it at any time from now
			}
			claims = append(claims, h)
		}
	}
	return claims, needsSync
}

// push pushes claims. A new claim is in doubt even if it moved its ref: the message may have been handled before.
func (c *Claims) push(ctx context.Context, claims []*heldClaim) (inDoubt bool, err error) {
	updates := make([]git.Update, len(claims))
	for i, h := range claims {
		if h.sent.State != claimGone {
			if h.sent.Object, err = c.store.commit(ctx, h.sent); err != nil {
				return false, err
			}
		}
		updates[i] = git.Update{Ref: h.Ref, From: h.Object, To: h.sent.Object}
	}
	moved, err := c.store.push(ctx, updates)
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, h := range claims {
		if h.inDoubt = !moved[i] || !h.ours; h.inDoubt {
			inDoubt = true
		} else {
			c.resolve(h, h.sent)
		}
	}
	return inDoubt, err
}

// resolve updates a claim after its last push, given what the remote has at the ref.
func (c *Claims) resolve(h *heldClaim, there Claim) {
	h.inDoubt = false
	switch {
	case there.Object == h.sent.Object:
		h.Object, h.ours = there.Object, there.Object != ""
		if !h.sent.State.isEnding() {
			h.Renewed = h.sent.Renewed
			if h.endTurn != nil {
				h.expiry.Reset(c.rest(h))
			}
		} else if h.sent.State == h.State {
			delete(c.held, h.ID)
		}
	case there.Object == h.Object: // the push may still arrive
	case there.Process == c.process: // an earlier push arrived late
		h.Object, h.ours = there.Object, true
	default: // another machine has it
		delete(c.held, h.ID)
		if h.endTurn != nil {
			h.endTurn(errTakenOver)
		}
		c.signal()
	}
}

// look reads the claims that the last sync fetched. It removes those on messages that are not in the inbox, after a
// lease: their machines disappeared between the acknowledgement and the end of the claim. It does not wait for claims
// that an earlier process of this workspace left.
func (c *Claims) look(ctx context.Context) error {
	claims, err := c.store.ListClaims(ctx)
	if err != nil {
		return err
	}
	if seen := c.note(ctx, claims); seen != nil {
		return c.store.remember(seen)
	}
	return nil
}

// note notes claims that were fetched, and returns when each was first seen; nil if that is known.
func (c *Claims) note(ctx context.Context, claims []Claim) (first map[schema.ID]observation) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before, now := c.seen, time.Now()
	c.seen = make(map[schema.ID]sighting)
	for _, claim := range claims {
		if claim.Agent != c.agent {
			continue
		}
		s := before[claim.ID]
		if s.claim.Object != claim.Object {
			s = c.sight(claim, now)
		}
		isDue := c.held[claim.ID] == nil && !now.Before(s.check)
		if isDue {
			s.check = now.Add(c.lease)
		}
		c.seen[claim.ID] = s
		if isDue && !c.store.isPending(ctx, claim.ID) {
			h := c.hold(Wanted{ID: claim.ID})
			h.State, h.ours = claimGone, true
		}
	}
	for _, h := range c.held {
		if h.inDoubt {
			c.resolve(h, c.seen[h.ID].claim)
		}
	}
	if maps.Equal(before, c.seen) {
		return nil
	}
	c.signal()
	first = make(map[schema.ID]observation)
	for id, s := range c.seen {
		first[id] = observation{s.claim.Object, s.first}
	}
	return first
}

// sight returns the sighting of a claim that this process sees for the first time. This machine may take one that was given back
// or that this workspace has, if its process has ended, at once. A ref that holds no claim delays its message for our own lease.
func (c *Claims) sight(claim Claim, now time.Time) sighting {
	first := process.SinceBoot()
	if e, ok := c.earlier[claim.ID]; ok && e.Object == claim.Object && e.First < first {
		now, first = now.Add(e.First-first), e.First
	}
	until := now.Add(cmp.Or(claim.Lease, c.lease))
	s := sighting{claim, until, until, first}
	ended := claim.Workspace == c.workspace && claim.Process != c.process && c.ended(claim.Process)
	if claim.State == ClaimFree || ended || claim.Process == c.process {
		s.until = now
	}
	if ended {
		s.check = now
	}
	if claim.Err != nil {
		c.warn(fmt.Errorf("%s holds no claim: %w; git push oacp :%[1]s in the workspace removes it", claim.Ref, claim.Err))
	}
	return s
}
