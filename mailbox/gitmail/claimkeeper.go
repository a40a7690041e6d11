package gitmail

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	// claimTick is how often claims are looked through for something to do.
	claimTick = 250 * time.Millisecond
	// ackDelay is how long an acknowledgement waits for a sync, because the sync of the next claim that is
	// taken may bring it to the remote, and endDelay how long the claim then waits for its end, because the
	// push of the claim after that can bring it.
	ackDelay = 300 * time.Millisecond
	endDelay = 3 * time.Second
	// maxRetry is how long to wait at most after a remote did not answer, however long the lease is.
	maxRetry = 10 * time.Second
	// maxLook is the longest time between two looks at the claims: a sync of another process may fetch some.
	maxLook = 2 * time.Second
)

// retryDelay is the time between attempts to reach a remote that did not answer.
func (c *Claims) retryDelay() time.Duration { return min(maxRetry, c.lease/12) }

// Start begins to keep claims, and gives up those that an earlier process of this workspace left on
// messages that it handled. It warns about refs that hold no claim and about a remote that does not
// answer. After an error, which says that the remote could not be reached, it keeps claims nevertheless.
func (c *Claims) Start(ctx context.Context, warn func(error)) error {
	c.warn = warn
	err := c.syncNow(ctx)
	if err == nil {
		err = cmp.Or(c.sweep(ctx), c.renew(ctx))
	}
	kept, stop := context.WithCancel(context.WithoutCancel(ctx))
	c.stop = stop
	tick := min(claimTick, c.lease/12)
	c.running.Go(func() { c.repeat(kept, tick, "claims are not renewed", c.renew) })
	c.running.Go(func() { c.repeat(kept, tick, "claims are not given up", c.finish) })
	c.running.Go(func() { c.repeat(kept, min(maxLook, c.lease/10), "claims are not read", c.watch) })
	c.running.Go(func() {
		for pause(kept, tick) == nil {
			c.expire()
		}
	})
	return err
}

// Stop gives all claims up, after a sync if messages were handled since the last one.
func (c *Claims) Stop(ctx context.Context) error {
	c.stop()
	c.running.Wait()
	c.mu.Lock()
	for _, h := range c.held {
		if h.endTurn != nil {
			h.turns++
		}
		if !h.isEnding() {
			h.giveBack(h.turns)
		}
	}
	c.mu.Unlock()
	return c.giveUp(ctx)
}

// repeat calls a function at an interval until the context ends, or less often while it fails. It warns of
// the first failure in a row.
func (c *Claims) repeat(ctx context.Context, interval time.Duration, failure string, do func(context.Context) error) {
	isFailing := false
	for wait := interval; pause(ctx, wait) == nil; {
		err := do(ctx)
		if err != nil && !isFailing && ctx.Err() == nil {
			c.warn(fmt.Errorf("%s: %w", failure, err))
		}
		isFailing, wait = err != nil, interval
		if isFailing {
			wait = max(interval, c.retryDelay())
		}
	}
}

// renew pushes the claims that are to be renewed, and those that have waited to be given up.
func (c *Claims) renew(ctx context.Context) error {
	due, _ := c.ending(endDelay)
	c.mu.Lock()
	for _, h := range c.held {
		if h.isEnding() || !h.ours || c.age(h.Renewed) < c.lease/4 {
			continue
		}
		if h.State == ClaimAhead && c.age(h.Since) >= c.lease {
			h.giveBack(h.turns) // other machines may be free
		}
		due = append(due, h)
	}
	c.mu.Unlock()
	return c.put(ctx, due)
}

// expire stops the turns of claims that were not renewed for two thirds of the lease.
func (c *Claims) expire() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, h := range c.held {
		if h.endTurn != nil && c.now().Sub(h.Renewed) >= c.lease*2/3 {
			h.endTurn(fmt.Errorf("%w: it could not be renewed for %v", ErrClaimLost, c.lease*2/3))
		}
	}
}

// ending returns the claims to give up: those on messages that stay, and those on messages that were handled
// so long ago. It leaves out claims that need a sync first, because the remote does not know of that.
func (c *Claims) ending(delay time.Duration) (claims []*heldClaim, needsSync bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, h := range c.held {
		switch {
		case !h.isEnding() || time.Since(h.done) < delay:
		case h.done.After(c.synced):
			needsSync = true
		default:
			claims = append(claims, h)
		}
	}
	return claims, needsSync
}

// finish gives up claims that need a sync first.
func (c *Claims) finish(ctx context.Context) error {
	if _, needsSync := c.ending(ackDelay); !needsSync {
		return nil
	}
	return c.giveUp(ctx)
}

// giveUp gives up claims at once, after a sync if that is necessary.
func (c *Claims) giveUp(ctx context.Context) (err error) {
	if _, needsSync := c.ending(0); needsSync {
		err = c.syncNow(ctx)
	}
	claims, _ := c.ending(0)
	return errors.Join(err, c.put(ctx, claims))
}

// watch looks at the claims of other machines.
func (c *Claims) watch(ctx context.Context) error { return cmp.Or(c.look(ctx), c.sweep(ctx)) }

// syncNow syncs the workspace, and looks at the claims that the sync fetched.
func (c *Claims) syncNow(ctx context.Context) error {
	begun := time.Now()
	err := c.sync(ctx)
	if err == nil {
		c.mu.Lock()
		c.synced = begun
		c.mu.Unlock()
	}
	return cmp.Or(err, c.look(ctx))
}

// look reads the claims that the last sync fetched.
func (c *Claims) look(ctx context.Context) error {
	claims, err := c.refs.local(ctx, claimPrefix(c.agent))
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	before, now, hasChanged := c.seen, time.Now(), false
	c.seen = make(map[string]*sighting)
	for _, claim := range claims {
		isOurs := claim.process == c.process
		if isOurs && c.held[claim.ID] != nil {
			continue
		}
		s := before[claim.Ref]
		if s == nil || s.claim.Object != claim.Object {
			// A ref that holds no claim delays its message for our own lease.
			until := now.Add(cmp.Or(claim.Lease, c.lease))
			s = &sighting{claim, until, until}
			if claim.workspace == c.workspace && !isOurs {
				s.sweep = now
			}
			if claim.Err != nil {
				c.warn(fmt.Errorf("%s holds no claim: %w; git push oacp :%[1]s in the workspace removes it", claim.Ref, claim.Err))
			}
			hasChanged = hasChanged || !isOurs
		}
		c.seen[claim.Ref] = s
	}
	for ref := range before {
		hasChanged = hasChanged || c.seen[ref] == nil
	}
	if hasChanged {
		c.signal()
	}
	return nil
}

// sweep gives up claims on messages that are not in the inbox: their machines disappeared between the
// acknowledgement and the end of the claim. It waits for a lease, except for claims that an earlier
// process of this workspace left.
func (c *Claims) sweep(ctx context.Context) error {
	var old []*sighting
	c.mu.Lock()
	for _, s := range c.seen {
		if s.claim.ID != "" && !time.Now().Before(s.sweep) {
			s.sweep = time.Now().Add(c.lease)
			old = append(old, s)
		}
	}
	c.mu.Unlock()
	if len(old) == 0 {
		return nil
	}
	pending, err := c.inbox(ctx)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range old {
		if id := s.claim.ID; !pending[id] && c.held[id] == nil {
			h := c.hold(id)
			h.Object, h.ours = s.claim.Object, true // what was seen since may hold
		}
	}
	return nil
}
