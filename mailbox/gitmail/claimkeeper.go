package gitmail

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/oacp-go/oacp/schema"
)

const (
	// endDelay is how long a claim waits for its end, because the sync of the next claim that is taken may
	// bring the acknowledgement to the remote, and joinDelay how long it waits if that was so, because the
	// push of the claim after that can end it.
	endDelay  = 300 * time.Millisecond
	joinDelay = 3 * time.Second
	// maxRetry is how long to wait at most after a remote did not answer, however long the lease is.
	maxRetry = 10 * time.Second
	// maxLook is how often the claims are read that a sync of another process may have fetched.
	maxLook = 2 * time.Second
)

// Start begins to keep claims, and gives up those that an earlier process of this workspace left on
// messages that it handled. It warns about refs that hold no claim and about a remote that does not
// answer. After an error, which says that the remote could not be reached, it keeps claims nevertheless.
func (c *Claims) Start(ctx context.Context, warn func(error)) error {
	c.warn = warn
	err := c.syncNow(ctx)
	if err != nil {
		err = errors.Join(err, c.look(ctx))
	} else {
		err = c.sweep(ctx, true)
	}
	kept, stop := context.WithCancel(context.WithoutCancel(ctx))
	c.stop = stop
	c.running.Go(func() { c.keepRenewing(kept) })
	c.running.Go(func() { c.keepEnding(kept) })
	return err
}

const (
	// mostStops is how often Stop tries to give claims up, and stopPause the pause in between: a remote that
	// others push to at the same moment may refuse.
	mostStops = 3
	stopPause = 200 * time.Millisecond
)

// Stop gives all claims up, after a sync if messages were handled since the last one.
func (c *Claims) Stop(ctx context.Context) error {
	c.stop()
	c.running.Wait()
	c.mu.Lock()
	for _, h := range c.held {
		h.giveBack()
		c.endLater(h)
	}
	c.mu.Unlock()
	for attempt := 1; ; attempt++ {
		err := c.end(ctx, true)
		if err == nil && !c.isEnding() || attempt == mostStops {
			return err
		}
		select {
		case <-ctx.Done():
			return cmp.Or(err, context.Cause(ctx))
		case <-time.After(stopPause):
		}
	}
}

// Confirm makes sure that no other machine has taken over a message, or will do so within the next third
// of the lease. It waits for a remote that does not answer. The error is ErrClaimLost or that of the context.
func (c *Claims) Confirm(ctx context.Context, id schema.ID) error {
	c.mu.Lock()
	h := c.held[id]
	c.mu.Unlock()
	if h == nil {
		return ErrClaimLost
	}
	for {
		err := c.confirm(ctx, h)
		if err == nil || errors.Is(err, ErrClaimLost) {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(c.retryDelay()):
		}
	}
}

// published returns the current time as claims publish it: without the monotonic reading, which does not
// advance while the machine sleeps.
func (c *Claims) published() time.Time { return c.wall().Round(0) }

// retryDelay is the time between attempts to reach a remote that did not answer.
func (c *Claims) retryDelay() time.Duration { return min(maxRetry, c.lease/12) }

// pushTime bounds a push of claims: it must not keep others from being renewed.
func (c *Claims) pushTime() time.Duration { return min(networkLimit, c.lease/3) }

// confirm renews a claim once, unless it was renewed less than half a lease ago: then no other machine can
// have it. A clock that was set or stopped does not make an old claim look fresh.
func (c *Claims) confirm(ctx context.Context, h *heldClaim) error {
	c.mu.Lock()
	fresh := !h.lost && max(time.Since(h.renewed), c.published().Sub(h.published).Abs()) < c.lease/2
	c.mu.Unlock()
	if fresh {
		return nil
	}
	err := c.put(ctx, []*heldClaim{h})
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case h.lost:
		c.forget(h)
		return c.lostTo(h)
	case h.isNew:
		return nil
	}
	return err
}

// Done gives up a claim after its message left the inbox, as soon as the remote has the acknowledgement.
func (c *Claims) Done(id schema.ID) {
	c.giveUp(id, func(h *heldClaim) { h.done, h.remove = time.Now(), true })
}

// Release gives up a claim although the message stays in the inbox, and records how many turns it had.
func (c *Claims) Release(id schema.ID, turns int) {
	c.giveUp(id, func(h *heldClaim) { h.free(max(turns, h.attempt-1)) })
}

func (c *Claims) giveUp(id schema.ID, change func(*heldClaim)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := c.held[id]
	if h == nil {
		return
	}
	if h.cancel != nil {
		h.cancel(nil)
	}
	change(h)
	c.endLater(h)
}

// endLater queues a claim that is ready to be given up.
func (c *Claims) endLater(h *heldClaim) {
	if c.held[h.ID] == h {
		delete(c.held, h.ID)
	}
	h.isNew = false
	c.ending = append(c.ending, h)
	signal(c.ends)
}

// forget drops a claim that is lost, and stops its turn.
func (c *Claims) forget(h *heldClaim) {
	if c.held[h.ID] == h {
		delete(c.held, h.ID)
	}
	if h.cancel != nil {
		h.cancel(c.lostTo(h))
	}
	signal(c.changed)
}

func (c *Claims) lostTo(h *heldClaim) error {
	if s := c.seen[h.ID]; s != nil && s.claim.Machine != "" && s.claim.process != c.process {
		return fmt.Errorf("%w: %s has taken the message over", ErrClaimLost, s.claim.Machine)
	}
	return fmt.Errorf("%w: another machine has taken the message over", ErrClaimLost)
}

