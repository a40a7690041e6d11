package mcpserver

import (
	"context"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/oacp-go/oacp/client"
)

// shown are the messages in answers to clients that have not called again since. Only the next call of a client proves that its
// model has the answer.
type shown struct {
	mu   sync.Mutex
	left map[*mcp.ServerSession][]*client.Request
}

type sessionKey struct{}

// show notes that the answer to this call has the messages.
func (s *Server) show(ctx context.Context, messages ...*client.Request) {
	session, _ := ctx.Value(sessionKey{}).(*mcp.ServerSession)
	s.shown.mu.Lock()
	defer s.shown.mu.Unlock()
	if s.shown.left == nil {
		s.shown.left = make(map[*mcp.ServerSession][]*client.Request)
	}
	s.shown.left[session] = append(s.shown.left[session], messages...)
}

// called records that the agent has noticed what earlier answers to the client have.
func (s *Server) called(session *mcp.ServerSession) {
	s.shown.mu.Lock()
	messages := s.shown.left[session]
	delete(s.shown.left, session)
	s.shown.mu.Unlock()
	if len(messages) == 0 {
		return
	}
	if err := s.client.Shown(messages...); err != nil {
		s.warn(err) // they count as given, not as noticed
	}
}
