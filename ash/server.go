package ash

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"
)

// Send passes a message of the agent, any JSON value, to the host. It blocks while the host reads
// slowly. It returns an error if the host is gone or, without sending anything, if the data is not JSON
// or too long.
type Send func(data json.RawMessage) error

// Handler runs the turns of a bridge. Each method runs a turn, sends its messages in order and
// returns when the turn is over; send fails from then on. Its error goes to the host before the
// turn's done. Turns of different sessions run at the same time.
//
// A method must return soon after ctx ends. [context.Cause] says why it ended: [ErrInterrupted],
// after which messages still reach the host, [ErrConnectionLost], [ErrShutdown], or the cause of
// the context of [Server.Serve].
type Handler interface {
	Query(ctx context.Context, query Query, send Send) error
	Resume(ctx context.Context, sessionID string, send Send) error
}

// An Executor is a Handler that also runs command lines for hosts. An error, instead of a result, means that it did not
// run the command line.
type Executor interface {
	Exec(ctx context.Context, command Exec) (ExecResult, error)
}

var (
	// ErrInterrupted is why a turn's context ended when its host sent an interrupt.
	ErrInterrupted = errors.New("ash: interrupted")
	// ErrConnectionLost is why a turn's context ended when its host went away.
	ErrConnectionLost = errors.New("ash: connection lost")
	// ErrShutdown is why a turn's context ended when a host sent a shutdown.
	ErrShutdown = errors.New("ash: the bridge is shutting down")
)

// Server is the bridge's end of the protocol: a socket on which hosts connect, and their turns.
type Server struct {
	path    string
	handler Handler
	// writeTimeout is how long a host may read nothing of an event before its connection counts as
	// lost.
	writeTimeout time.Duration
	listener     net.Listener
	identity     os.FileInfo

	closing  sync.Once
	closeErr error

	mu       sync.Mutex
	sessions map[string]*sessionTurn
}

// Listen creates the socket at path, to which only its owner can connect. It replaces a stale
// socket. It returns [ErrSocketInUse] if a server answers on the socket, and [ErrSocketPath] if the
// path is too long or another file has it. The caller must call [Server.Serve] or [Server.Close].
func Listen(path string, handler Handler) (*Server, error) {
	s := &Server{path: path, handler: handler, writeTimeout: writePatience, sessions: make(map[string]*sessionTurn)}
	var err error
	if s.listener, s.identity, err = listenUnix(path); err != nil {
		return nil, fmt.Errorf("ash: listen: %w", err)
	}
	return s, nil
}

// SocketPath returns the path the server listens on.
func (s *Server) SocketPath() string { return s.path }

// Close removes the socket, unless another server has replaced it, and stops listening. Serve then
// ends as after a shutdown. Close may be called more than once.
func (s *Server) Close() error {
	s.closing.Do(func() {
		// While this server listens, no other replaces its socket.
		if found, err := os.Lstat(s.path); err == nil && os.SameFile(found, s.identity) {
			s.closeErr = os.Remove(s.path)
		}
		s.closeErr = errors.Join(s.closeErr, s.listener.Close())
	})
	return s.closeErr
}

// acceptFailures is how often in a row accepting may fail before Serve gives up.
const acceptFailures = 10

// Serve accepts connections and runs their turns until a host sends a shutdown or ctx ends. Then it
// removes the socket, ends all turns, waits for their handlers and sends their last events.
func (s *Server) Serve(ctx context.Context) error {
	ctx, stop := context.WithCancelCause(ctx)
	var connections sync.WaitGroup
	defer connections.Wait()
	defer stop(ErrShutdown)
	defer context.AfterFunc(ctx, func() { _ = s.Close() })() // Close keeps its error for the call below

	for failures := 0; ; {
		conn, err := s.listener.Accept()
		if err == nil {
			failures = 0
			connections.Go(func() { s.serveConnection(ctx, conn, stop) })
			continue
		}
		if ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
			return s.Close()
		}
		if failures++; failures == acceptFailures {
			return errors.Join(fmt.Errorf("ash: accept: %w", err), s.Close())
		}
		select {
		case <-ctx.Done():
		case <-time.After(5 * time.Millisecond << failures):
		}
	}
}

// departure is how long a new turn of a session waits for the running one to be aborted. A host can
// reconnect before the server notices that its old connection has ended.
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
			return func() {
				s.mu.Lock()
				delete(s.sessions, session)
				s.mu.Unlock()
				close(mine.over)
			}, nil
		}
		select {
		case <-running.over:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(departure):
			if running.ctx.Err() == nil {
				return nil, fmt.Errorf("a query is already running in session %s", excerpt(session))
			}
		}
	}
}
