package mailbox

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io/fs"
	"maps"
	"slices"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/internal/staging"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/validate"
)

// Recovered lists what Recover did, as paths.
type Recovered struct {
	// Published are copies of sent messages that Recover put into their inboxes.
	Published []string
	// Swept are staged copies of unsent messages that Recover removed.
	Swept []string
	// DeadLetters are copies of messages that may have been sent, but whose outbox copy is missing.
	// Recover moved them to the dead letters of their sender.
	DeadLetters []string
}

// Recover completes deliveries that a crash interrupted or an inbox refused: it publishes copies of sent
// messages, and removes copies of unsent messages. It leaves the copies of living processes alone. Any
// number of processes may run it at any time, even during deliveries.
func (w *Workspace) Recover(ctx context.Context) (recovered Recovered, err error) {
	b, err := openBatch(w, nil)
	if err != nil {
		return Recovered{}, err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	if err := context.Cause(ctx); err != nil {
		return Recovered{}, err
	}
	return b.recover()
}

// Staged returns the ids of the messages with staged copies, sorted.
func (w *Workspace) Staged() ([]schema.ID, error) {
	names, err := durable.ListFolder(w.root, w.dir, outgoingName)
	return slices.Sorted(maps.Keys(groupStaged(names))), ignoreMissing(err)
}

// IsQueued reports whether the agent's copy of a message is staged and not yet in its inbox.
func IsQueued(w *Workspace, id schema.ID, agent schema.AgentName) (bool, error) {
	names, err := durable.ListFolder(w.root, w.dir, outgoingName)
	return slices.ContainsFunc(names, func(entry string) bool { return isQueued(entry, id, agent) }), ignoreMissing(err)
}

// isQueued reports whether an entry of state/outgoing is a copy of the message for the agent's inbox.
func isQueued(entry string, id schema.ID, agent schema.AgentName) bool {
	name, ok := staging.ParseName(entry)
	return ok && name.ID == id && name.Agent == agent && name.Box == Inbox
}

// Resend completes the delivery of a message that is in the outbox of its sender, under that path: a crash may have kept copies
// of it from their inboxes. The receipt says that it was sent already. The error is that of Send.
func (w *Workspace) Resend(m *schema.Message, outbox string) (*Receipt, error) {
	receipt := &Receipt{Message: m, Outbox: outbox, AlreadySent: true}
	b, err := openBatch(w, nil)
	if err != nil {
		return receipt, err
	}
	_, err = b.recover()
	return receipt, errors.Join(b.queued(m.ID, err), b.close())
}

// queued returns a *QueuedError if copies of a message that was sent before are still staged. Cause is why, if that is known.
func (b *batch) queued(id schema.ID, cause error) error {
	names, err := b.outgoing.Names()
	q := &QueuedError{ID: id, Err: cmp.Or(cause, err, errors.New("the process that sends it has not put it there yet"))}
	for _, name := range names {
		if copied, ok := staging.ParseName(name); ok && copied.ID == id && copied.Box == Inbox {
			q.Agents = append(q.Agents, copied.Agent)
		}
	}
	if len(q.Agents) == 0 {
		return err
	}
	return q
}

// Withdraw removes the staged copies of a message for an agent's inbox, because the agent has handled
// the message elsewhere.
func (w *Workspace) Withdraw(id schema.ID, agent schema.AgentName) error {
	outgoing, err := durable.OpenDir(w.root, w.dir, outgoingName)
	if err != nil {
		return ignoreMissing(err)
	}
	names, err := outgoing.Names()
	for _, entry := range names {
		if isQueued(entry, id, agent) {
			_, takeErr := w.files.Take(outgoing, entry)
			err = errors.Join(err, takeErr, w.files.SyncDir(outgoing))
		}
	}
	return errors.Join(err, outgoing.Close())
}

// leftovers are the staged copies of one message. As long as an outbox copy is staged, the message is not sent.
type leftovers struct{ outboxes, inboxes []staging.Name }

// groupStaged groups the names in state/outgoing by message.
func groupStaged(names []string) map[schema.ID]*leftovers {
	groups := make(map[schema.ID]*leftovers)
	for _, entry := range names {
		name, ok := staging.ParseName(entry)
		if !ok {
			continue
		}
		group := groups[name.ID]
		if group == nil {
			group = new(leftovers)
			groups[name.ID] = group
		}
		if name.Box == Inbox {
			group.inboxes = append(group.inboxes, name)
		} else {
			group.outboxes = append(group.outboxes, name)
		}
	}
	return groups
}

// findLeftovers lists the staged copies of all messages.
func (b *batch) findLeftovers() error {
	names, err := b.outgoing.Names()
	b.left = groupStaged(names)
	return err
}

func (b *batch) recover() (recovered Recovered, err error) {
	err = b.findLeftovers()
	for _, id := range slices.Sorted(maps.Keys(b.left)) {
		err = errors.Join(err, b.recoverMessage(id, &recovered))
	}
	if len(recovered.Published) > 0 {
		err = errors.Join(err, b.w.files.SyncDir(b.outgoing))
	}
	return recovered, err
}

// recoverMessage recovers one message. As long as the outbox copy is staged, a running process may
// still send the message.
func (b *batch) recoverMessage(id schema.ID, recovered *Recovered) error {
	left := b.left[id]
	for _, name := range left.outboxes {
		if dead, err := b.isDead(name, strangerAfter); !dead || err != nil {
			return err
		}
		o, err := b.read(name)
		if err != nil {
			return ignoreMissing(err)
		}
		sent, err := b.committed(o)
		if err != nil {
			return err
		}
		if !sent {
			if stale, err := b.isStale(name); !stale || err != nil {
				return err
			}
			// The sender may have staged more copies between the listing and its death.
			names, err := b.outgoing.Names()
			if now := groupStaged(names)[id]; now != nil {
				err = errors.Join(err, b.sweep(now, recovered))
			}
			return err
		}
		// A crash undid the removal of the staged name.
		if _, err := b.w.files.Take(b.outgoing, name.Entry()); err != nil {
			return err
		}
	}
	var err error
	for _, name := range left.inboxes {
		err = errors.Join(err, b.recoverCopy(name, recovered))
	}
	return err
}

// sweep removes the staged copies of a message that is not sent. The outbox copies go last, so that an
// interrupted sweep leaves no copies that look sent. If the sender is alive after all, and commits
// meanwhile, it finds that its other copies are gone.
func (b *batch) sweep(left *leftovers, recovered *Recovered) error {
	for _, name := range slices.Concat(left.inboxes, left.outboxes) {
		took, err := b.w.files.Take(b.outgoing, name.Entry())
		if took {
			recovered.Swept = append(recovered.Swept, b.outgoing.Path(name.Entry()))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// recoverCopy publishes an inbox copy if the message is in its sender's outbox, unless its sender
// is alive and will do it.
func (b *batch) recoverCopy(name staging.Name, recovered *Recovered) error {
	if name.Origin != "" { // senders that name no origin take a missing copy for a published one
		if dead, err := b.isDead(name, strangerAfter); !dead || err != nil {
			return err
		}
	}
	o, err := b.read(name)
	if err != nil {
		return ignoreMissing(err)
	}
	sent, err := b.committed(o)
	if err != nil {
		return err
	}
	if !sent {
		return b.deadLetter(name, recovered)
	}
	published, err := b.publishLeft(name, o)
	if errors.Is(err, ErrGone) {
		return nil // another process published it
	}
	if err == nil && published != "" {
		recovered.Published = append(recovered.Published, published)
	}
	return err
}

// read reads a staged copy. The message is nil if it cannot be decoded.
func (b *batch) read(name staging.Name) (*outgoing, error) {
	data, err := b.outgoing.ReadFile(name.Entry(), schema.MaxFileSize)
	m, _ := validate.Decode(data)
	return &outgoing{message: m, data: data}, err
}

// publishLeft publishes an inbox copy of a dead process, and returns the path. If the agent has the copy, in whatever
// box, a crash undid the removal of the staged name, and publishLeft removes that.
func (b *batch) publishLeft(name staging.Name, o *outgoing) (path string, err error) {
	if err := b.w.CheckAgent(name.Agent); err != nil {
		return "", err
	}
	box, err := b.open(name.Agent, Inbox)
	if err == nil {
		err = box.Writable()
	}
	if err != nil {
		return "", err
	}
	if path, err = b.delivered(name.Agent, o); path != "" && err == nil {
		_, err = b.w.files.Take(b.outgoing, name.Entry())
		return "", err
	}
	if err == nil {
		path, err = b.publishInbox(staging.New(name, box, b.outgoing), o.message, o.sentAs, o.data)
	}
	if err != nil {
		return "", err
	}
	return path, b.w.files.SyncDir(box)
}

// deadLetter moves an inbox copy of a dead process, whose outbox copy is missing, to its sender's dead
// letters. The message may have been sent, and someone emptied the outbox, so Recover does not remove it.
func (b *batch) deadLetter(name staging.Name, recovered *Recovered) error {
	parts, err := schema.ParseID(name.ID)
	if err != nil || !b.w.Knows(parts.Sender) {
		return err
	}
	if stale, err := b.isStale(name); !stale || err != nil {
		return err
	}
	// Its sender may have staged the outbox copy while the folder was listed: then the message is not sent.
	names, err := b.outgoing.Names()
	if now := groupStaged(names)[name.ID]; err != nil || now != nil && len(now.outboxes) > 0 {
		return err
	}
	letters, err := b.open(parts.Sender, DeadLetters)
	if err != nil {
		return err
	}
	file := string(name.ID) + "_" + string(name.Agent) + schema.FileExtension
	file, err = move(b.w.files, b.outgoing, name.Entry(), letters, file, &DeadLetterReason{
		Reason: "a queued copy for " + string(name.Agent) + " whose copy in the sender's outbox is missing",
		ID:     name.ID, From: parts.Sender, At: schema.NewTimestamp(b.w.now()),
	})
	if err != nil {
		return err
	}
	recovered.DeadLetters = append(recovered.DeadLetters, letters.Path(file))
	return errors.Join(b.w.files.SyncDir(letters), b.w.files.SyncDir(b.outgoing))
}

// findSent returns the name of the file in the outbox that has the bytes of the message, empty if there is none.
func findSent(outbox *durable.Dir, o *outgoing) (string, error) {
	names, err := outbox.Names()
	if err != nil {
		return "", err
	}
	for _, name := range names {
		parsed, err := schema.ParseFileName(name)
		if err != nil || parsed.From != o.message.From || !isSameMinute(parsed.At, o.message.CreatedAt.Time()) {
			continue
		}
		sent, err := outbox.ReadFile(name, schema.MaxFileSize)
		if err == nil && bytes.Equal(sent, o.data) {
			return name, nil
		}
		if ignoreMissing(err) != nil {
			return "", err
		}
	}
	return "", nil
}
