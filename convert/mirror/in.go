package mirror

import (
	"context"
	"errors"

	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/mailbox"
)

// inward carries what is new in a log into the mailboxes.
type inward struct {
	workspace *mailbox.Workspace
	log       *bridge.Log
	// ledger is what the way into the log knows.
	ledger func(context.Context) (*ledger, error)
	seen   seen
}

func (i *inward) pass(ctx context.Context, report *Report, count *progress) error {
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
		err = errors.Join(err, i.seen.save(i.workspace, i.log, In))
	}
	return err
}

// deliver delivers the records behind the saved place, at least up to end.
func (i *inward) deliver(ctx context.Context, end bridge.Cursor, report *Report, count *progress) error {
	status, err := i.log.Status(ctx)
	if err != nil {
		return err
	}
	d := newDeliverer(i.workspace, i.log.Path(), report)
	d.ledger = i.ledger
	count.add(0, status.TotalMessages+status.SkippedLines-i.seen.Delivered.Line())
	d.progress = func(e bridge.Entry) {
		count.add(1, 0)
		if e.Line > 0 && len(d.waiting) == 0 && len(d.failed) == 0 {
			i.seen.Delivered = e.Cursor()
		}
	}
	last, skipped, err := d.run(ctx, i.log.Records(ctx, i.seen.Delivered))
	switch {
	case err != nil:
		return err
	case skipped:
		i.seen.Delivered = end // a skipped line has no place of its own; the end was taken before it was read
	case last.Line > 0:
		i.seen.Delivered = last.Cursor()
	}
	return nil
}
