package mailbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/validate"
)

// staleAfter is how old the staged copies of a message that was not sent must
// be before they are taken for those of a dead process.
const staleAfter = time.Hour

// Recovered says what Recover found and did, as paths.
type Recovered struct {
	// Published are inbox copies that a dead or refused delivery left queued
	// and that are in their inboxes now.
	Published []string
	// Waiting are inbox copies of sent messages that still cannot be
	// published.
	Waiting []string
	// Swept are staged copies of messages that were never sent.
	Swept []string
	// Buried are copies whose message may have been sent, but whose outbox
	// copy is gone; they are now dead letters of their sender.
	Buried []string
}

// Recover completes what dead or refused deliveries left in state/outgoing:
// copies of messages that count as sent are published, and copies of messages
// that were never sent are removed when they are an hour old. It may run at
// any time, in any number of processes, beside deliveries.
func (w *Workspace) Recover(ctx context.Context) (recovered Recovered, err error) {
	b, err := w.openBatch(nil)
	if err != nil {
		return Recovered{}, err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	if err := context.Cause(ctx); err != nil {
		return Recovered{}, err
	}
	return w.recover(b)
}

// leftovers are the staged copies of one message.
type leftovers struct {
	id      schema.ID
	outbox  *stagedName
	inboxes []stagedName
}

func (w *Workspace) recover(b *batch) (Recovered, error) {
	var recovered Recovered
	names, err := b.outgoing.Names()
	if err != nil {
		return recovered, err
	}
	for _, left := range groupStaged(names) {
		err = errors.Join(err, b.recoverMessage(left, &recovered))
	}
	return recovered, err
}

// groupStaged collects the entries of state/outgoing by message, in the order
// of ids.
func groupStaged(names []string) []*leftovers {
	slices.Sort(names)
	var groups []*leftovers
	for _, name := range names {
		parsed, _, ok := parseStagedName(name)
		if !ok {
			continue
		}
		if len(groups) == 0 || groups[len(groups)-1].id != parsed.id {
			groups = append(groups, &leftovers{id: parsed.id})
		}
		group := groups[len(groups)-1]
		if parsed.box == Outbox {
			group.outbox = &parsed
		} else {
			group.inboxes = append(group.inboxes, parsed)
		}
	}
	return groups
}

// recoverMessage deals with one message's leftovers. While the outbox copy is
// staged, the message is not sent and belongs to a delivery that may still be
// running: only its age tells that it is not.
func (b *batch) recoverMessage(left *leftovers, recovered *Recovered) error {
	if left.outbox != nil {
		return b.sweep(left, recovered)
	}
	var err error
	for _, name := range left.inboxes {
		err = errors.Join(err, b.recoverCopy(name, recovered))
	}
	return err
}

// sweep removes the copies of a message that was not sent for an hour. The
// outbox copy is taken first: that ends the delivery if it should still live,
// and if it is gone meanwhile, then the message was sent.
func (b *batch) sweep(left *leftovers, recovered *Recovered) error {
	d, err := b.reopen(*left.outbox)
	if err != nil {
		return err
	}
	info, err := d.place.dir.Lstat(d.place.name)
	if errors.Is(err, fs.ErrNotExist) && d.place.marker != nil {
		info, err = d.place.marker.Lstat(d.place.mark)
	}
	if err != nil || b.w.now().Sub(info.ModTime()) < staleAfter {
		return ignoreMissing(err)
	}
	took, err := d.place.take(b.w.files)
	if err != nil || !took && d.place.marker == nil {
		return err
	}
	recovered.Swept = append(recovered.Swept, d.place.dir.Path(d.place.name))
	for _, name := range left.inboxes {
		d, openErr := b.reopen(name)
		if openErr != nil {
			err = errors.Join(err, openErr)
			continue
		}
		_, takeErr := d.place.take(b.w.files)
		recovered.Swept = append(recovered.Swept, d.place.dir.Path(d.place.name))
		err = errors.Join(err, takeErr)
	}
	return err
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// reopen opens the destination of a staged copy.
func (b *batch) reopen(name stagedName) (*destination, error) {
	if err := b.w.CheckAgent(name.agent); err != nil {
		return nil, err
	}
	dir, err := b.box(name.agent, name.box)
	if dir == nil {
		return nil, err
	}
	// A folder that refuses writes shows when something is published to it.
	return &destination{
		agent: name.agent, box: name.box, dir: dir,
		place: newStaged(b.outgoing, dir, name),
	}, nil
}

// recoverCopy publishes an inbox copy whose message is in its sender's
// outbox.
func (b *batch) recoverCopy(name stagedName, recovered *Recovered) error {
	d, err := b.reopen(name)
	if err != nil {
		recovered.Waiting = append(recovered.Waiting, b.outgoing.Path(name.String()))
		return err
	}
	data, err := d.place.dir.ReadFile(d.place.name, schema.MaxFileSize)
	if errors.Is(err, fs.ErrNotExist) {
		return b.dropMark(d)
	}
	if err != nil {
		return err
	}
	m, problems := validate.Decode(data)
	if m == nil {
		return fmt.Errorf("staged copy %s: %w", d.place.dir.Path(d.place.name), problems.Err())
	}
	fileName, err := b.sentAs(m, data)
	if err != nil {
		return err
	}
	if fileName == "" {
		return b.bury(d, m, recovered)
	}
	placed, err := publishCopy(b.w.files, d, m, fileName, data)
	if err != nil {
		recovered.Waiting = append(recovered.Waiting, d.place.dir.Path(d.place.name))
		return err
	}
	recovered.Published = append(recovered.Published, d.dir.Path(placed))
	return b.w.files.syncDir(d.dir)
}

// dropMark removes the mark of a copy staged elsewhere that has been
// published. A young one may belong to a copy about to be written.
func (b *batch) dropMark(d *destination) error {
	if d.place.marker == nil {
		return nil
	}
	info, err := d.place.marker.Lstat(d.place.mark)
	if err != nil || b.w.now().Sub(info.ModTime()) < staleAfter {
		return ignoreMissing(err)
	}
	_, err = b.w.files.take(d.place.marker, d.place.mark)
	return err
}

// sentAs returns the name under which the sender's outbox holds exactly these
// bytes, or an empty one: then the message was not sent.
func (b *batch) sentAs(m *schema.Message, data []byte) (string, error) {
	if !m.From.Valid() {
		return "", nil
	}
	outbox, err := b.box(m.From, Outbox)
	if outbox == nil {
		return "", err
	}
	long, err := m.LongFileName()
	if err != nil {
		return "", err
	}
	for _, name := range []string{long, m.FileName()} {
		info, err := outbox.Lstat(name)
		if err != nil || info.Size() != int64(len(data)) {
			continue
		}
		there, err := outbox.ReadFile(name, schema.MaxFileSize)
		if err != nil {
			return "", err
		}
		if string(there) == string(data) {
			return name, nil
		}
	}
	return "", nil
}

// bury moves an old staged copy without an outbox copy to its sender's dead
// letters. The message was sent if somebody emptied the outbox, and was not
// if a sweep died half-way: nothing tells, so nothing is thrown away.
func (b *batch) bury(d *destination, m *schema.Message, recovered *Recovered) error {
	info, err := d.place.dir.Lstat(d.place.name)
	if err != nil || b.w.now().Sub(info.ModTime()) < staleAfter || !b.w.Knows(m.From) {
		return ignoreMissing(err)
	}
	dir, err := b.w.makeBox(m.From, DeadLetters)
	if err != nil {
		return err
	}
	reason := DeadLetterReason{
		Reason: "a queued copy for " + string(d.agent) + " whose copy in the sender's outbox has gone",
		ID:     m.ID, From: m.From, At: schema.NewTimestamp(b.w.now()),
	}
	name := strings.TrimSuffix(m.FileName(), schema.FileExtension) + "_" + string(d.agent) + schema.FileExtension
	placed, err := b.w.bury(d.place.publish, dir, name, reason)
	if err == nil {
		recovered.Buried = append(recovered.Buried, placed)
	}
	return errors.Join(err, dir.Close())
}
