package mailbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	"github.com/oacp-go/oacp/internal/durable"
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

// Outgoing lists state/outgoing: the messages with staged copies, and the names of the entries that are not staged
// copies.
func (w *Workspace) Outgoing() (ids []schema.ID, others []string, err error) {
	dir, err := durable.OpenDir(w.root, w.dir, outgoingName)
	if err != nil {
		return nil, nil, ignoreMissing(err)
	}
	names, err := dir.Names()
	for _, left := range groupStaged(names) {
		ids = append(ids, left.id)
	}
	for _, name := range names {
		if _, _, ok := parseStagedName(name); !ok {
			others = append(others, name)
		}
	}
	return ids, others, errors.Join(err, dir.Close())
}

// RecoverMessage is Recover for one message.
func (w *Workspace) RecoverMessage(id schema.ID) (recovered Recovered, err error) {
	b, err := w.openBatch(nil)
	if err != nil {
		return recovered, err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	names, err := b.outgoing.Names()
	for _, left := range groupStaged(names) {
		if left.id == id {
			err = errors.Join(err, b.recoverMessage(left, &recovered))
		}
	}
	return recovered, err
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
		d, err := b.reopen(*left.outbox)
		if err != nil {
			return err
		}
		staged, err := d.place.dir.Exists(d.place.name)
		if staged || err != nil {
			return errors.Join(err, b.sweep(d, left, recovered))
		}
		// It was published meanwhile, or long ago and left its mark.
		if err := b.dropMark(d); err != nil {
			return err
		}
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
func (b *batch) sweep(outbox *destination, left *leftovers, recovered *Recovered) error {
	stale, err := b.isStale(outbox.place.dir, outbox.place.name)
	if !stale || err != nil {
		return err
	}
	took, err := outbox.place.take(b.w.files)
	if !took {
		return err
	}
	recovered.Swept = append(recovered.Swept, outbox.place.dir.Path(outbox.place.name))
	for _, name := range left.inboxes {
		d, openErr := b.reopen(name)
		if openErr != nil {
			err = errors.Join(err, openErr)
			continue
		}
		took, takeErr := d.place.take(b.w.files)
		if took {
			recovered.Swept = append(recovered.Swept, d.place.dir.Path(d.place.name))
		}
		err = errors.Join(err, takeErr)
	}
	return err
}

// isStale reports whether a staged file is so old that its delivery is dead.
// If so, the batch holds the workspace's lock: a message that came with its
// id may be sent again at this moment, under the same staged names, and those
// are not to be taken for the old ones.
func (b *batch) isStale(dir *durable.Dir, name string) (bool, error) {
	old, err := b.w.isOld(dir, name)
	if !old || err != nil || b.lock != nil {
		return old, err
	}
	if locked, err := b.tryLock(); !locked {
		return false, err
	}
	return b.w.isOld(dir, name)
}

// isOld reports whether a file was last written so long ago that the process
// that was to publish it is dead.
func (w *Workspace) isOld(dir *durable.Dir, name string) (bool, error) {
	info, err := dir.Lstat(name)
	if err != nil {
		return false, ignoreMissing(err)
	}
	return w.now().Sub(info.ModTime()) >= staleAfter, nil
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
	m, _ := validate.Decode(data)
	if m == nil || m.ID != name.id {
		return b.bury(d, name, recovered) // cut short by a crash
	}
	fileName, err := b.sentAs(m, data)
	if err != nil {
		return err
	}
	if fileName == "" {
		return b.bury(d, name, recovered)
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
	stale, err := b.isStale(d.place.marker, d.place.mark)
	if !stale || err != nil {
		return err
	}
	_, err = b.w.files.take(d.place.marker, d.place.mark)
	return err
}

// sentAs returns the name under which the sender's outbox holds exactly these
// bytes, or an empty one: then the message was not sent.
func (b *batch) sentAs(m *schema.Message, data []byte) (string, error) {
	if !b.w.Knows(m.From) {
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
func (b *batch) bury(d *destination, name stagedName, recovered *Recovered) error {
	parts, err := schema.ParseID(name.id)
	if err != nil || !b.w.Knows(parts.Sender) {
		return err
	}
	stale, err := b.isStale(d.place.dir, d.place.name)
	if !stale || err != nil {
		return err
	}
	dir, err := b.w.makeBox(parts.Sender, DeadLetters)
	if err != nil {
		return err
	}
	reason := DeadLetterReason{
		Reason: "a queued copy for " + string(d.agent) + " whose copy in the sender's outbox has gone",
		ID:     name.id, From: parts.Sender, At: schema.NewTimestamp(b.w.now()),
	}
	letter := string(name.id) + "_" + string(d.agent) + schema.FileExtension
	placed, err := b.w.bury(d.place.publish, dir, letter, reason)
	if err == nil {
		recovered.Buried = append(recovered.Buried, dir.Path(placed))
	}
	return errors.Join(err, dir.Close())
}

// IsQueued reports whether the agent's copy of a message is staged and not
// yet in its inbox.
func (w *Workspace) IsQueued(id schema.ID, agent schema.AgentName) (bool, error) {
	if _, err := schema.ParseID(id); err != nil {
		return false, err
	}
	if _, err := schema.ParseAgentName(string(agent)); err != nil {
		return false, err
	}
	staged := stagedName{id, agent, Inbox}.String()
	for _, name := range []string{staged, staged + besideSuffix} {
		switch _, err := w.root.Lstat(outgoingName + "/" + name); {
		case err == nil:
			return true, nil
		case !errors.Is(err, fs.ErrNotExist):
			return false, fmt.Errorf("looking at %s: %w", filepath.Join(w.dir, outgoingName, name), err)
		}
	}
	return false, nil
}
