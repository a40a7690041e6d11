package live

import (
	"context"
	"slices"
	"time"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn/track"
)

// note remembers a request that is shown to the session.
func (s *Session) note(m *schema.Message, now time.Time) {
	if !m.Type.IsRequest() {
		return
	}
	if s.Requests == nil {
		s.Requests = make(map[schema.ID]time.Time)
	}
	s.Requests[m.ID] = now
}

// remind returns, at a Stop, the requests that were shown to the session and that the agent has not answered. It first
// records that it does, so that no other Stop repeats the reminder. A session that a hook held gets none; claude also
// calls a session held whose turn mail began, and that one gets its reminder. Requests on which the agent says it works,
// or about which it has asked back, wait for a later Stop.
func (h *Hook) remind(ctx context.Context, dir *durable.Dir, s *Session, e Event) (due []track.OpenRequest, err error) {
	if e.Name != Stop {
		return nil, nil
	}
	held := e.StopActive && !s.Woken
	s.Woken = false
	if held || len(s.Requests) == 0 {
		return nil, nil
	}
	limited, cancel := context.WithTimeout(ctx, owedLimit)
	defer cancel()
	owed, err := track.OwedBy(limited, h.Workspace, h.Agent)
	if err != nil {
		return nil, nil // a later Stop tries again
	}
	asked := make(map[schema.ID]bool)
	for _, r := range owed.Theirs {
		asked[r.ID] = r.Answer == ""
	}
	before, news := s.Requests, track.NewsOf(h.Workspace, h.Agent)
	s.Requests = make(map[schema.ID]time.Time)
	for _, r := range owed.Mine {
		at, shown := before[r.ID]
		works := r.Working != nil && !r.Working.Finished
		switch {
		case !shown, news.HasReturned(r.ID, s.holder()):
		case works, slices.ContainsFunc(r.Replies, func(reply track.Reply) bool { return asked[reply.ID] }):
			s.Requests[r.ID] = at
		default:
			due = append(due, r)
		}
	}
	if len(due) == 0 {
		return nil, nil
	}
	return due, s.save(dir)
}
