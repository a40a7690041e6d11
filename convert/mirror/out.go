package mirror

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"time"

	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/watch"
	"github.com/oacp-go/oacp/schema"
)

// outward carries what is new in the outboxes into a log.
type outward struct {
	workspace *mailbox.Workspace
	log       *bridge.Log

	seen   seen
	ledger *ledger // nil until it is needed
	// since and all say what belongs in the log, see Mirror, and bound says so in a word. Afresh is set if the
	// caller said so: then messages that were left out before are looked at again.
	since  time.Time
	all    bool
	bound  string
	afresh bool
	// only is Mirror.Only, and passedOver are the files that it rejected.
	only       func(*schema.Message) bool
	passedOver map[copyKey]bool
	// reported are the files that were reported as bad.
	reported map[copyKey]bool
	// unsettled are the paths of files that were not settled in the last pass, and sightings how they were found.
	unsettled []string
	sightings map[copyKey]watch.Sighting
	now       func() time.Time
}

// pass carries what is new.
func (o *outward) pass(ctx context.Context, report *Report, count *progress) (err error) {
	if err := o.check(ctx); err != nil {
		return err
	}
	s := &scan{
		dirs:     make(map[schema.AgentName]*durable.Dir),
		modified: make(map[schema.AgentName]time.Time), again: make(map[schema.AgentName]bool),
	}
	defer func() { err = errors.Join(err, s.close()) }()
	if err := o.list(ctx, s); err != nil {
		return err
	}
	if err := s.read(ctx); err != nil {
		return err
	}
	count.add(0, len(s.found))
	for batch := range slices.Chunk(s.found, appendBatch) {
		if err := o.record(ctx, s, batch, report); err != nil {
			return err
		}
		count.add(len(batch), 0)
	}
	o.remember(s)
	return errors.Join(o.finish(ctx, s), s.failed)
}

// remember keeps the files that are not settled for the next pass.
func (o *outward) remember(s *scan) {
	o.unsettled, o.sightings = nil, make(map[copyKey]watch.Sighting, len(s.unsettled))
	for _, f := range s.unsettled {
		s.again[f.agent] = true
		o.unsettled = append(o.unsettled, s.dirs[f.agent].Path(f.name))
		o.sightings[f.key] = f.sighting
	}
}

// leave leaves a file for another pass.
func (o *outward) leave(s *scan, f *outboxFile, report *Report) {
	s.again[f.agent] = true
	switch {
	case errors.Is(f.err, fs.ErrNotExist):
	case errors.Is(f.err, errChanging):
		s.unsettled = append(s.unsettled, f)
	case !o.reported[f.key]:
		o.reported[f.key] = true
		report.warn("%s: left out: %v", s.dirs[f.agent].Path(f.name), f.err)
	}
}

// check forgets what was seen if it is not about this log.
func (o *outward) check(ctx context.Context) error {
	known, err := hasPlace(ctx, o.log, o.seen.Recorded)
	if err != nil {
		return err
	}
	if !known || o.seen.Recorded == "" || o.seen.Outboxes == nil {
		o.seen.Outboxes = make(map[schema.AgentName]time.Time)
	}
	if !known {
		o.seen.Recorded = ""
		if o.ledger != nil {
			return o.ledger.forgetCopies()
		}
	}
	return nil
}

// needLedger reads the ledger if it was not read before.
func (o *outward) needLedger(ctx context.Context) (*ledger, error) {
	if o.ledger != nil {
		return o.ledger, nil
	}
	ledger, err := loadLedger(ctx, o.workspace, o.log)
	if err != nil {
		return nil, err
	}
	if o.afresh {
		clear(ledger.copies)
	}
	o.ledger = ledger
	return ledger, nil
}

// record appends the messages of files to the log and then writes them down in the ledger.
func (o *outward) record(ctx context.Context, s *scan, files []*outboxFile, report *Report) error {
	messages := make([]*schema.Message, 0, len(files))
	lines := make([]ledgerLine, 0, len(files))
	for _, f := range files {
		if f.message == nil && f.err == nil {
			s.load(f)
		}
		if f.err != nil {
			o.leave(s, f, report)
			continue
		}
		m := f.message
		f.message = nil
		if o.only != nil && !o.only(m) {
			o.passedOver[f.key], s.again[f.agent] = true, true
			continue
		}
		identity, err := identityOf(m)
		if err != nil {
			return err
		}
		messages, lines = append(messages, m), append(lines, ledgerLine{f.key, identity})
	}
	if len(messages) == 0 {
		return nil
	}
	a := appender{log: o.log, report: report, since: o.since, ownOnly: !o.all}
	if err := a.append(ctx, messages); err != nil {
		return err
	}
	for i, m := range messages {
		if a.leftOut[m] {
			lines[i].key = lines[i].key.under(o.bound)
		}
	}
	place, err := o.log.End(ctx)
	if err != nil {
		return err
	}
	return o.ledger.add(lines, place)
}

// finish saves that everything that was found is dealt with.
func (o *outward) finish(ctx context.Context, s *scan) error {
	forgotten := false
	for agent := range s.again {
		_, known := o.seen.Outboxes[agent]
		forgotten = forgotten || known
		delete(o.seen.Outboxes, agent)
		delete(s.modified, agent)
	}
	if len(s.found) == 0 && len(s.modified) == 0 && !forgotten {
		return nil
	}
	place, err := o.log.End(ctx)
	if err != nil {
		return fmt.Errorf("end of the log: %w", err)
	}
	o.seen.Recorded = place
	maps.Copy(o.seen.Outboxes, s.modified)
	return o.seen.save(o.workspace, o.log, Out)
}
