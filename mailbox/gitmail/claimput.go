package gitmail

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

const (
	// mostPushes is how often put tries to push, and pushPause the pause in between: a remote that others
	// push to at the same moment may refuse.
	mostPushes = 3
	pushPause  = 200 * time.Millisecond
)

var (
	errTakenOver = fmt.Errorf("%w: another machine has taken the message over", ErrClaimLost)
	// errNotMoved says that a ref did not move although the remote reported no error.
	errNotMoved = errors.New("the claim is on the remote as it was before")
)

// put makes the refs on the remote say what they are to say. If it returns nil, they do, or the claims
// are lost. After an error, some do not, or the remote did not answer: a later put finds out.
func (c *Claims) put(ctx context.Context, claims []*heldClaim) (err error) {
	if len(claims) == 0 {
		return nil
	}
	select {
	case c.pushing <- struct{}{}:
		defer func() { <-c.pushing }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	// A push that hangs must not keep other claims from being renewed.
	ctx, cancel := context.WithTimeout(ctx, min(networkLimit, c.lease/3))
	defer cancel()
	begun := c.now()
	for attempt := 1; ; attempt++ {
		left, settleErr := c.settle(ctx, claims, begun)
		switch {
		case len(left) == 0:
			return nil
		case attempt > mostPushes, attempt > 1 && pause(ctx, pushPause) != nil:
			return cmp.Or(err, errNotMoved)
		case settleErr != nil:
			err = settleErr
		default:
			err = c.push(ctx, left, begun)
		}
	}
}

// pause waits. The error is that of the context.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

// push makes one push, and notes what is known of its results.
func (c *Claims) push(ctx context.Context, claims []*heldClaim, begun time.Time) error {
	updates := make([]refUpdate, len(claims))
	c.mu.Lock()
	c.counter++
	for i, h := range claims {
		updates[i] = refUpdate{ref: h.Ref, from: h.Object, text: c.text(h, begun), begun: begun, ends: h.isEnding()}
		if h.isEnding() {
			h.Renewed = time.Time{} // another machine may have it at any time from now
		}
	}
	c.mu.Unlock()
	results, err := c.refs.push(ctx, updates)
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, result := range results {
		switch h := claims[i]; {
		case result == refMoved:
			c.moved(h, updates[i])
		case result == refStale && len(h.tried) == 0:
			c.lose(h)
		default:
			h.tried = append(h.tried, updates[i])
		}
	}
	return err
}

// text returns the text of the commit that a ref is to point to, empty if the ref is to be deleted.
func (c *Claims) text(h *heldClaim, renewed time.Time) string {
	if h.State == claimGone {
		return ""
	}
	claim := h.Claim
	claim.Attempt, claim.Renewed, claim.counter = h.turns, renewed, c.counter
	if h.State == ClaimWorking {
		claim.Attempt++
	}
	claim.Attempt = min(claim.Attempt, maxAttempts)
	return claim.text()
}

// settle returns the claims that still need a push: they are neither lost nor given up, nor renewed since a
// time. First it asks the remote where their refs are, as far as that is not known.
func (c *Claims) settle(ctx context.Context, claims []*heldClaim, begun time.Time) (left []*heldClaim, err error) {
	isUnknown := func(h *heldClaim) bool { return len(h.tried) > 0 }
	var objects map[string]string
	c.mu.Lock()
	ask := slices.ContainsFunc(claims, isUnknown)
	c.mu.Unlock()
	if ask {
		objects, err = c.refs.remote(ctx, claimPrefix(c.agent))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, h := range claims {
		if isUnknown(h) && err == nil {
			object := objects[h.Ref]
			i := slices.IndexFunc(h.tried, func(u refUpdate) bool { return u.to == object })
			switch {
			case i >= 0:
				c.moved(h, h.tried[i])
			case object != h.Object: // otherwise a push may still be on its way
				c.lose(h)
			}
		}
		switch {
		case c.held[h.ID] != h || !h.Renewed.Before(begun):
		case h.isEnding() && h.done.After(c.synced): // the remote does not know yet that the message was handled
		case h.isEnding() && !h.ours && err == nil: // it was never won
			c.lose(h)
		default:
			left = append(left, h)
		}
	}
	return left, err
}

// moved notes that an update moved the ref of a claim.
func (c *Claims) moved(h *heldClaim, u refUpdate) {
	h.Object, h.tried, h.ours = u.to, nil, u.to != ""
	if !u.ends {
		h.Renewed = u.begun
	} else if h.isEnding() {
		delete(c.held, h.ID)
	}
}

// lose forgets a claim that another machine has, and stops its turn.
func (c *Claims) lose(h *heldClaim) {
	if c.held[h.ID] == h {
		delete(c.held, h.ID)
	}
	if h.endTurn != nil {
		h.endTurn(errTakenOver)
	}
	c.signal()
}
