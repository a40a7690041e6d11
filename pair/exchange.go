package pair

import (
	"context"
	"errors"
	"fmt"

	"github.com/oacp-go/oacp/bridge"
)

// exchange carries messages between the bridge and elsewhere, and tells what
// has been dealt with.
func (s *Session) exchange(ctx context.Context) error {
	if s.options.Exchange != nil {
		if err := s.options.Exchange(ctx); err != nil {
			return err
		}
	}
	if s.options.Acknowledge == nil {
		return nil
	}
	return errors.Join(s.acknowledge(ctx, Claude), s.acknowledge(ctx, Codex))
}

// acknowledge tells of the records that an agent has dealt with since the last
// time, and writes down that it did.
func (s *Session) acknowledge(ctx context.Context, name Agent) error {
	m := &s.manifest
	from, to := m.Acknowledged[name], m.Cursors[name]
	if from == to {
		return nil
	}
	var dealtWith []bridge.Record
	for entry, err := range s.log.DrainAfter(ctx, string(name), from) {
		if err != nil {
			return fmt.Errorf("reading what %s was given: %w", name, err)
		}
		if entry.Line > to.Line() {
			break
		}
		dealtWith = append(dealtWith, entry.Record)
	}
	if err := s.options.Acknowledge(ctx, name, dealtWith); err != nil {
		return fmt.Errorf("acknowledging what %s was given: %w", name, err)
	}
	if m.Acknowledged == nil {
		m.Acknowledged = make(map[Agent]bridge.Cursor)
	}
	m.Acknowledged[name] = to
	return s.save()
}
