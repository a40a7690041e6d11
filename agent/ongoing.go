package agent

import (
	"context"
	"sync"
)

// said is a line of a program's output, or a piece of its error output if line is nil.
type said struct {
	line []byte
	// message is the line as the driver read it, nil if it is not a message.
	message any
	stderr  string
}

// ongoing is a turn of a program that lives longer than the turn.
type ongoing struct {
	said chan said
	over chan struct{}
	// interrupted ends when the turn is interrupted.
	interrupted context.Context
	interrupt   context.CancelFunc
}

// take hands the turn what the program said and waits until it has it. It reports false if the turn
// is over.
func (o *ongoing) take(s said) bool {
	select {
	case o.said <- s:
		return true
	case <-o.over:
		return false
	}
}

func (o *ongoing) isInterrupted() bool { return o.interrupted.Err() != nil }

// endingWith returns a context that also ends when the other does, for the given cause, and a
// function that releases it.
func endingWith(ctx, other context.Context, cause error) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(other, func() { cancel(cause) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

// turnSlot holds the running turn of a driver, if there is one.
type turnSlot struct {
	mu   sync.Mutex
	turn *ongoing
}

func (s *turnSlot) begin() *ongoing {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.turn = &ongoing{said: make(chan said), over: make(chan struct{})}
	s.turn.interrupted, s.turn.interrupt = context.WithCancel(context.Background())
	return s.turn
}

// end ends the turn. What the program says from now on is dropped.
func (s *turnSlot) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.turn != nil {
		close(s.turn.over)
		s.turn = nil
	}
}

// interrupt asks the turn to end early.
func (s *turnSlot) interrupt() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.turn != nil {
		s.turn.interrupt()
	}
}

// deliver hands what the program said to the running turn. It reports false if there is none.
func (s *turnSlot) deliver(what said) bool {
	s.mu.Lock()
	turn := s.turn
	s.mu.Unlock()
	return turn != nil && turn.take(what)
}
