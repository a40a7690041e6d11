package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/oacp-go/oacp/mailbox/gitmail"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn/track"
)

// FenceVariable is the environment variable with the number of a turn, which counts those on all machines. It is empty if
// other machines have no part in it.
const FenceVariable = "OACP_FENCE"

// A FencedError says that another machine has taken over the turn that would answer or acknowledge a message.
type FencedError struct {
	ID    schema.ID
	Fence int
	Claim gitmail.Claim
}

func (e *FencedError) Error() string {
	return fmt.Sprintf("turn %d on message %s is over: %s has taken it over with turn %d", e.Fence, e.ID, e.Claim.Machine, e.Claim.Attempt)
}

// checkFence returns a *FencedError if, as of the last sync, another machine has a later claim on one of the messages than the
// turn that this process belongs to. The journal names that turn or, for a script, the environment does.
func (c *Client) checkFence(ctx context.Context, messages ...*schema.Message) error {
	fences, err := track.OwnAttempts(c.w, c.agent)
	if err != nil {
		return err
	}
	if fence, err := strconv.Atoi(c.caller.getenv(FenceVariable)); err == nil {
		fences[schema.ID(c.caller.getenv("OACP_MESSAGE_ID"))] = fence
	}
	if !slices.ContainsFunc(messages, func(m *schema.Message) bool { return fences[m.ID] > 0 }) {
		return nil
	}
	repository, err := gitmail.Open(ctx, c.w)
	if errors.Is(err, gitmail.ErrNoRepository) {
		return nil // the workspace has no other machines
	}
	if err != nil {
		return err
	}
	claims, err := repository.ListClaims(ctx)
	for _, claim := range claims {
		fence := fences[claim.ID]
		isAsked := slices.ContainsFunc(messages, func(m *schema.Message) bool { return m.ID == claim.ID })
		if claim.Err == nil && isAsked && claim.Agent == c.agent && fence > 0 && claim.Attempt > fence {
			return &FencedError{ID: claim.ID, Fence: fence, Claim: claim}
		}
	}
	return err
}
