package track

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/oacp-go/oacp/internal/spelling"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/conversation"
	"github.com/oacp-go/oacp/schema"
)

// Said returns the time and the text in words, which follow those about the message.
func (by Working) Said(now time.Time) string {
	text := fmt.Sprintf(", said %s ago", spelling.Age(by.At, now))
	if by.Finished {
		text += " and finished since"
	}
	if by.Text != "" {
		text += ": " + by.Text
	}
	return text
}

// Words returns the stage in words, with what the recipient said about its work and asked back.
func (p Progress) Words(now time.Time) string {
	text := string(p.Stage)
	if p.Working != nil && (p.Stage == StageWorking || p.Stage == StageNoticed) {
		text += p.Working.Said(now)
	}
	for i, r := range p.Replies {
		isLast := !slices.ContainsFunc(p.Replies[i+1:], Reply.AsksBack)
		switch {
		case !r.AsksBack() || p.Answer != "":
		case r.Answer == "":
			text += ", asked " + r.ID.Short()
		case isLast:
			text += ", " + r.ID.Short() + " answered"
		}
	}
	return text
}

// Words returns the most urgent of the stages in words, with what all recipients asked back.
func (n Node) Words(now time.Time) string {
	p := n.least()
	p.Replies = nil
	for _, other := range n.Recipients {
		if other.Answer == "" {
			p.Replies = append(p.Replies, other.Replies...)
		}
	}
	return p.Words(now)
}

// InInbox returns how far messages in the inbox of an agent got. The replies are its own to them, by their ids.
// A folder that cannot be read hides only what was asked back.
func InInbox(ctx context.Context, w *mailbox.Workspace, agent schema.AgentName, entries []mailbox.Entry, replies map[schema.ID]conversation.Response) ([]Progress, error) {
	t := newTracker(w)
	var back []*schema.Message
	for id, r := range replies {
		t.replies[id] = []mailbox.Entry{{Message: r.Message}}
		if r.Message.Type.IsRequest() {
			back = append(back, r.Message)
		}
	}
	if len(back) > 0 {
		if _, err := t.findReplies(ctx, nil, back); err != nil {
			return nil, err
		}
	}
	all := make([]Progress, len(entries))
	for i, e := range entries {
		if e.Message == nil {
			continue
		}
		var err error
		if all[i], err = t.progress(e.Message, agent, entries[i:i+1]); err != nil {
			return nil, err
		}
	}
	return all, nil
}
