package agent

import (
	"context"
	"sync"
)

// A lifetime is the time between the start and the stop of a driver. What starts a program within
// it is given up when it ends.
type lifetime struct {
	mu sync.Mutex
	// ctx ends with the lifetime. It is nil before the first.
	ctx    context.Context
	cancel context.CancelCauseFunc
	// inside is what has entered and not left.
	inside sync.WaitGroup
}

// begin begins a lifetime.
func (l *lifetime) begin() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ctx, l.cancel = context.WithCancelCause(context.Background())
}

// end ends the lifetime and waits until everything has left it.
func (l *lifetime) end() {
	l.mu.Lock()
	if l.ctx != nil {
		l.cancel(errNotStarted)
	}
	l.mu.Unlock()
	l.inside.Wait()
}

// hasEnded reports whether there is no lifetime.
func (l *lifetime) hasEnded() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ctx == nil || l.ctx.Err() != nil
}

// enter returns a context that ends with the lifetime, too, and what to call when that is over.
func (l *lifetime) enter(ctx context.Context) (_ context.Context, leave func(), err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ctx == nil || l.ctx.Err() != nil {
		return nil, nil, errNotStarted
	}
	l.inside.Add(1)
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(l.ctx, func() { cancel(errNotStarted) })
	return ctx, func() {
		stop()
		cancel(nil)
		l.inside.Done()
	}, nil
}
