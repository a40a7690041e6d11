package convert

import (
	"context"
	"errors"
	"time"

	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/mailbox"
)

// saveEvery is how often the place in the log is saved in the middle of a long way.
const saveEvery = time.Second

// inward carries what is new in a log into the mailboxes.
type inward struct {
	workspace *mailbox.Workspace
	log       *bridge.Log
	outboxes  *outboxes
	// wasRecorded is what the way out knows; see deliverer.
	wasRecorded func(context.Context, recorded) (bool, error)

	loaded bool
	state  inwardState
	saved  time.Time
}

func (i *inward) pass(ctx context.Context, report *Report, count *progress) error {
	if !i.loaded {
		i.state = loadState[inwardState](i.statePath())
		i.state.Log, i.loaded, i.saved = i.log.Path(), true, time.Now()
	}
	known, err := hasPlace(ctx, i.log, i.state.Delivered)
	if err != nil {
		return err
	}
	if !known {
		report.warn("%s is not the log it was; all of it is looked at again", i.log.Path())
		i.state.Delivered = ""
	}
	end, err := i.log.End(ctx)
	if err != nil || end == i.state.Delivered {
		return err
	}
	before := i.state.Delivered
	err = i.deliver(ctx, end, report, count)
	if i.state.Delivered != before {
		stateWarning(report, i.save())
	}
	return err
}

func (i *inward) statePath() string { return statePath(i.workspace, i.log, In) }

func (i *inward) save() error {
	i.saved = time.Now()
	return saveState(i.workspace, i.statePath(), i.state)
}

// deliver delivers what stands behind the saved place, of which end is known to be a part.
func (i *inward) deliver(ctx context.Context, end bridge.Cursor, report *Report, count *progress) (err error) {
	lines, err := i.lines(ctx)
	if err != nil {
		return err
	}
	d := newDeliverer(i.workspace, i.outboxes, i.log.Path(), report)
	d.wasRecorded = i.wasRecorded
	d.others = &otherLogs{workspace: i.workspace, own: i.log.Path()}
	defer func() { err = errors.Join(err, d.others.close()) }()
	handled := i.state.Delivered
	first := true
	for e, err := range i.log.Records(ctx, i.state.Delivered) {
		switch {
		case err == nil:
			if first {
				count.expect(lines - e.Line + 1)
				first = false
			}
			if err := d.accept(ctx, e); err != nil {
				return err
			}
			handled = e.Cursor()
		case report.skip(err):
			// A skipped line has no place of its own. The end was taken before, so nothing behind it is.
			handled = end
		default:
			return errors.Join(err, d.flush(ctx))
		}
		count.add(1)
		if len(d.waiting) == 0 && len(d.failed) == 0 {
			i.state.Delivered = handled
			if time.Since(i.saved) > saveEvery {
				stateWarning(report, i.save())
			}
		}
	}
	if err := errors.Join(d.flush(ctx), d.failure()); err != nil {
		return err
	}
	i.state.Delivered = handled
	return nil
}

// lines returns how many lines the log has.
func (i *inward) lines(ctx context.Context) (int, error) {
	status, err := i.log.Status(ctx)
	return status.TotalMessages + status.SkippedLines, err
}
