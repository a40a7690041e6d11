package agent

import (
	"context"
	"errors"
	"slices"
	"sync"
)

// A Pool keeps a few drivers running between their turns, each under a key of the caller, such as a
// conversation.
type Pool struct {
	// New makes the driver for a key. The driver continues the session if there is one.
	New func(key, session string) Driver
	// Most is how many drivers run between turns.
	Most int

	mu sync.Mutex
	// idle are the drivers between turns, the one that has been idle longest first.
	idle []idleDriver
}

type idleDriver struct {
	key    string
	driver Driver
}

// Get returns the key's driver, started. A new driver continues the session. If the agent does not
// know the session, Get begins a new one if mayBegin is set, and returns ErrUnknownSession otherwise.
// A driver that was kept for the empty key serves the first key without a session.
func (p *Pool) Get(ctx context.Context, key, session string, mayBegin bool) (Driver, error) {
	driver := p.take(key)
	if driver == nil && session == "" {
		driver = p.take("")
	}
	if driver != nil {
		return driver, nil
	}
	driver, err := p.start(ctx, key, session)
	if session != "" && mayBegin && errors.Is(err, ErrUnknownSession) {
		return p.start(ctx, key, "")
	}
	return driver, err
}

// take removes the key's driver from the idle ones and returns it, nil if there is none.
func (p *Pool) take(key string) Driver {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.IndexFunc(p.idle, func(idle idleDriver) bool { return idle.key == key })
	if i < 0 {
		return nil
	}
	driver := p.idle[i].driver
	p.idle = slices.Delete(p.idle, i, i+1)
	return driver
}

func (p *Pool) start(ctx context.Context, key, session string) (Driver, error) {
	driver := p.New(key, session)
	if err := driver.Start(ctx); err != nil {
		return nil, errors.Join(err, driver.Stop(context.WithoutCancel(ctx)))
	}
	return driver, nil
}

// Keep keeps a driver that Get returned for the key's next turn. If too many are idle, Keep stops the
// one that has been idle longest. The caller stops a driver whose turn failed, because it may be
// broken, and does not keep it.
func (p *Pool) Keep(ctx context.Context, key string, driver Driver) error {
	p.mu.Lock()
	p.idle = append(p.idle, idleDriver{key, driver})
	var old Driver
	if len(p.idle) > p.Most {
		old = p.idle[0].driver
		p.idle = slices.Delete(p.idle, 0, 1)
	}
	p.mu.Unlock()
	if old == nil {
		return nil
	}
	return old.Stop(context.WithoutCancel(ctx))
}

// Stop stops all idle drivers.
func (p *Pool) Stop(ctx context.Context) error {
	p.mu.Lock()
	idle := p.idle
	p.idle = nil
	p.mu.Unlock()
	var err error
	for _, i := range idle {
		err = errors.Join(err, i.driver.Stop(ctx))
	}
	return err
}
