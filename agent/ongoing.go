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
	said        chan said
	over        chan struct{}
	interrupted chan struct{}
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

func (o *ongoing) isInterrupted() bool {
	select {
	case <-o.interrupted:
		return true
	default:
		return false
	}
}

// interruptible returns a context that also ends when the turn is interrupted, and a function that
// releases it.
func (o *ongoing) interruptible(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	var watching sync.WaitGroup
	watching.Go(func() {
		select {
		case <-o.interrupted:
			cancel(ErrInterrupted)
		case <-ctx.Done():
		}
	})
	return ctx, func() {
		cancel(nil)
		watching.Wait()
	}
}

// turnSlot holds the running turn of a driver, if there is one.
type turnSlot struct {
	mu          sync.Mutex
	turn        *ongoing
	interrupted bool
}

func (s *turnSlot) begin() *ongoing {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.turn = &ongoing{said: make(chan said), over: make(chan struct{}), interrupted: make(chan struct{})}
	s.interrupted = false
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
	if s.turn != nil && !s.interrupted {
		s.interrupted = true
		close(s.turn.interrupted)
	}
}

// deliver hands what the program said to the running turn. It reports false if there is none.
func (s *turnSlot) deliver(what said) bool {
	s.mu.Lock()
	turn := s.turn
	s.mu.Unlock()
	return turn != nil && turn.take(what)
}
