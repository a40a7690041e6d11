package gitmail

import (
	"context"
	"errors"
	"path/filepath"
	"slices"

	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// acknowledge removes the inbox copies of messages that were acknowledged elsewhere: those that the tip
// no longer has, and those of messages that are new in the tip without one.
func (e *exchange) acknowledge(ctx context.Context, news *arrivals, known []*arrival) error {
	agents, err := e.r.w.Agents()
	if err != nil {
		return err
	}
	gone := news.acknowledged
	for _, a := range known {
		for _, agent := range agents {
			if a.sent && !slices.Contains(a.pending, agent) {
				gone = append(gone, place{agent, mailbox.Inbox, a.name})
			}
		}
	}
	kinds := make(map[string]Kind)
	for _, file := range news.kept {
		kind := Archived
		if file.box == mailbox.DeadLetters {
			kind = DeadLetter
		}
		kinds[string(file.agent)+"/"+file.message()] = kind
	}
	for _, p := range gone {
		entry, err := e.pending(p)
		if err != nil || entry == nil {
			if err != nil {
				return err
			}
			continue
		}
		kind, ok := kinds[string(p.agent)+"/"+p.name]
		if !ok {
			kind = Acknowledged
		}
		c := Change{Direction: In, Kind: kind, Agent: p.agent}
		if m, err := e.readFile(place{p.agent, mailbox.Inbox, entry.Name}); err == nil {
			c.describe(m)
		}
		if err := e.write(func() error { return e.r.w.Acknowledge(*entry) }); err != nil && !mailbox.IsGone(err) {
			return err
		}
		e.result.Changes = append(e.result.Changes, c)
	}
	return context.Cause(ctx)
}

// pending returns the inbox copy of a message, or nil if there is none.
func (e *exchange) pending(p place) (*mailbox.Entry, error) {
	name, err := e.find(p)
	if name == "" || err != nil {
		return nil, err
	}
	return &mailbox.Entry{Agent: p.agent, Box: p.box, Name: name, Path: filepath.Join(e.r.w.BoxPath(p.agent, p.box), name)}, nil
}

// revive puts messages back into inboxes that were restored on another machine. A tip that was rewound
// revives nothing.
func (e *exchange) revive(ctx context.Context, known []*arrival) error {
	for _, a := range known {
		if a.sent || len(a.pending) == 0 {
			continue
		}
		if descends, err := e.descends(ctx); !descends || err != nil {
			return err
		}
		for _, agent := range a.pending {
			if err := e.putBack(ctx, a, agent); err != nil {
				return err
			}
		}
	}
	return nil
}

// putBack restores a message that an agent has acknowledged here.
func (e *exchange) putBack(ctx context.Context, a *arrival, agent schema.AgentName) error {
	if entry, err := e.pending(place{agent, mailbox.Inbox, a.name}); entry != nil || err != nil {
		return err
	}
	_, m, err := e.original(a.name)
	if err != nil {
		return err
	}
	c := Change{Direction: In, Kind: Restored, Agent: agent}
	c.describe(m)
	err = e.write(func() error {
		if e.o.Restore != nil {
			return e.o.Restore(ctx, m, agent)
		}
		_, err := e.r.w.Restore(ctx, m, agent, func(mailbox.Entry) error { return nil })
		return err
	})
	if _, pending := errors.AsType[*mailbox.PendingError](err); err != nil && !pending {
		return err
	}
	e.result.Changes = append(e.result.Changes, c)
	return nil
}
