package convert

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/schema"
)

// appendBatch is how many messages go into the log with one sync.
const appendBatch = 512

// Append writes the records of messages to a log, in their order, each message once: what the log holds of
// them already is counted, not written again. Where two different messages would share a record id, because
// the same words went from the same sender to the same recipient twice, the later one's content gets a last
// line "OACP-Id: <id>".
//
// A message that is not valid is a warning and does not keep the others back. The error is one of the log.
func Append(ctx context.Context, log *bridge.Log, messages []*schema.Message) (Report, error) {
	var report Report
	a := appender{log: log, report: &report}
	for start := 0; start < len(messages); start += appendBatch {
		if err := a.append(ctx, messages[start:min(start+appendBatch, len(messages))]); err != nil {
			return report, err
		}
	}
	return report, nil
}

// An appender writes messages into a log.
type appender struct {
	log    *bridge.Log
	report *Report
	// since is when the messages begin that belong in the log. OwnOnly keeps those out that were born in
	// another log.
	since   time.Time
	ownOnly bool
	// leftOut are the messages that were kept out.
	leftOut map[*schema.Message]bool
}

// parcel is a record of a message on its way into the log.
type parcel struct {
	record  bridge.Record
	message *schema.Message
	origin  *origin // of a message that was born in a log, otherwise nil
}

// append writes what the log does not hold of the messages. When it returns without an error, they are all
// in the log and on disk.
func (a *appender) append(ctx context.Context, messages []*schema.Message) error {
	var missing []parcel
	claimed := make(map[string]bridge.Record)
	for _, m := range messages {
		records, err := ToBridge(m, 0)
		if err != nil {
			a.report.warn("message %s: %v", m.ID, err)
			continue
		}
		origin, there, err := a.hasOrigin(ctx, m)
		if err != nil {
			return err
		}
		if there {
			a.report.AlreadyRecorded++
			continue
		}
		if origin != nil && a.ownOnly || m.CreatedAt.Time().Before(a.since) {
			a.leaveOut(m)
			continue
		}
		for _, r := range records {
			p, err := parcel{r, m, origin}.marked()
			if err != nil {
				return err
			}
			p, there, err := a.place(ctx, p, claimed)
			switch {
			case err != nil:
				return err
			case there:
				a.report.AlreadyRecorded++
			default:
				claimed[p.record.ID] = p.record
				missing = append(missing, p)
			}
		}
	}
	return a.write(ctx, missing)
}

func (a *appender) leaveOut(m *schema.Message) {
	a.report.LeftOut++
	if a.leftOut == nil {
		a.leftOut = make(map[*schema.Message]bool)
	}
	a.leftOut[m] = true
}

// hasOrigin returns the origin of a message that was born in a log, and reports whether this log holds the record
// that it was born from, or a copy of it. Records may share an id, whoever made it up.
func (a *appender) hasOrigin(ctx context.Context, m *schema.Message) (*origin, bool, error) {
	o, born := originOf(m)
	if !born {
		return nil, false, nil
	}
	var found []bridge.Entry
	var err error
	if id := o.withID().ID; hasDigits(id) {
		found, err = a.log.FindPrefix(ctx, id[:shortDigits])
	} else {
		found, err = a.log.Find(ctx, id)
	}
	p := parcel{message: m, origin: &o}
	return &o, slices.ContainsFunc(found, func(e bridge.Entry) bool { return p.is(e.Record) }), err
}

// isBornAs reports whether a record says what the other one says, and carries that message, or none.
func isBornAs(r, other bridge.Record, of schema.ID) bool {
	return messageOf(r) == of && r.From == other.From && r.To == other.To && r.Type == other.Type &&
		r.Signal == other.Signal && r.Content == other.Content
}

// messageOf returns the id of the message that a record carries, or an empty one: metadata that does not fit
// leaves the record one that was born in the bridge.
func messageOf(r bridge.Record) schema.ID {
	m, _ := carriedBy(r)
	if m == nil {
		return ""
	}
	return m.ID
}

// place finds the record's place in the log: it is there already, or the id is free, or it is another
// message's and the record is told apart from that.
func (a *appender) place(ctx context.Context, p parcel, claimed map[string]bridge.Record) (placed parcel, there bool, err error) {
	for {
		owner, taken := claimed[p.record.ID]
		if taken && p.is(owner) {
			return p, true, nil
		}
		found, err := a.log.Find(ctx, p.record.ID)
		if err != nil {
			return p, false, err
		}
		if slices.ContainsFunc(found, func(e bridge.Entry) bool { return p.is(e.Record) }) {
			return p, true, nil
		}
		if !taken && len(found) == 0 {
			return p, false, nil
		}
		if p, err = p.apart(); err != nil {
			return p, false, err
		}
	}
}

// is reports whether a record stands for this message, and not for another one that shares its id. Of the messages
// that one broadcast became, a copy of any is a copy of the broadcast.
func (p parcel) is(r bridge.Record) bool {
	m, _ := carriedBy(r)
	if m != nil && m.ID == p.message.ID {
		return true
	}
	if p.origin == nil {
		return false
	}
	if o, born := originOfCopy(m); born && o.isOfOneRecord(*p.origin) {
		return true
	}
	return isBornAs(r, p.origin.record, p.origin.form.of)
}

// marked returns the record with the message in its metadata. One that was born in another log would otherwise be
// taken for a message of this one, and be delivered once more.
func (p parcel) marked() (parcel, error) {
	var err error
	if p.record.Metadata == nil {
		p.record.Metadata, err = carry(p.message)
	}
	return p, err
}

// apart returns the record with one more line that tells it apart from another message's.
func (p parcel) apart() (parcel, error) {
	p, err := p.marked()
	if err != nil {
		return p, err
	}
	r := &p.record
	r.Content += idLine(p.message.ID)
	r.ID = bridge.GenerateID(r.Type, r.From, r.To, r.Content)
	return p, nil
}

// write appends records. Where another process was faster with a record of the same id, it looks whose.
func (a *appender) write(ctx context.Context, parcels []parcel) error {
	for len(parcels) > 0 {
		records := make([]bridge.Record, len(parcels))
		for i, p := range parcels {
			records[i] = p.record
		}
		receipts, err := a.log.SendAll(ctx, records)
		if errors.Is(err, bridge.ErrNotSynced) {
			return err // what was written may not survive, so it counts as little as what was not
		}
		var shared []parcel
		for i, receipt := range receipts {
			switch {
			case !receipt.Duplicate:
				a.report.Recorded++
			case parcels[i].is(receipt.Record):
				a.report.AlreadyRecorded++
			default:
				other, apartErr := parcels[i].apart()
				err = errors.Join(err, apartErr)
				shared = append(shared, other)
			}
		}
		if err != nil {
			return err
		}
		if len(receipts) < len(parcels) {
			return fmt.Errorf("append to bridge log %s: %d of %d records were written", a.log.Path(), len(receipts), len(parcels))
		}
		parcels = shared
	}
	return nil
}
