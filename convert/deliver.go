package convert

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/schema"
)

// deliverBatch is how many messages are delivered with shared syncs.
const deliverBatch = 128

// Deliver delivers records to the mailboxes of a workspace, in their order, each message once, however often
// it is called. Records that cannot be delivered become dead letters. A *bridge.LineError in the sequence is
// a skipped line, any other error ends it. Reasons name the source, such as the path of a log.
//
// The error is one of the sequence or of the file system; of the records from there on none is lost if
// Deliver is called again.
func Deliver(ctx context.Context, w *mailbox.Workspace, source string, records iter.Seq2[bridge.Entry, error]) (report Report, err error) {
	known, err := openOutboxes(w)
	if err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, known.close()) }()
	d := newDeliverer(w, known, source, &report)
	for e, err := range records {
		if err != nil {
			if report.skip(err) {
				continue
			}
			return report, errors.Join(err, d.flush(ctx), d.failure())
		}
		if err := d.accept(ctx, e); err != nil {
			return report, err
		}
	}
	err = d.flush(ctx)
	return report, errors.Join(err, d.failure())
}

// A deliverer brings records to mailboxes.
type deliverer struct {
	workspace *mailbox.Workspace
	outboxes  *outboxes
	letters   letters
	source    string
	report    *Report
	// wasRecorded reports whether a message, in these words, was recorded from an outbox of this workspace.
	// Nil where nobody knows.
	wasRecorded func(context.Context, recorded) (bool, error)
	// others are the other logs that the workspace is mirrored with; nil where the records are of no log.
	others *otherLogs

	waiting []delivery
	queued  map[schema.ID]delivery
	// failed are the messages that could not be delivered for now, and inARow how many at the end of them
	// without one that could.
	failed []error
	inARow int
}

// delivery is a message on its way.
type delivery struct {
	message *schema.Message
	entry   bridge.Entry
	sum     [sha256.Size]byte
	// carried is the message in the record's metadata, nil for one that was born in the bridge. That one's
	// form is in form.
	carried *schema.Message
	form    form
}

func newDeliverer(w *mailbox.Workspace, known *outboxes, source string, report *Report) *deliverer {
	known.begin()
	return &deliverer{
		workspace: w, outboxes: known, letters: letters{w}, source: source, report: report,
		queued: make(map[schema.ID]delivery),
	}
}

// accept takes a record. It is dealt with when flush has returned without an error.
func (d *deliverer) accept(ctx context.Context, e bridge.Entry) error {
	m, err := carriedBy(e.Record)
	for _, odd := range warnings(e.Record, m, err) {
		d.report.warn("%s: line %d: %v", d.source, e.Line, odd)
	}
	return d.take(ctx, e, m)
}

// take takes a record with the message in its metadata, if there is one.
func (d *deliverer) take(ctx context.Context, e bridge.Entry, m *schema.Message) error {
	if m == nil {
		return d.acceptBorn(ctx, e, usual)
	}
	done, err := d.acceptCarried(ctx, e, m)
	if done || err != nil {
		return err
	}
	return d.acceptBorn(ctx, e, form{part: 1, of: m.ID})
}

// acceptCarried takes the message in a record's metadata, unless another message has its id here: then the
// record is to be taken as it stands.
func (d *deliverer) acceptCarried(ctx context.Context, e bridge.Entry, m *schema.Message) (done bool, err error) {
	to := schema.AgentName(e.To)
	there, taken, err := d.outboxes.has(ctx, m, to)
	if err != nil {
		return false, err
	}
	if there {
		d.report.AlreadyDelivered++
		return true, nil
	}
	if sent, err := d.wasSentHere(ctx, m); sent || err != nil {
		if sent && taken {
			d.report.warn("%s: line %d: message %s was changed in its outbox after it was recorded; it is not delivered again", d.source, e.Line, m.ID)
		}
		d.report.AlreadyDelivered++
		return true, err
	}
	if o, born := originOfCopy(m); born && e.To == "" {
		// A broadcast is for the agents of this workspace, and not for those of the one that copied it.
		original := o.withID()
		original.Metadata = e.Metadata // so it is still known for a copy
		e.Record = original
		return true, d.acceptBorn(ctx, e, o.form)
	}
	if to != "" && !d.workspace.Knows(to) {
		return true, d.refuse(e, m, d.workspace.CheckAgent(to).Error())
	}
	if taken {
		d.report.warn("%s: line %d: another message has the id %s; the record is delivered as it stands", d.source, e.Line, m.ID)
		return false, nil
	}
	if m.Auth != "" {
		return true, d.refuse(e, m, "a signed message is its file, byte for byte, and cannot be made from a record")
	}
	reduced := *m
	reduced.To = slices.DeleteFunc(slices.Clone(m.To), func(agent schema.AgentName) bool { return !d.workspace.Knows(agent) })
	if len(reduced.To) == 0 {
		return true, d.refuse(e, m, "the workspace knows none of the recipients")
	}
	return true, d.queue(ctx, delivery{message: &reduced, entry: e, carried: m})
}

// wasSentHere reports whether a message that is not in its sender's outbox, or not in these words, was there
// when it was recorded: then its recipients got it when it was sent.
func (d *deliverer) wasSentHere(ctx context.Context, m *schema.Message) (bool, error) {
	if d.wasRecorded == nil {
		return false, nil
	}
	sum, err := sumOf(m)
	if err != nil {
		return false, err
	}
	// With these words there, others are meant: recipients that the workspace did not know.
	if slices.ContainsFunc(d.outboxes.copies[m.ID], func(c sent) bool { return c.sum == sum }) {
		return false, nil
	}
	return d.wasRecorded(ctx, recordedAs(m.ID, sum))
}

