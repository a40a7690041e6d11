package ash

import (
	"context"
	"fmt"
	"time"
)

// departure is how long a new turn of a session waits to see whether the host of the running one has just gone away. A
// host that reconnects and asks again can be faster than the news of its old connection's end.
const departure = 100 * time.Millisecond

// sessionTurn is the turn that a session is running.
type sessionTurn struct {
	ctx  context.Context
	over chan struct{}
}

// claim reserves the session for the turn whose context this is; release gives it back. A turn that runs already is a
// reason to refuse, unless its context has ended: then claim waits until it is over.
func (s *Server) claim(ctx context.Context, session string) (release func(), err error) {
	mine := &sessionTurn{ctx: ctx, over: make(chan struct{})}
	for {
		s.mu.Lock()
		running := s.sessions[session]
		if running == nil {
			s.sessions[session] = mine
		}
		s.mu.Unlock()
		if running == nil {
			return func() { s.release(session, mine) }, nil
		}
		if err := running.wait(ctx, session); err != nil {
			return nil, err
		}
	}
}

func (s *Server) release(session string, turn *sessionTurn) {
	s.mu.Lock()
	delete(s.sessions, session)
	s.mu.Unlock()
	close(turn.over)
}

// wait waits for a turn that is about to end. Its error says that the turn goes on, or that ctx ended.
func (t *sessionTurn) wait(ctx context.Context, session string) error {
	timer := time.NewTimer(departure)
	defer timer.Stop()
	select {
	case <-t.ctx.Done():
	case <-t.over:
	case <-ctx.Done():
	case <-timer.C:
		return fmt.Errorf("a query is already running in session %s", excerpt(session))
	}
	select {
	case <-t.over:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
