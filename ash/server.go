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

// Send passes one message of the agent to the host, any JSON value. It returns when the line is handed to the socket,
// so a host that reads slowly slows the turn down. An error means that the data is not JSON or too long for a line, in
// which case nothing was sent and the turn may go on, or that the host is gone.
type Send func(data json.RawMessage) error

// Handler runs the turns of a bridge. Each method runs one turn, calls send for each of its messages in order (from one
// goroutine at a time or from several) and returns when the turn is over; send fails from then on. An error it returns
// is reported to the host before the turn's done.
//
// It must return soon after ctx ends. [context.Cause] says why it ended: [ErrInterrupted], [ErrConnectionLost] or
// [ErrShutdown], or what ended the context given to [Server.Serve]. What it still sends after an interrupt reaches the
// host. Turns of different sessions run at the same time.
type Handler interface {
	Query(ctx context.Context, query Query, send Send) error
	Resume(ctx context.Context, resume Resume, send Send) error
}

var (
	// ErrInterrupted is why a turn's context ended when its host sent an interrupt.
	ErrInterrupted = errors.New("ash: interrupted")
	// ErrConnectionLost is why a turn's context ended when its host went away.
	ErrConnectionLost = errors.New("ash: connection lost")
	// ErrShutdown is why a turn's context ended when a host sent a shutdown.
	ErrShutdown = errors.New("ash: the bridge is shutting down")
)

// Server is the bridge's end of the protocol: a socket on which hosts connect, and the turns they start. Make one with
// [Listen].
type Server struct {
	path    string
	handler Handler
	// writeTimeout is how long a host may read nothing, while events wait for it, before its connection counts as lost.
	writeTimeout time.Duration
	listener     net.Listener
	identity     os.FileInfo

	closing  sync.Once
	closeErr error

	mu       sync.Mutex
	sessions map[string]*sessionTurn
}

// Listen makes the socket at path, open to its owner alone from the first moment, and returns the server that listens
// on it. A stale socket is replaced; one that somebody answers on is left alone ([ErrSocketInUse]), and so is anything
// that is no socket ([ErrSocketPath], also for a path that is too long). The caller calls [Server.Serve], or
// [Server.Close] if it changes its mind.
func Listen(path string, handler Handler) (*Server, error) {
	s := &Server{path: path, handler: handler, writeTimeout: time.Minute, sessions: make(map[string]*sessionTurn)}
	var err error
	if s.listener, s.identity, err = listenUnix(path); err != nil {
		return nil, fmt.Errorf("ash: listen: %w", err)
	}
	return s, nil
}

// SocketPath returns the path the server listens on.
func (s *Server) SocketPath() string { return s.path }

// Close removes the socket and stops listening; it leaves the socket alone if another server has replaced it.
// A [Server.Serve] under way ends as if a host had sent a shutdown. It may be called more than once.
func (s *Server) Close() error {
	s.closing.Do(func() {
		s.closeErr = errors.Join(removeSocket(s.path, s.identity), s.listener.Close())
	})
	return s.closeErr
}

// acceptFailures is how often in a row accepting may fail, with a growing pause, before Serve gives up.
const acceptFailures = 10

// Serve accepts connections and runs their turns until a host sends a shutdown or ctx ends. Then it removes the socket,
// ends the context of every turn, waits for the handlers and sends their last events, and returns nil. Any error is one
// of the socket.
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
		pause(ctx, 5*time.Millisecond<<failures)
	}
}

func pause(ctx context.Context, length time.Duration) {
	timer := time.NewTimer(length)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
