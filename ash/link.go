package ash

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
)

// link is a connection to a bridge. A goroutine reads its events: it passes them to the running
// turn, and drops them between turns, so that no turn gets events of an earlier one.
type link struct {
	conn  net.Conn
	out   *lineWriter
	ready chan struct{} // closed by the first ready
	quit  chan struct{} // closed by close
	ended chan struct{} // closed when the reader is done and err is set
	err   error

	order sync.Mutex // held to begin a turn, and to interrupt one
	mu    sync.Mutex
	turn  *hostTurn
	once  sync.Once
}

// hostTurn is the running turn as the host sees it.
type hostTurn struct {
	events chan Event
	over   chan struct{} // closed when nobody receives events
	// session is the id in its done.
	session string
}

func newLink(conn net.Conn, options ClientOptions) *link {
	l := &link{
		conn:  conn,
		out:   newLineWriter(conn, options.WriteTimeout),
		ready: make(chan struct{}),
		quit:  make(chan struct{}),
		ended: make(chan struct{}),
	}
	go l.read()
	return l
}

func (l *link) read() {
	defer close(l.ended)
	err := l.readEvents()
	select {
	case <-l.quit:
		err = errors.New("closed at this end")
	default:
		if errors.Is(err, io.EOF) {
			err = errors.New("closed by the bridge")
		}
	}
	l.err = fmt.Errorf("%w: %w", ErrClosed, err)
	_ = l.conn.Close() // it has ended already
}

// readEvents delivers events until there are no more, and returns why. An unreadable line is a
// reason, because it may have been the done of the turn.
func (l *link) readEvents() error {
	lines := newLineReader(l.conn)
	announced := false
	for {
		line, err := lines.next()
		if err != nil {
			return err
		}
		event, err := DecodeEvent(line)
		if errors.Is(err, ErrUnknownName) {
			continue
		}
		if err != nil {
			return err
		}
		if _, isReady := event.(Ready); !isReady {
			l.deliver(event)
			continue
		}
		if !announced {
			announced = true
			close(l.ready)
		}
	}
}

func (l *link) deliver(event Event) {
	l.mu.Lock()
	turn := l.turn
	l.mu.Unlock()
	if turn == nil {
		return
	}
	select {
	case turn.events <- event:
	case <-turn.over:
	case <-l.quit:
	}
}

// begin begins a turn.
func (l *link) begin() (*hostTurn, error) {
	select {
	case <-l.ended:
		return nil, fmt.Errorf("%w: %w", ErrNotSent, l.err)
	case <-l.quit:
		return nil, fmt.Errorf("%w: %w", ErrNotSent, ErrClosed)
	default:
	}
	l.order.Lock()
	defer l.order.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.turn != nil {
		return nil, ErrBusy
	}
	l.turn = &hostTurn{events: make(chan Event), over: make(chan struct{})}
	return l.turn, nil
}

func (l *link) finish(turn *hostTurn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.turn = nil
	close(turn.over)
}

// interrupt sends an interrupt if a turn is running. No turn can begin meanwhile, so the bridge
// never takes the interrupt for that of the next query.
func (l *link) interrupt(ctx context.Context) error {
	l.order.Lock()
	defer l.order.Unlock()
	l.mu.Lock()
	idle := l.turn == nil
	l.mu.Unlock()
	if idle {
		return nil
	}
	return l.write(ctx, Interrupt{})
}

// write sends a command. It returns ErrNotSent if the bridge cannot have got all of it.
func (l *link) write(ctx context.Context, command Command) error {
	line, err := EncodeCommand(command)
	if err != nil {
		return err
	}
	if err := l.out.write(ctx, line); err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
		return fmt.Errorf("%w: %w: %w", ErrNotSent, ErrClosed, err)
	}
	return nil
}

// close ends the connection and waits for its reader.
func (l *link) close() {
	l.once.Do(func() {
		close(l.quit)
		_ = l.conn.Close() // the reader reports the error
	})
	<-l.ended
}
