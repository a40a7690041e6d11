package conversation

import (
	"cmp"
	"context"
	"time"

	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// A Response is the last answer that an agent sent to a message or, if there is none, how it declined, or else the last reply.
type Response struct {
	Message *schema.Message
	// Answers reports whether it answers the message; see schema.Message.Answers.
	Answers bool
	// Path is its file in the outbox, and Modified when that was written.
	Path     string
	Modified time.Time
}

// rank orders responses: an answer counts more than a message that declines, and that more than any other.
func (r Response) rank() int {
	switch {
	case !r.Answers:
		return 0
	case r.Message.Marks.Declined:
		return 1
	}
	return 2
}

// Responses returns the agent's responses to pending messages, by the ids of these messages. It opens
// only files of the outbox that can be younger than the oldest message, and none if the outbox has not
// changed since the messages were created and their files written. The time of a file alone proves nothing: programs
// set it.
func Responses(ctx context.Context, w *mailbox.Workspace, agent schema.AgentName, pending []mailbox.Entry) (map[schema.ID]Response, error) {
	requests := make(map[schema.ID]*schema.Message, len(pending))
	var oldest, arrived time.Time
	for _, e := range pending {
		if e.Message == nil || e.Message.ID == "" {
			continue
		}
		requests[e.Message.ID] = e.Message
		if at := e.Message.CreatedAt.Time(); oldest.IsZero() || at.Before(oldest) {
			oldest = at
		}
		if arrived.IsZero() || e.Modified.Before(arrived) {
			arrived = e.Modified
		}
	}
	if oldest.Before(arrived) {
		arrived = oldest
	}
	if len(requests) == 0 {
		return nil, nil
	}
	if outbox, err := w.Root().Lstat(schema.BoxPath(agent, mailbox.Outbox)); err == nil && outbox.ModTime().Before(arrived) {
		return nil, nil
	}
	sent, err := w.ListNamed(ctx, agent, mailbox.Outbox, Following(oldest), func(e *mailbox.Entry) bool {
		return e.Message != nil && e.Err == nil && requests[e.Message.ParentID] != nil && !e.Message.IsNotice()
	})
	responses := make(map[schema.ID]Response)
	for _, e := range sent {
		request := requests[e.Message.ParentID]
		r, known := Response{e.Message, e.Message.Answers(request), e.Path, e.Modified}, responses[request.ID]
		if known.Message == nil || cmp.Or(known.rank()-r.rank(), schema.CompareAge(known.Message, r.Message)) < 0 {
			responses[request.ID] = r
		}
	}
	return responses, err
}

// clockSkew is how much older than its parent a reply may seem, because clocks differ.
const clockSkew = 24 * time.Hour

// Following wants the files that can hold a message that follows one of that time.
func Following(at time.Time) mailbox.NameFilter {
	return func(name string) bool {
		parsed, err := schema.ParseFileName(name)
		return err != nil || !parsed.At.Before(at.Add(-clockSkew))
	}
}
