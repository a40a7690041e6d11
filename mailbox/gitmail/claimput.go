package gitmail

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/oacp-go/oacp/schema"
)

// put updates the refs of claims on the remote in one push. Afterwards each claim is ours or lost, or the
// result is unknown: then tried has the object, and a later put finds out. The error says why a ref did
// not move, if no other machine moved it.
func (c *Claims) put(ctx context.Context, claims []*heldClaim) error {
	if len(claims) == 0 {
		return nil
	}
	if err := c.pushing.lock(ctx); err != nil {
		return err
	}
	defer c.pushing.unlock()
	// A push that hangs must not keep other claims from being renewed.
	ctx, cancel := context.WithTimeout(ctx, c.pushTime())
	defer cancel()
	c.mu.Lock()
	unsettled := slices.DeleteFunc(slices.Clone(claims), func(h *heldClaim) bool {
		h.isNew = false
		return len(h.tried) == 0
	})
	c.mu.Unlock()
	if err := c.settle(ctx, unsettled); err != nil {
		return err
	}
	begun, published := time.Now(), c.published()
	updates, claims, err := c.updates(ctx, claims)
	if err != nil || len(updates) == 0 {
		return err
	}
	results, err := c.refs.push(ctx, updates)
	unsettled = nil
	c.mu.Lock()
	for i, h := range claims {
		switch {
		case results[i] == refMoved:
			h.moved(updates[i].to)
		case results[i] == refStale && len(h.tried) == 0:
			h.lost, h.ours = true, false
		default:
			h.tried = append(h.tried, updates[i].to)
			unsettled = append(unsettled, h)
		}
	}
	c.mu.Unlock()
	settleErr := c.settle(ctx, unsettled)
	var notMoved error
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, h := range claims {
		if h.isNew = (h.ours || h.remove) && !h.lost && h.object == updates[i].to && len(h.tried) == 0; h.isNew {
			h.renewed, h.published = begun, published
		} else if !h.lost && notMoved == nil {
			notMoved = cmp.Or(err, errNotMoved)
		}
	}
	return cmp.Or(notMoved, settleErr)
}

// errNotMoved says that a ref did not move although the remote reported no error.
var errNotMoved = errors.New("the claim is on the remote as it was before")

// moved notes where the ref of a claim is.
func (h *heldClaim) moved(to string) {
	h.object, h.tried, h.ours = to, nil, to != ""
}

// updates returns the updates of the refs, and the claims that are not lost. Claims with the same text
// share an object: their refs name the message.
func (c *Claims) updates(ctx context.Context, all []*heldClaim) (updates []refUpdate, claims []*heldClaim, err error) {
	type content struct {
		state   ClaimState
		attempt int
		since   time.Time
	}
	objects := make(map[content]string)
	for _, h := range all {
		c.mu.Lock()
		h.lost = h.lost || h.remove && !h.ours // it was never won
		key := content{h.state, h.attempt, h.since}
		update, lost, remove := refUpdate{ref: h.ref, from: h.object}, h.lost, h.remove
		c.mu.Unlock()
		if lost {
			continue
		}
		if !remove {
			if objects[key] == "" {
				if objects[key], err = c.writeClaim(ctx, key.state, key.attempt, key.since); err != nil {
					return nil, nil, err
				}
			}
			update.to = objects[key]
		}
		updates, claims = append(updates, update), append(claims, h)
	}
	return updates, claims, nil
}

func (c *Claims) writeClaim(ctx context.Context, state ClaimState, attempt int, since time.Time) (object string, err error) {
	c.mu.Lock()
	c.counter++
	claim := Claim{
		Machine: c.machine, State: state, Attempt: min(attempt, maxAttempts), Since: since, Renewed: c.wall(), Lease: c.lease,
		workspace: c.workspace, process: c.process, counter: c.counter,
	}
	c.mu.Unlock()
	return c.refs.write(ctx, claim.text(), claim.Renewed)
}

// settle asks the remote where the refs of claims are.
func (c *Claims) settle(ctx context.Context, claims []*heldClaim) error {
	if len(claims) == 0 {
		return nil
	}
	objects, err := c.refs.remote(ctx, c.prefix())
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, h := range claims {
		switch object := objects[h.ref]; {
		case slices.Contains(h.tried, object):
			h.moved(object)
		case object == h.object: // a push may still be on its way
		default:
			h.lost, h.ours = true, false
		}
	}
	return nil
}

func (c *Claims) prefix() string { return claimRefs + escapeDots(string(c.agent)) + "/" }

// look reads the claims that the last sync brought.
func (c *Claims) look(ctx context.Context) error {
	claims, err := c.refs.local(ctx, c.prefix())
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	mine, before := c.mine(), c.seen
	c.seen = make(map[schema.ID]*sighting)
	changed := false
	for _, claim := range claims {
		if claim.Err != nil && c.strange[claim.Ref] != claim.Object {
			c.strange[claim.Ref] = claim.Object
			c.warn(fmt.Errorf("%s holds no claim: %w; git push oacp :%[1]s in the workspace removes it", claim.Ref, claim.Err))
		}
		if h := mine[claim.ID]; claim.ID == "" || h != nil && h.object == claim.Object {
			continue
		}
		s := before[claim.ID]
		if s == nil || s.claim.Object != claim.Object {
			s = &sighting{claim: claim, since: time.Now()}
			changed = changed || claim.process != c.process
		}
		c.seen[claim.ID] = s
	}
	for id := range before {
		changed = changed || c.seen[id] == nil
	}
	if changed {
		signal(c.changed)
	}
	return nil
}

// mine returns the claims that this process has and gives up.
func (c *Claims) mine() map[schema.ID]*heldClaim {
	all := maps.Clone(c.held)
	for _, h := range c.ending {
		all[h.ID] = h
	}
	return all
}

// sweep removes claims on messages that are not in the inbox: their machines disappeared between the
// acknowledgement and the end of the claim. It waits for a lease, except for claims that an earlier
// process of this workspace left.
func (c *Claims) sweep(ctx context.Context, atStart bool) error {
	var old []*sighting
	c.mu.Lock()
	for id, s := range c.seen {
		isOurs := atStart && s.claim.Err == nil && s.claim.workspace == c.workspace
		lease := c.leaseOf(&s.claim)
		if c.held[id] == nil && (isOurs || time.Since(s.since) >= lease && time.Since(s.checked) >= lease) {
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
	return c.remove(ctx, old, pending)
}

func (c *Claims) remove(ctx context.Context, old []*sighting, pending map[schema.ID]bool) error {
	var updates []refUpdate
	c.mu.Lock()
	for _, s := range old {
		s.checked = time.Now()
		if !pending[s.claim.ID] && c.held[s.claim.ID] == nil {
			updates = append(updates, refUpdate{ref: s.claim.Ref, from: s.claim.Object})
		}
	}
	c.mu.Unlock()
	if len(updates) == 0 {
		return nil
	}
	if err := c.pushing.lock(ctx); err != nil {
		return err
	}
	defer c.pushing.unlock()
	_, err := c.refs.push(ctx, updates)
	return err
}
