package client

import (
	"context"
	"fmt"
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

// checkFence returns a *FencedError if, as of the last sync, another machine has a later claim on the message than the turn
// that this process belongs to. The journal names that turn or, for a script, the environment does.
func (c *Client) checkFence(ctx context.Context, m *schema.Message) error {
	fence, err := strconv.Atoi(c.caller.getenv(FenceVariable))
	if err != nil || c.caller.getenv("OACP_MESSAGE_ID") != string(m.ID) {
		if fence, err = track.OwnAttempt(c.w, c.agent, m); err != nil || fence == 0 {
			return err
		}
	}
	repository, err := gitmail.Open(ctx, c.w)
	if err != nil {
		return nil // the workspace has no other machines
	}
	claims, err := repository.ListClaims(ctx)
	for _, claim := range claims {
		if claim.Err == nil && claim.ID == m.ID && claim.Agent == c.agent && claim.Attempt > fence {
			return &FencedError{ID: m.ID, Fence: fence, Claim: claim}
		}
	}
	return err
}
