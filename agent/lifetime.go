package agent

import (
	"context"
	"sync"
)

// A lifetime lasts from the start to the stop of a driver. Programs that are still starting when it
// ends are given up.
type lifetime struct {
	mu sync.Mutex
	// ctx ends with the lifetime. It is nil before the first.
	ctx    context.Context
	cancel context.CancelCauseFunc
	// inside counts the callers between enter and leave.
	inside sync.WaitGroup
}

// begin begins a lifetime.
func (l *lifetime) begin() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ctx, l.cancel = context.WithCancelCause(context.Background())
}

// end ends the lifetime and waits until all callers have left it.
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

// enter returns a context that ends with the lifetime, too. The caller must call leave.
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
