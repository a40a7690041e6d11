package ash

import (
	"context"
	"fmt"
	"time"
)

// departure is how long a new turn of a session waits for the running one to be aborted. A host
// that reconnects can be faster than the news that its old connection has ended.
const departure = 100 * time.Millisecond

// sessionTurn is the running turn of a session.
type sessionTurn struct {
	ctx  context.Context
	over chan struct{}
}

// claim reserves the session for the turn of ctx; release gives it back. If another turn is
// running, claim waits until it is over if it is being aborted, and returns an error if it is not.
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

// wait waits for a turn that is being aborted. It returns an error if the turn continues or ctx
// ends.
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
