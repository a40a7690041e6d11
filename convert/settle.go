package convert

import (
	"context"
	"errors"
	"fmt"

	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/validate"
)

// settle deals with what became of a message.
func (d *deliverer) settle(ctx context.Context, one delivery, result mailbox.Result) error {
	var queued *mailbox.QueuedError
	var invalid *validate.InvalidError
	var unknown *mailbox.UnknownAgentError
	switch err := result.Err; {
	case err == nil && result.Receipt.AlreadySent:
		if err := d.outboxes.note(one.message); err != nil {
			return err
		}
		if other, err := d.isOfAnotherRun(ctx, one); other || err != nil {
			if err != nil {
				return err
			}
			return d.acceptAlone(ctx, one.entry, named(one.entry.Record, one.form.of))
		}
		d.report.AlreadyDelivered++
		return nil
	case errors.As(err, &queued):
		d.report.warn("%s: line %d: %v", d.source, one.entry.Line, err)
		fallthrough
	case err == nil:
		d.report.Delivered++
		return d.outboxes.note(one.message)
	case errors.Is(err, mailbox.ErrIDTaken):
		return d.settleTaken(ctx, one)
	case errors.As(err, &invalid), errors.Is(err, schema.ErrTooLarge):
		return d.refuse(one.entry, nil, err.Error())
	case errors.As(err, &unknown): // it was removed meanwhile
		return d.refuse(one.entry, one.message, err.Error())
	default:
		return err
	}
}

// settleTaken deals with a message whose id is in the outbox with other bytes: this message, sent when the
// workspace knew fewer or more of its recipients, or another one.
func (d *deliverer) settleTaken(ctx context.Context, one delivery) error {
	there, _, err := d.outboxes.has(ctx, one.message, schema.AgentName(one.entry.To))
	switch {
	case err != nil:
		return err
	case there:
		d.report.AlreadyDelivered++
		return nil
	case one.carried != nil:
		d.report.warn("%s: line %d: another message has the id %s; the record is delivered as it stands", d.source, one.entry.Line, one.message.ID)
		return d.acceptAlone(ctx, one.entry, form{part: 1, of: one.carried.ID})
	case one.form.long:
		return d.refuse(one.entry, one.message, "another message has the id "+string(one.message.ID))
	}
	return d.acceptAlone(ctx, one.entry, form{part: 1, long: true, of: one.form.of})
}

// acceptAlone takes a record as it stands, and delivers it at once.
func (d *deliverer) acceptAlone(ctx context.Context, e bridge.Entry, f form) error {
	if err := d.acceptBorn(ctx, e, f); err != nil {
		return err
	}
	return d.flush(ctx)
}

// refuse makes a dead letter of a record: of its message, or of the record itself where it has none.
func (d *deliverer) refuse(e bridge.Entry, m *schema.Message, reason string) error {
	reason = fmt.Sprintf("line %d of %s: %s", e.Line, d.source, reason)
	var one letter
	var err error
	if m != nil {
		one, err = messageLetter(m, e.To, reason)
	} else {
		one, err = recordLetter(e.Record, reason)
	}
	if err != nil {
		return fmt.Errorf("dead letter of line %d of %s: %w", e.Line, d.source, err)
	}
	path, there, err := d.letters.write(one)
	switch {
	case err != nil:
		return fmt.Errorf("dead letter of line %d of %s: %w", e.Line, d.source, err)
	case there:
		d.report.AlreadyDead++
	default:
		d.report.DeadLetters = append(d.report.DeadLetters, DeadLetter{e.Line, path, one.reason.Reason})
	}
	return nil
}
