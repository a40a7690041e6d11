package pair

import (
	"context"
	"errors"
	"fmt"

	"github.com/oacp-go/oacp/agent"
)

// driver returns the driver of an agent, and starts it first if need be.
func (s *Session) driver(ctx context.Context, name Agent) (agent.Driver, error) {
	if driver := s.drivers[name]; driver != nil {
		return driver, nil
	}
	if err := s.makeSureOfFolder(ctx); err != nil {
		return nil, &outsideError{err}
	}
	driver, err := s.startDriver(ctx, name)
	if errors.Is(err, agent.ErrUnknownSession) {
		s.manifest.forgetSession(name)
		driver, err = s.startDriver(ctx, name)
	}
	if err != nil {
		return nil, err
	}
	s.drivers[name] = driver
	return driver, nil
}

func (s *Session) startDriver(ctx context.Context, name Agent) (agent.Driver, error) {
	driver := s.options.NewDriver(name, s.manifest.Dir(), s.manifest.SessionID(name))
	if err := driver.Start(ctx); err != nil {
		return nil, errors.Join(err, driver.Stop(context.WithoutCancel(ctx)))
	}
	return driver, nil
}

func (s *Session) stopDriver(ctx context.Context, name Agent) error {
	driver := s.drivers[name]
	if driver == nil {
		return nil
	}
	delete(s.drivers, name)
	if err := driver.Stop(ctx); err != nil {
		return fmt.Errorf("stopping %s: %w", name, err)
	}
	return nil
}

func (s *Session) stopDrivers(ctx context.Context) error {
	return errors.Join(s.stopDriver(ctx, Claude), s.stopDriver(ctx, Codex))
}
