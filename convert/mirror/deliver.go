package mirror

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/convert"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/validate"
)

// deliverBatch is how many messages are delivered with shared syncs.
const deliverBatch = 128

// Deliver delivers records to the mailboxes of a workspace, in their order. It delivers each message once,
// even if it is called again. Records that cannot be delivered become dead letters, whose reasons name
// the source, such as the path of a log. A *bridge.LineError in the sequence is a skipped line; any other
// error ends the delivery. After an error, calling Deliver again delivers what is missing.
func Deliver(ctx context.Context, w *mailbox.Workspace, source string, records iter.Seq2[bridge.Entry, error]) (report Report, err error) {
	return report, newDeliverer(w, source, &report).run(ctx, records)
}

// A deliverer delivers records to mailboxes.
type deliverer struct {
	workspace *mailbox.Workspace
	source    string
	report    *Report

	waiting []delivery
	queued  map[schema.ID]bool
	// foreign has, for each sender, the messages in outbox files with names that other tools chose.
	foreign map[schema.AgentName]map[schema.ID][]copiedMessage
	// notices delivers the records as notices, and leave only counts those that were not delivered.
	notices, leave bool
	// failed has the errors of messages that may be delivered later.
	failed []error
}

// delivery is a message to deliver.
type delivery struct {
	message *schema.Message
	entry   bridge.Entry
	// carried is the message that the record carries, nil if the message is derived.
	carried *schema.Message
}

func newDeliverer(w *mailbox.Workspace, source string, report *Report) *deliverer {
	return &deliverer{
		workspace: w, source: source, report: report,
		queued: make(map[schema.ID]bool), foreign: make(map[schema.AgentName]map[schema.ID][]copiedMessage),
	}
}

func (d *deliverer) run(ctx context.Context, records iter.Seq2[bridge.Entry, error]) error {
	for e, err := range records {
		if err == nil {
			m, odd := convert.Carried(e.Record)
			if odd != nil {
				d.warn(e, "%v", odd)
			}
			if err := d.take(ctx, e, m); err != nil {
				return err
			}
		} else if !d.report.skip(err) {
			return errors.Join(err, d.flush(ctx), d.failure())
		}
	}
	err := d.flush(ctx)
	return errors.Join(err, d.failure())
}

func (d *deliverer) warn(e bridge.Entry, format string, args ...any) {
	d.report.warn("%s: line %d: "+format, append([]any{d.source, e.Line}, args...)...)
}

// take queues a record for delivery, unless it was delivered before or becomes a dead letter. m is the
// message that it carries, or nil. The next flush delivers it.
func (d *deliverer) take(ctx context.Context, e bridge.Entry, m *schema.Message) error {
	if m == nil {
		return d.derive(ctx, e)
	}
	to := schema.AgentName(e.To)
	sentTo, taken, err := d.sentTo(ctx, m)
	sent := sentTo != nil && (to == "" || slices.Contains(sentTo, to))
	if err == nil && !sent {
		recipients := m.To
		if to != "" {
			recipients = []schema.AgentName{to}
		}
		sent, err = d.hasArrived(m, recipients)
	}
	switch {
	case err != nil:
		return err
	case sent:
		d.report.AlreadyDelivered++
		return nil
	case d.notices:
		return d.derive(ctx, e)
	case to != "" && !d.workspace.Knows(to):
		return d.refuse(e, m, d.workspace.CheckAgent(to).Error())
	case taken:
		d.warn(e, "another message has the id %s; the record is delivered without its metadata", m.ID)
		return d.derive(ctx, e)
	case m.Auth != "" && m.File == "":
		return d.refuse(e, m, "the record of a signed message lacks the file")
	}
	agents := m.To
	if to == "" { // the broadcast goes to the agents of this workspace, not to those of the workspace that derived m
		if agents, err = d.workspace.Agents(); err != nil {
			return err
		}
	}
	reduced := *m
	reduced.To = slices.DeleteFunc(slices.Clone(agents), func(agent schema.AgentName) bool {
		return to == "" && agent == m.From || !d.workspace.Knows(agent)
	})
	switch {
	case len(reduced.To) == 0:
		return d.refuse(e, m, "the workspace knows none of the recipients")
	case m.Auth != "" && len(reduced.To) < len(m.To):
		return d.refuse(e, m, "the workspace does not know all recipients, and a signed message cannot go to only some of them")
	case len(reduced.To) > schema.MaxRecipients:
		return d.derive(ctx, e)
	}
	return d.queue(ctx, delivery{message: &reduced, entry: e, carried: m})
}

// derive is take for a record that carries no message. Such a record becomes a message or, if it is a
// broadcast to more than schema.MaxRecipients agents, several. Agents may have been added or removed
// since an earlier delivery: a part that was sent stays as it is, and a part with fewer recipients was
// the last one.
func (d *deliverer) derive(ctx context.Context, e bridge.Entry) error {
	var agents []schema.AgentName
	if e.To == "" {
		var err error
		if agents, err = d.workspace.Agents(); err != nil {
			return err
		}
	}
	to, err := convert.Recipients(e.Record, agents)
	if err != nil {
		return d.refuse(e, nil, err.Error())
	}
	for part := 0; len(to) > 0; part++ {
		m, err := convert.Derive(e.Record, to[:min(len(to), schema.MaxRecipients)], part)
		if err != nil {
			return d.refuse(e, nil, err.Error())
		}
		notice := convert.AsNotice(m)
		had, taken, err := d.sentTo(ctx, m)
		if err == nil && had == nil {
			had, _, err = d.sentTo(ctx, notice)
		}
		if err != nil {
			return err
		}
		if d.notices {
			m = notice
		}
		switch {
		case had != nil:
			d.report.AlreadyDelivered++
			if len(had) < schema.MaxRecipients {
				return nil
			}
		case taken:
			return d.refuse(e, nil, "another record of the run has the id and says something else")
		case !d.workspace.Knows(to[0]):
			return d.refuse(e, m, d.workspace.CheckAgent(to[0]).Error())
		default:
			if err := d.queue(ctx, delivery{message: m, entry: e}); err != nil {
				return err
			}
			had = m.To
		}
		to = slices.DeleteFunc(slices.Clone(to), func(agent schema.AgentName) bool { return slices.Contains(had, agent) })
	}
	return nil
}

