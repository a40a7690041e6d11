package agent

import (
	"context"
	"sync"
)

// said is one thing that an agent's program said: a line of its output or a piece of its error
// output.
type said struct {
	line []byte
	// message is what the driver read the line as, nil if it makes no sense.
	message   any
	complaint string
}

// ongoing is a turn of an agent whose program lives longer than the turn.
type ongoing struct {
	said        chan said
	over        chan struct{}
	interrupted chan struct{}
}

// take hands the turn what was said and waits until it has it. It reports false when the turn is
// over.
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

// interruptible returns a context that ends when the turn is interrupted, too. The function ends it
// when that is not needed any more.
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

// turnSlot holds the turn that a driver is in the middle of, if it is.
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

// end ends the turn. What the program says from now on is not waited for.
func (s *turnSlot) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.turn != nil {
		close(s.turn.over)
		s.turn = nil
	}
}

// interrupt tells the turn that it is to end early.
func (s *turnSlot) interrupt() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.turn != nil && !s.interrupted {
		s.interrupted = true
		close(s.turn.interrupted)
	}
}

// deliver hands what was said to the turn that runs. It reports false if none does.
func (s *turnSlot) deliver(what said) bool {
	s.mu.Lock()
	turn := s.turn
	s.mu.Unlock()
	return turn != nil && turn.take(what)
}
