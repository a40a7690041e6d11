package client

import (
	"context"

	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn/track"
)

// Ask sends a message and waits for the first reply to it, of any type, which may ask back. The agent is given the reply as by
// Next; the caller calls its Shown and, once it needs it no longer, its Acknowledge. The error is a *track.NothingComesError as
// soon as no reply can come. After any error, what was sent stays sent: with a key in Draft.Once, Ask can be called again.
func (c *Client) Ask(ctx context.Context, d Draft) (*Request, error) {
	sent, err := c.Send(ctx, d)
	if err != nil {
		return nil, err
	}
	onlyReplies := func(*schema.Message) bool { return false }
	arrived, err := track.Await(ctx, c.w, sent.Message(), track.GoalReply, onlyReplies)
	if err != nil {
		return nil, err
	}
	given, err := c.Read(ctx, []mailbox.Entry{arrived.Entry})
	if err != nil {
		return nil, err
	}
	if len(given) > 0 {
		given[0].awaited = true
		return given[0], nil
	}
	return &Request{Message: arrived.Message, Entry: arrived.Entry, client: c}, nil // another process of the agent handled it
}
