package gitmail

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/oacp-go/oacp/internal/git"
)

const (
	// claimTick is how often the list is looked through, and lookTicks how many ticks later the claims that a sync of
	// another process may have fetched. endDelay is how long a claim on a handled message waits for the sync and the
	// push of the next claim that is taken, which take it along.
	claimTick = 250 * time.Millisecond
	lookTicks = 8
	endDelay  = 500 * time.Millisecond
	// maxRetry is how long to wait at most after a remote did not answer, however long the lease is.
	maxRetry = 10 * time.Second
	// mostPushes is how often push tries, and pushPause the pause in between: a remote that others push to at the same
	// moment may refuse.
	mostPushes = 3
	pushPause  = 200 * time.Millisecond
)

var errNotMoved = errors.New("claims are on the remote as they were before")

// sighting is a claim that others may hold: until when it does unless it changes, and when to check whether its
// message is pending, on the clock of this machine.
type sighting struct {
	claim        Claim
	until, check time.Time
}

// retryDelay is the time between attempts to reach a remote that did not answer.
func (c *Claims) retryDelay() time.Duration { return min(maxRetry, c.lease/12) }

// pause waits. The error is that of the context.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

// Start begins to keep claims, and gives up those that an earlier process of this workspace left on
// messages that it handled. It warns about refs that hold no claim and about a remote that does not
// answer. After an error, which says that the remote could not be reached, it keeps claims nevertheless.
func (c *Claims) Start(ctx context.Context, warn func(error)) error {
	c.warn = warn
	err := c.syncNow(ctx)
	if err == nil {
		err = c.push(ctx, 0)
	}
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
			h.turns++
		}
		if !h.isEnding() {
			h.giveBack(h.turns)
		}
	}
	c.mu.Unlock()
	return c.settle(ctx, 0)
}

// keep renews claims, gives them up and looks at those of other machines, until the context ends. It warns of the
// first failure in a row.
func (c *Claims) keep(ctx context.Context) {
	tick, wait := min(claimTick, c.lease/12), time.Duration(0)
	for n := 1; pause(ctx, max(tick, wait)) == nil; n++ {
		err := c.settle(ctx, endDelay)
		if n%lookTicks == 0 {
			err = cmp.Or(err, c.look(ctx))
		}
		if err != nil && wait == 0 && ctx.Err() == nil {
			c.warn(fmt.Errorf("claims are not kept: %w", err))
		}
		if wait = 0; err != nil {
			wait = c.retryDelay()
		}
	}
}

// settle makes the remote agree with the list, after a sync for messages that were handled so long ago.
func (c *Claims) settle(ctx context.Context, delay time.Duration) (err error) {
	needsSync := false
	c.mu.Lock()
	for _, h := range c.held {
		needsSync = needsSync || h.isEnding() && h.done.After(c.synced) && time.Since(h.done) >= delay
	}
	c.mu.Unlock()
	if needsSync {
		err = c.syncNow(ctx)
	}
	return cmp.Or(err, c.push(ctx, delay))
}

// limit bounds what reaches the remote: an attempt that hangs must not keep claims from being renewed.
func (c *Claims) limit(ctx context.Context) (context.Context, context.CancelFunc) {
	limit := min(networkLimit, max(c.lease/3, maxRetry/2))
	return context.WithTimeoutCause(ctx, limit, fmt.Errorf("no answer within %v: %w", limit, context.DeadlineExceeded))
}

// push makes the refs on the remote say what the list says, with one push. Claims on messages that were handled less
// than the delay ago can wait. Without an error, the remote agrees, or claims are lost.
func (c *Claims) push(ctx context.Context, delay time.Duration) (err error) {
	select {
	case c.pushing <- struct{}{}:
		defer func() { <-c.pushing }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	ctx, cancel := c.limit(ctx)
	defer cancel()
	for range mostPushes {
		claims, updates := c.differences(delay)
		if len(claims) == 0 {
			return nil
		}
		err = c.refs.push(ctx, updates)
		var there map[string]string
		if slices.ContainsFunc(updates, func(u refUpdate) bool { return !u.moved }) {
			var askErr error
			there, askErr = c.refs.remote(ctx, claimPrefix(c.agent))
			err = cmp.Or(err, askErr, errNotMoved)
		}
		if c.note(claims, updates, there) {
			return nil
		}
		if pause(ctx, pushPause) != nil {
			break
		}
	}
	return err
}

// differences returns the claims in the list that the remote does not have so, or not for much longer.
func (c *Claims) differences(delay time.Duration) (claims []*heldClaim, updates []refUpdate) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counter++
	for id, h := range c.held {
		if h.State == ClaimAhead && c.age(h.Since) >= c.lease {
			h.giveBack(h.turns) // other machines may be free
		}
		switch {
		case h.isEnding() && !h.ours && len(h.tried) == 0: // it was never won
			delete(c.held, id)
			continue
		case h.isEnding() && (h.done.After(c.synced) || time.Since(h.done) < delay), !h.isEnding() && h.ours && c.age(h.Renewed) < c.lease/4:
			continue
		case h.isEnding():
			h.Renewed = time.Time{} // another machine may have it at any time from now
		}
		u := refUpdate{Update: git.Update{Ref: h.Ref, From: h.Object}, begun: c.now(), state: h.State}
		if claim := h.Claim; u.state != claimGone {
			claim.Attempt, claim.Renewed, claim.counter = h.turns, u.begun, c.counter
			if u.state == ClaimWorking {
				claim.Attempt++
			}
			claim.Attempt = min(claim.Attempt, maxAttempts)
			u.text = claim.text()
		}
		claims, updates = append(claims, h), append(updates, u)
	}
	return claims, updates
}