// keepRenewing renews claims every third of the lease. A claim that was not renewed for two thirds of it
// stops its turn.
func (c *Claims) keepRenewing(ctx context.Context) {
	failing := false
	var again time.Time // the end of the wait after a failure
	for {
		var timer <-chan time.Time
		next, expires := c.nextRenewal()
		if !next.IsZero() {
			timer = time.After(max(time.Until(next), time.Until(again)))
		}
		select {
		case <-ctx.Done():
			return
		case <-c.renewals:
			continue
		case <-timer:
		}
		// A push that hangs must not outlive the time in which the turn has to stop.
		limit := time.Now().Add(c.pushTime())
		if expires.After(time.Now()) && expires.Before(limit) {
			limit = expires
		}
		pushing, cancel := context.WithDeadline(ctx, limit)
		err := c.put(pushing, c.dueForRenewal())
		cancel()
		c.stopExpired(err)
		if err != nil && !failing && ctx.Err() == nil {
			c.warn(fmt.Errorf("claims are not renewed: %w", err))
		}
		if failing = err != nil; failing {
			again = time.Now().Add(c.retryDelay() / 2)
		}
	}
}

// nextRenewal returns when to renew the next claim, and when the first turn must stop without a renewal.
// Both are zero if there are no claims.
func (c *Claims) nextRenewal() (next, expires time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, h := range c.held {
		if at := h.renewed.Add(c.lease / 3); next.IsZero() || at.Before(next) {
			next = at
		}
		if at := c.expiry(h); at.After(time.Now()) && (expires.IsZero() || at.Before(expires)) {
			expires = at
		}
	}
	return next, expires
}

func (c *Claims) expiry(h *heldClaim) time.Time { return h.renewed.Add(c.lease * 2 / 3) }

// dueForRenewal returns the claims to renew now, including those that are due soon. It gives up claims
// that were taken ahead a lease ago: other machines may be free.
func (c *Claims) dueForRenewal() (due []*heldClaim) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, h := range c.held {
		switch {
		case time.Since(h.renewed) < c.lease/4:
		case h.state == ClaimAhead && time.Since(h.taken) >= c.lease:
			h.giveBack()
			c.endLater(h)
		default:
			due = append(due, h)
		}
	}
	return due
}

// stopExpired stops the turns of claims that are lost or too old.
func (c *Claims) stopExpired(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, h := range c.held {
		switch {
		case h.lost:
			c.forget(h)
		case h.cancel != nil && !time.Now().Before(c.expiry(h)):
			h.cancel(fmt.Errorf("%w: it could not be renewed for %v: %w", ErrClaimLost, c.lease*2/3, err))
		}
	}
}

// keepEnding gives up claims that are over, and looks at those of other machines.
func (c *Claims) keepEnding(ctx context.Context) {
	look := time.NewTicker(min(maxLook, c.lease/10))
	defer look.Stop()
	var wait <-chan time.Time
	failing := false
	for {
		var err error
		select {
		case <-ctx.Done():
			return
		case <-c.ends:
			if wait == nil {
				wait = time.After(endDelay)
			}
			continue
		case <-wait:
			wait = nil
			endErr := c.end(ctx, false)
			if c.isEnding() {
				wait = time.After(max(endDelay, c.retryDelay()))
			}
			if endErr != nil && !failing {
				err = fmt.Errorf("claims are not given up: %w", endErr)
			}
			failing = endErr != nil
		case <-look.C:
			if err = c.look(ctx); err == nil {
				err = c.sweep(ctx, false)
			}
		}
		if err != nil && ctx.Err() == nil {
			c.warn(err)
		}
	}
}

func (c *Claims) isEnding() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.ending) > 0
}

// end gives up the claims that are over. Unless atOnce is set, claims that block nobody may wait.
func (c *Claims) end(ctx context.Context, atOnce bool) error {
	if err := c.taking.lock(ctx); err != nil {
		return err
	}
	defer c.taking.unlock()
	c.mu.Lock()
	needsSync := slices.ContainsFunc(c.ending, func(h *heldClaim) bool { return h.done.After(c.synced) })
	atOnce = atOnce || slices.ContainsFunc(c.ending, func(h *heldClaim) bool { return time.Since(h.done) >= joinDelay })
	c.mu.Unlock()
	if !needsSync && !atOnce {
		return nil
	}
	var err error
	if needsSync {
		err = c.syncNow(ctx)
	}
	err = errors.Join(err, c.put(ctx, c.endable()))
	c.forgetEnded()
	return err
}

// endable returns the claims that can be given up: the remote knows that their messages are handled.
func (c *Claims) endable() (claims []*heldClaim) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, h := range c.ending {
		if !h.done.After(c.synced) {
			claims = append(claims, h)
		}
	}
	return claims
}

// forgetEnded forgets the claims that were given up.
func (c *Claims) forgetEnded() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ending = slices.DeleteFunc(c.ending, func(h *heldClaim) bool { return h.lost || h.isNew })
}

// syncNow syncs the workspace, and looks at the claims that the sync fetched.
func (c *Claims) syncNow(ctx context.Context) error {
	begun := time.Now()
	if err := c.sync(ctx); err != nil {
		return err
	}
	c.mu.Lock()
	c.synced = begun
	c.mu.Unlock()
	return c.look(ctx)
}