// acceptBorn takes a record that was born in the bridge.
func (d *deliverer) acceptBorn(ctx context.Context, e bridge.Entry, f form) error {
	var agents []schema.AgentName
	if e.To == "" {
		var err error
		if agents, err = d.workspace.Agents(); err != nil {
			return err
		}
	}
	to, err := recipientsOf(e.Record, agents)
	if err != nil {
		return d.refuse(e, nil, err.Error())
	}
	if e.To == "" {
		return d.broadcast(ctx, e, to, f)
	}
	m, err := born(e.Record, to, f)
	if err != nil {
		return d.refuse(e, nil, err.Error())
	}
	if d.workspace.Knows(to[0]) {
		return d.queue(ctx, delivery{message: m, entry: e, form: f})
	}
	there, _, err := d.outboxes.has(ctx, m, to[0])
	if err != nil {
		return err
	}
	if there {
		d.report.AlreadyDelivered++
		return nil
	}
	return d.refuse(e, m, d.workspace.CheckAgent(to[0]).Error())
}

// broadcast takes a broadcast: to ten agents or fewer one message, to more several. Agents come and go; a
// part that was sent stays as it is, and a part that has room was the last one.
func (d *deliverer) broadcast(ctx context.Context, e bridge.Entry, to []schema.AgentName, f form) error {
	for f.part = 1; len(to) > 0; f.part++ {
		m, err := born(e.Record, to[:min(len(to), schema.MaxRecipients)], f)
		if err != nil {
			return d.refuse(e, nil, err.Error())
		}
		had, err := d.outboxes.recipients(ctx, m)
		if err != nil {
			return err
		}
		if had != nil && f.part == 1 {
			other, err := d.isOfAnotherRun(ctx, delivery{message: m, entry: e, form: f})
			if err != nil {
				return err
			}
			if other {
				return d.broadcast(ctx, e, to, named(e.Record, f.of))
			}
		}
		if had == nil {
			if err := d.queue(ctx, delivery{message: m, entry: e, form: f}); err != nil {
				return err
			}
			had = m.To
		} else {
			d.report.AlreadyDelivered++
			if len(had) < schema.MaxRecipients {
				return nil
			}
		}
		to = slices.DeleteFunc(slices.Clone(to), func(agent schema.AgentName) bool { return slices.Contains(had, agent) })
	}
	return nil
}

// queue puts a message in line. Its sender, who has just been heard of, gets a mailbox if it has none:
// after what stands before it, for a broadcast goes to the agents that there were before.
func (d *deliverer) queue(ctx context.Context, one delivery) error {
	var err error
	if one.sum, err = sumOf(one.message); err != nil {
		return err
	}
	if other, ok := d.queued[one.message.ID]; ok {
		to := schema.AgentName(one.entry.To)
		if other.sum == one.sum && (to == "" || slices.Contains(other.message.To, to)) {
			d.report.AlreadyDelivered++
			return nil
		}
		if err := d.flush(ctx); err != nil {
			return err
		}
		// Now that the other one is sent, this one can be judged.
		if one.carried != nil {
			return d.take(ctx, one.entry, one.carried)
		}
		one.form.part = 1
		return d.acceptBorn(ctx, one.entry, one.form)
	}
	if from := one.message.From; from != mailbox.Postmaster && !d.workspace.Knows(from) {
		if err := d.flush(ctx); err != nil {
			return err
		}
		if _, err := project.AddAgent(d.workspace, from, "", time.Now()); err != nil {
			return fmt.Errorf("mailbox of %s, who sent line %d of %s: %w", from, one.entry.Line, d.source, err)
		}
		d.report.warn("%s: line %d: the workspace did not know the sender %s, who has a mailbox now", d.source, one.entry.Line, from)
	}
	d.queued[one.message.ID] = one
	if d.waiting = append(d.waiting, one); len(d.waiting) < deliverBatch {
		return nil
	}
	return d.flush(ctx)
}

// flush delivers what waits. What single messages fail of, such as an inbox that cannot be written to, is
// kept in failed and does not stop the others; where a whole batch fails, so will the next one.
func (d *deliverer) flush(ctx context.Context) error {
	waiting := d.waiting
	d.waiting = nil
	clear(d.queued)
	d.outboxes.begin()
	drafts := make([]schema.Message, len(waiting))
	for i, one := range waiting {
		drafts[i] = *one.message
	}
	for i, result := range d.workspace.SendAll(ctx, drafts, &mailbox.SendOptions{Notices: true}) {
		err := d.settle(ctx, waiting[i], result)
		if err == nil {
			d.inARow = 0
			continue
		}
		d.inARow++
		d.failed = append(d.failed, fmt.Errorf("line %d of %s: %w", waiting[i].entry.Line, d.source, err))
	}
	if err := context.Cause(ctx); err != nil {
		return err
	}
	if d.inARow >= deliverBatch {
		return d.failure()
	}
	return nil
}

// failure returns what failed and is to be tried again, in words of bounded length.
func (d *deliverer) failure() error {
	const most = 10
	if len(d.failed) <= most {
		return errors.Join(d.failed...)
	}
	return errors.Join(append(d.failed[:most:most], fmt.Errorf("and %d more", len(d.failed)-most))...)
}