// queue adds a message to those that are waiting. If the sender has no mailbox, queue first sends the waiting
// messages and then makes the mailbox, because a broadcast among them must not go to the new agent.
func (d *deliverer) queue(ctx context.Context, one delivery) error {
	if d.leave {
		d.report.LeftInLog++
		return nil
	}
	if d.queued[one.message.ID] {
		if err := d.flush(ctx); err != nil {
			return err
		}
		return d.take(ctx, one.entry, one.carried) // now that the other one is sent
	}
	if from := one.message.From; from != mailbox.Postmaster && !d.workspace.Knows(from) {
		if err := d.flush(ctx); err != nil {
			return err
		}
		_, err := project.AddAgent(d.workspace, from, project.AgentOptions{})
		var same *mailbox.SameNameError
		switch {
		case errors.Is(err, mailbox.ErrReservedName), errors.As(err, &same):
			return d.refuse(one.entry, one.message, err.Error())
		case err != nil:
			return fmt.Errorf("mailbox of %s, who sent line %d of %s: %w", from, one.entry.Line, d.source, err)
		}
		d.warn(one.entry, "the workspace did not know the sender %s, who has a mailbox now", from)
	}
	d.queued[one.message.ID] = true
	if d.waiting = append(d.waiting, one); len(d.waiting) < deliverBatch {
		return nil
	}
	return d.flush(ctx)
}

// flush delivers the waiting messages. The failure of a single message, such as an inbox that cannot be
// written to, is added to failed and does not stop the others. If a full batch fails, flush returns
// the errors.
func (d *deliverer) flush(ctx context.Context) error {
	waiting := d.waiting
	d.waiting = nil
	clear(d.queued)
	if len(waiting) == 0 {
		// A message may be in its sender's outbox, but not in every inbox yet. Sending completes that.
		_, err := d.workspace.Recover(ctx)
		return err
	}
	drafts := make([]schema.Message, len(waiting))
	for i, one := range waiting {
		drafts[i] = *one.message
	}
	before := len(d.failed)
	for i, result := range d.workspace.SendAll(ctx, drafts, &mailbox.SendOptions{Notices: true, Unsigned: true}) {
		if err := d.conclude(ctx, waiting[i], result); err != nil {
			d.failed = append(d.failed, fmt.Errorf("line %d of %s: %w", waiting[i].entry.Line, d.source, err))
		}
	}
	if err := context.Cause(ctx); err != nil {
		return err
	}
	if len(d.failed)-before >= deliverBatch {
		return d.failure()
	}
	return nil
}

func (d *deliverer) conclude(ctx context.Context, one delivery, result mailbox.Result) error {
	var queued *mailbox.QueuedError
	var invalid *validate.InvalidError
	var unknown *mailbox.UnknownAgentError
	switch err := result.Err; {
	case err == nil && result.Receipt.AlreadySent:
		d.report.AlreadyDelivered++
	case err == nil:
		d.report.Delivered++
	case errors.As(err, &queued):
		d.warn(one.entry, "%v", err)
		d.report.Delivered++
	case errors.As(err, &invalid), errors.Is(err, schema.ErrTooLarge):
		return d.refuse(one.entry, nil, err.Error())
	case errors.Is(err, mailbox.ErrIDTaken):
		// Another process may have sent the message meanwhile, perhaps to fewer or more recipients.
		had, _, err := d.sentTo(ctx, one.message)
		if err != nil {
			return err
		}
		if had == nil {
			return d.refuse(one.entry, one.message, result.Err.Error())
		}
		d.report.AlreadyDelivered++
	case errors.As(err, &unknown): // the agent was removed meanwhile
		return d.refuse(one.entry, one.message, err.Error())
	default:
		return err
	}
	return nil
}

// refuse makes a dead letter of the message or, if there is none, of the record itself.
func (d *deliverer) refuse(e bridge.Entry, m *schema.Message, reason string) error {
	if d.leave {
		d.report.LeftInLog++
		return nil
	}
	letter, err := newLetter(m, e.Record, fmt.Sprintf("line %d of %s: %s", e.Line, d.source, reason))
	if err == nil {
		path, added, failed := letter.write(d.workspace)
		switch {
		case failed == nil && added:
			d.report.DeadLetters = append(d.report.DeadLetters, DeadLetter{e.Line, path, letter.reason.Reason})
			return nil
		case failed == nil:
			d.report.AlreadyDead++
			return nil
		}
		err = failed
	}
	return fmt.Errorf("dead letter of line %d of %s: %w", e.Line, d.source, err)
}

// failure returns the errors of messages that may be delivered later, at most ten of them.
func (d *deliverer) failure() error {
	const most = 10
	if len(d.failed) <= most {
		return errors.Join(d.failed...)
	}
	return errors.Join(append(d.failed[:most:most], fmt.Errorf("and %d more", len(d.failed)-most))...)
}
