package mirror

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/convert"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/validate"
)

// appendBatch is how many messages go into the log with one sync.
const appendBatch = 512

// Append writes the records of messages to a log, in their order, each message once; it counts
// those that the log has already. See convert.Missing for messages whose records would share an id.
//
// A message that is not valid is a warning. The error is one of the log.
func Append(ctx context.Context, log *bridge.Log, messages []*schema.Message) (report Report, err error) {
	a := appender{log: log, report: &report}
	for batch := range slices.Chunk(messages, appendBatch) {
		if err := a.append(ctx, batch); err != nil {
			return report, err
		}
	}
	return report, nil
}

// An appender writes messages into a log.
type appender struct {
	log    recordLog
	report *Report
	// Messages from before since do not belong in the log, nor, with ownOnly, those derived from
	// other logs.
	since   time.Time
	ownOnly bool
}

// recordLog is what an appender needs of a *bridge.Log.
type recordLog interface {
	Path() string
	Find(ctx context.Context, id string) ([]bridge.Entry, error)
	SendAll(ctx context.Context, records []bridge.Record) ([]bridge.Receipt, error)
}

// outgoing is a record on its way into the log, and its message.
type outgoing struct {
	record  bridge.Record
	message *schema.Message
}

// append writes the records that the log lacks of the messages. When it returns without an error,
// all messages that belong in the log are in it and on disk.
func (a *appender) append(ctx context.Context, messages []*schema.Message) error {
	var belonging []*schema.Message
	for _, m := range messages {
		origin, derived := convert.OriginOf(m)
		if derived {
			there, err := a.hasOrigin(ctx, m, origin)
			if err != nil {
				return err
			}
			if there {
				a.report.AlreadyRecorded++
				continue
			}
		}
		if derived && a.ownOnly || m.CreatedAt.Time().Before(a.since) {
			a.report.LeftOut++
			continue
		}
		belonging = append(belonging, m)
	}
	for len(belonging) > 0 {
		missing, err := a.missing(ctx, belonging)
		if err != nil {
			return err
		}
		if belonging, err = a.write(ctx, missing); err != nil {
			return err
		}
	}
	return nil
}

// missing returns the records that the log lacks of the messages.
func (a *appender) missing(ctx context.Context, messages []*schema.Message) (missing []outgoing, err error) {
	claimed := make(map[string]bridge.Entry)
	find := func(id string) ([]bridge.Entry, error) {
		if e, ok := claimed[id]; ok {
			return []bridge.Entry{e}, nil
		}
		return a.log.Find(ctx, id)
	}
	for _, m := range messages {
		records, found, err := convert.Missing(m, find)
		var invalid *validate.InvalidError
		if errors.As(err, &invalid) {
			a.report.warn("message %s: %v", m.ID, err)
			continue
		}
		if err != nil {
			return nil, err
		}
		a.report.AlreadyRecorded += found
		for _, r := range records {
			claimed[r.ID] = bridge.Entry{Record: r}
			missing = append(missing, outgoing{r, m})
		}
	}
	return missing, nil
}

// write appends records. It returns the messages that lack a record still, because another process
// appended one with the same id meanwhile.
func (a *appender) write(ctx context.Context, all []outgoing) (again []*schema.Message, err error) {
	records := make([]bridge.Record, len(all))
	for i, one := range all {
		records[i] = one.record
	}
	receipts, err := a.log.SendAll(ctx, records)
	if errors.Is(err, bridge.ErrNotSynced) {
		return nil, err // what was written may not survive, so it does not count
	}
	for i, receipt := range receipts {
		switch {
		case !receipt.Duplicate:
			a.report.Recorded++
		case convert.Carries(receipt.Record, all[i].message):
			a.report.AlreadyRecorded++
		case !slices.Contains(again, all[i].message):
			again = append(again, all[i].message)
		}
	}
	if err == nil && len(receipts) < len(all) {
		err = fmt.Errorf("append to bridge log %s: %d of %d records were written", a.log.Path(), len(receipts), len(all))
	}
	return again, err
}

// hasOrigin reports whether the log has the record that a message was derived from.
func (a *appender) hasOrigin(ctx context.Context, m *schema.Message, o convert.Origin) (bool, error) {
	found, err := a.log.Find(ctx, o.ID)
	isOrigin := func(e bridge.Entry) bool { return o.Names(e.Record) && e.From == string(m.From) }
	return slices.ContainsFunc(found, isOrigin), err
}
