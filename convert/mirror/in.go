package mirror

import (
	"context"
	"errors"
	"time"

	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/mailbox"
)

// saveEvery is how often the place in the log is saved while many records are delivered.
const saveEvery = time.Second

// inward carries what is new in a log into the mailboxes.
type inward struct {
	workspace *mailbox.Workspace
	log       *bridge.Log
	// ledger is what the way into the log knows.
	ledger func(context.Context) (*ledger, error)

	loaded bool
	seen   inSeen
	saved  time.Time
}

func (i *inward) pass(ctx context.Context, report *Report, count *progress) error {
	if !i.loaded {
		i.seen = loadSeen[inSeen](i.workspace, i.stateFile())
		i.seen.Log, i.loaded, i.saved = i.log.Path(), true, time.Now()
	}
	known, err := hasPlace(ctx, i.log, i.seen.Delivered)
	if err != nil {
		return err
	}
	if !known {
		report.warn("%s was replaced; all of it is read again", i.log.Path())
		i.seen.Delivered = ""
	}
	end, err := i.log.End(ctx)
	if err != nil || end == i.seen.Delivered {
		return err
	}
	before := i.seen.Delivered
	err = i.deliver(ctx, end, report, count)
	if i.seen.Delivered != before {
		stateWarning(report, i.save())
	}
	return err
}

func (i *inward) stateFile() string { return stateFile(i.log, In) }

func (i *inward) save() error {
	i.saved = time.Now()
	return saveSeen(i.workspace, i.stateFile(), i.seen)
}

// deliver delivers the records behind the saved place, at least up to end.
func (i *inward) deliver(ctx context.Context, end bridge.Cursor, report *Report, count *progress) error {
	status, err := i.log.Status(ctx)
	if err != nil {
		return err
	}
	d := newDeliverer(i.workspace, i.log.Path(), report)
	d.ledger = i.ledger
	handled, first, afterSkipped := i.seen.Delivered, true, false
	for e, err := range i.log.Records(ctx, i.seen.Delivered) {
		switch {
		case err == nil:
			if first {
				count.expect(status.TotalMessages + status.SkippedLines - e.Line + 1)
				first = false
			}
			if err := d.accept(ctx, e); err != nil {
				return err
			}
			handled, afterSkipped = e.Cursor(), false
		case report.skip(err):
			afterSkipped = true // a skipped line has no place of its own
		default:
			return errors.Join(err, d.flush(ctx))
		}
		count.add(1)
		if len(d.waiting) == 0 && len(d.failed) == 0 {
			i.seen.Delivered = handled
			if time.Since(i.saved) > saveEvery {
				stateWarning(report, i.save())
			}
		}
	}
	if err := errors.Join(d.flush(ctx), d.failure()); err != nil {
		return err
	}
	if afterSkipped {
		handled = end // which was taken before, so no record is behind the skipped line and before it
	}
	i.seen.Delivered = handled
	return nil
}
