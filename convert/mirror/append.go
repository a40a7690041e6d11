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

// appendBatch is how many messages are appended to the log with one sync.
const appendBatch = 512

// An appender writes messages into a log.
type appender struct {
	log    recordLog
	report *Report
	// Messages from before since do not belong in the log. Nor do those derived from other logs, and those of the second
	// since that the earlier log, if any, has.
	since   time.Time
	earlier string
	// ended is the state in which the run has ended, if it has: then nobody reads what the log would get.
	ended string
}

// recordLog is the part of *bridge.Log that an appender uses. A test replaces it.
type recordLog interface {
	Path() string
	Find(ctx context.Context, id string) ([]bridge.Entry, error)
	SendAll(ctx context.Context, records []bridge.Record) ([]bridge.Receipt, error)
}

// append writes the records of the messages that the log lacks. After it returns without an error, the
// log has all messages that belong in it, on disk.
func (a *appender) append(ctx context.Context, messages []*schema.Message) error {
	messages, err := a.belonging(ctx, messages)
	for len(messages) > 0 && err == nil {
		messages, err = a.write(ctx, messages)
	}
	return err
}

// belonging returns the messages that belong in the log, and counts the others.
func (a *appender) belonging(ctx context.Context, messages []*schema.Message) (belonging []*schema.Message, err error) {
	for _, m := range messages {
		origin, derived := convert.OriginOf(m)
		recorded, before := false, m.CreatedAt.Time().Before(a.since)
		switch {
		case derived:
			recorded, err = a.hasOrigin(ctx, m, origin)
		case a.earlier != "" && m.CreatedAt.Time().Truncate(time.Second).Equal(a.since):
			before, err = a.isInEarlier(ctx, m)
		}
		switch {
		case err != nil:
			return nil, err
		case recorded:
			a.report.AlreadyRecorded++
		case derived, before:
			a.report.LeftOut++
		default:
			belonging = append(belonging, m)
		}
	}
	return belonging, nil
}

// write appends the records of the messages that the log lacks. It returns the messages that still lack a
// record because another process meanwhile appended another record with the same id.
func (a *appender) write(ctx context.Context, messages []*schema.Message) (again []*schema.Message, err error) {
	records, owners, err := a.missing(ctx, messages)
	if err != nil {
		return nil, err
	}
	if a.ended != "" {
		a.report.NotRecorded += len(slices.Compact(owners))
		return nil, nil
	}
	receipts, err := a.log.SendAll(ctx, records)
	if errors.Is(err, bridge.ErrNotSynced) {
		return nil, err // the new records may not survive a crash, so they do not count
	}
	for i, receipt := range receipts {
		switch {
		case !receipt.Duplicate:
			a.report.Recorded++
		case convert.Carries(receipt.Record, owners[i]):
			a.report.AlreadyRecorded++
		case !slices.Contains(again, owners[i]):
			again = append(again, owners[i])
		}
	}
	if err == nil && len(receipts) < len(records) {
		err = fmt.Errorf("append to bridge log %s: %d of %d records were written", a.log.Path(), len(receipts), len(records))
	}
	return again, err
}

// missing returns the records of the messages that the log lacks, and the message of each record.
func (a *appender) missing(ctx context.Context, messages []*schema.Message) (missing []bridge.Record, owners []*schema.Message, err error) {
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
			return nil, nil, err
		}
		a.report.AlreadyRecorded += found
		for _, r := range records {
			claimed[r.ID] = bridge.Entry{Record: r}
			missing, owners = append(missing, r), append(owners, m)
		}
	}
	return missing, owners, nil
}

// isInEarlier reports whether the log of the run before has the message. Messages have times of whole seconds, so the time
// does not say in which of two runs one was sent.
func (a *appender) isInEarlier(ctx context.Context, m *schema.Message) (_ bool, err error) {
	log, err := bridge.Open(a.earlier, nil)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	for e, err := range log.Records(ctx, "") {
		var line *bridge.LineError
		switch {
		case errors.As(err, &line):
		case err != nil:
			return false, err
		case convert.Carries(e.Record, m):
			return true, nil
		}
	}
	return false, nil
}

func (a *appender) hasOrigin(ctx context.Context, m *schema.Message, o convert.Origin) (bool, error) {
	found, err := a.log.Find(ctx, o.ID)
	isOrigin := func(e bridge.Entry) bool { return o.Names(e.Record) && e.From == string(m.From) }
	return slices.ContainsFunc(found, isOrigin), err
}