// note notes what became of updates: there are the refs of the remote, if not all of them are known to have moved. It
// reports whether no claim is left in doubt.
func (c *Claims) note(claims []*heldClaim, updates []refUpdate, there map[string]string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	isDone := true
	for i, u := range updates {
		h, object := claims[i], there[u.Ref]
		switch {
		case u.moved, there != nil && object == u.To:
			c.moved(h, u)
		case there == nil, object == u.From: // the push may be on its way still
			h.tried, isDone = append(h.tried, u.To), false
		case slices.Contains(h.tried, object):
			h.Object, h.ours, isDone = object, object != "", false
		default:
			c.lose(h)
		}
	}
	return isDone
}

// moved notes that an update moved the ref of a claim.
func (c *Claims) moved(h *heldClaim, u refUpdate) {
	h.Object, h.tried, h.ours = u.To, nil, u.To != ""
	switch {
	case u.state == ClaimWorking, u.state == ClaimAhead:
		if h.Renewed = u.begun; h.endTurn != nil {
			h.expiry.Reset(c.rest(h))
		}
	case u.state == h.State:
		delete(c.held, h.ID)
	}
}

// lose forgets a claim that another machine has, and stops its turn.
func (c *Claims) lose(h *heldClaim) {
	delete(c.held, h.ID)
	if h.endTurn != nil {
		h.endTurn(errTakenOver)
	}
	c.signal()
}

func (c *Claims) signal() {
	select {
	case c.changed <- struct{}{}:
	default: // it has one
	}
}

// syncNow syncs the workspace, and looks at the claims that the sync fetched.
func (c *Claims) syncNow(ctx context.Context) error {
	limited, cancel := c.limit(ctx)
	defer cancel()
	begun := time.Now()
	if err := c.sync(limited); err != nil {
		return err
	}
	c.mu.Lock()
	c.synced = begun
	c.mu.Unlock()
	return c.look(ctx)
}

// look reads the claims that the last sync fetched. It gives up those on messages that are not in the inbox: their
// machines disappeared between the acknowledgement and the end of the claim. That waits for a lease, except for claims
// that an earlier process of this workspace left.
func (c *Claims) look(ctx context.Context) error {
	claims, err := c.refs.local(ctx, claimPrefix(c.agent))
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	before, now := c.seen, time.Now()
	c.seen = make(map[string]*sighting)
	for _, claim := range claims {
		if claim.process == c.process && c.held[claim.ID] != nil {
			continue
		}
		s := before[claim.Ref]
		if s == nil || s.claim.Object != claim.Object {
			s = c.sight(claim, now)
		}
		c.seen[claim.Ref] = s
		if claim.ID == "" || c.held[claim.ID] != nil || now.Before(s.check) {
			continue
		}
		if s.check = now.Add(c.lease); !c.pending(ctx, claim.ID) {
			h := c.hold(Wanted{ID: claim.ID})
			h.State, h.ours = claimGone, true
		}
	}
	if !maps.EqualFunc(before, c.seen, func(a, b *sighting) bool { return a.claim.Object == b.claim.Object }) {
		c.signal()
	}
	return nil
}

// sight returns a claim that is seen for the first time. One that was given back or is of this workspace may be taken at
// once, and a ref that holds no claim delays its message for our own lease.
func (c *Claims) sight(claim Claim, now time.Time) *sighting {
	until := now.Add(cmp.Or(claim.Lease, c.lease))
	s := &sighting{claim, until, until}
	if claim.State == ClaimFree || claim.workspace == c.workspace {
		s.until = now
	}
	if claim.workspace == c.workspace && claim.process != c.process {
		s.check = now
	}
	if claim.Err != nil {
		c.warn(fmt.Errorf("%s holds no claim: %w; git push oacp :%[1]s in the workspace removes it", claim.Ref, claim.Err))
	}
	return s
}
