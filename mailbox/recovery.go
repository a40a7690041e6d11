package mailbox

import (
	"context"
	"errors"
	"io/fs"
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
	// Waiting are copies of sent messages whose inboxes still refuse them.
	Waiting []string
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

// Staged lists state/outgoing: the ids of messages with staged copies, and the names of entries
// that are not staged copies.
func (w *Workspace) Staged() (ids []schema.ID, others []string, err error) {
	names, err := durable.ListFolder(w.root, w.dir, outgoingName)
	for _, left := range groupStaged(names) {
		ids = append(ids, left.id)
	}
	for _, name := range names {
		if _, ok := parseStaged(name); !ok {
			others = append(others, name)
		}
	}
	return ids, others, ignoreMissing(err)
}

// IsQueued reports whether the agent's copy of a message is staged and not yet in its inbox.
func IsQueued(w *Workspace, id schema.ID, agent schema.AgentName) (bool, error) {
	names, err := durable.ListFolder(w.root, w.dir, outgoingName)
	return slices.ContainsFunc(names, func(entry string) bool { return isQueued(entry, id, agent) }), ignoreMissing(err)
}

// isQueued reports whether an entry of state/outgoing is a copy of the message for the agent's inbox.
func isQueued(entry string, id schema.ID, agent schema.AgentName) bool {
	name, ok := parseStaged(entry)
	return ok && name.ID == id && name.Agent == agent && name.Box == string(Inbox)
}

// Withdraw removes the staged copies of a message for an agent's inbox, because the agent has handled
// the message elsewhere.
func (w *Workspace) Withdraw(id schema.ID, agent schema.AgentName) (err error) {
	b, err := openBatch(w, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	names, err := b.outgoing.Names()
	for _, entry := range names {
		if !isQueued(entry, id, agent) {
			continue
		}
		name, _ := parseStaged(entry)
		var box *durable.Dir // needed only for a copy that is staged in it
		if name.Beside {
			c, err := b.reopen(name)
			if err != nil {
				return err
			}
			box = c.Box
		}
		if _, err := staging.New(name, box, b.outgoing).Take(w.files); err != nil {
			return err
		}
	}
	return err
}

// leftovers are the staged copies of one message. Those in unsent show, as long as they are staged,
// that the message is not sent or not moved: the copies for all boxes but inboxes.
type leftovers struct {
	id      schema.ID
	unsent  []staging.Name
	inboxes []staging.Name
}

// parseStaged parses the name of an entry of state/outgoing: a staged copy or a mark.
func parseStaged(entry string) (staging.Name, bool) {
	name, ok := staging.ParseName(entry)
	return name, ok && (schema.IsBox(name.Box) || name.Box == string(restoring))
}

// groupStaged groups the names in state/outgoing by message, in the order of the ids.
func groupStaged(names []string) []*leftovers {
	slices.Sort(names)
	var groups []*leftovers
	for _, name := range names {
		parsed, ok := parseStaged(name)
		if !ok {
			continue
		}
		if len(groups) == 0 || groups[len(groups)-1].id != parsed.ID {
			groups = append(groups, &leftovers{id: parsed.ID})
		}
		group := groups[len(groups)-1]
		if parsed.Box == string(Inbox) {
			group.inboxes = append(group.inboxes, parsed)
		} else {
			group.unsent = append(group.unsent, parsed)
		}
	}
	return groups
}

func (b *batch) recover() (recovered Recovered, err error) {
	names, err := b.outgoing.Names()
	for _, left := range groupStaged(names) {
		err = errors.Join(err, b.recoverMessage(left, &recovered))
	}
	return recovered, err
}

// findLeftovers lists the staged copies of all messages, for those that are about to be sent again
// or swept.
func (b *batch) findLeftovers() error {
	names, err := b.outgoing.Names()
	b.left = make(map[schema.ID]leftovers)
	for _, left := range groupStaged(names) {
		b.left[left.id] = *left
	}
	return err
}

// recoverMessage recovers one message. As long as the outbox copy is staged, a running process may
// still send the message.
func (b *batch) recoverMessage(left *leftovers, recovered *Recovered) error {
	for _, name := range left.unsent {
		c, err := b.reopen(name)
		if err != nil {
			return err
		}
		switch staged, err := c.Dir.Exists(c.File); {
		case err != nil:
			return err
		case !staged:
			// It was published, and its mark is left.
			if err := b.dropMark(c); err != nil {
				return err
			}
			continue
		}
		if stale, err := b.isStale(name); !stale || err != nil {
			return err
		}
		if sent, err := b.isSent(c); err != nil {
			return err
		} else if !sent {
			// The sender may have staged more copies between the listing and its death.
			if err := b.findLeftovers(); err != nil {
				return err
			}
			return b.sweep(b.left[left.id], recovered)
		}
		// A crash undid the removal of the staged name.
		if _, err := c.Take(b.w.files); err != nil {
			return err
		}
	}
	var err error
	for _, name := range left.inboxes {
		if name.Beside && slices.ContainsFunc(left.inboxes, func(other staging.Name) bool {
			return other.Agent == name.Agent && !other.Beside
		}) {
			continue // it is being restaged
		}
		err = errors.Join(err, b.recoverCopy(name, recovered))
	}
	return err
}

// isSent reports whether the sender's outbox has the message of a staged outbox copy.
func (b *batch) isSent(c *staging.Copy) (bool, error) {
	if c.Name.Box != string(Outbox) {
		return false, nil
	}
	data, err := c.Dir.ReadFile(c.File, schema.MaxFileSize)
	if err != nil {
		return false, ignoreMissing(err)
	}
	m, _ := validate.Decode(data)
	if m == nil || m.ID != c.Name.ID {
		return false, nil // a crash left an incomplete file
	}
	name, err := b.sentAs(m, data)
	return name != "", err
}

// reopen opens the box of a staged copy. Unlike newCopy, it does not make mailboxes, and leaves it
// to publish to find that a box refuses the copy.
func (b *batch) reopen(name staging.Name) (*staging.Copy, error) {
	if err := b.w.CheckAgent(name.Agent); err != nil {
		return nil, err
	}
	c, err := b.newCopy(name)
	if c == nil {
		return nil, err
	}
	return c, nil
}

// sweep removes the staged copies of a message that is not sent. The copies that show this go last,
// so that a sweep that is interrupted leaves no copies that look sent. If the sender is alive after
// all, and commits meanwhile, it finds that its other copies are gone.
func (b *batch) sweep(left leftovers, recovered *Recovered) error {
	for _, name := range slices.Concat(left.inboxes, left.unsent) {
		c, err := b.reopen(name)
		if err != nil {
			return err
		}
		took, err := c.Take(b.w.files)
		if took {
			recovered.Swept = append(recovered.Swept, c.Dir.Path(c.File))
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

// dropMark removes the mark of a copy that is published. The mark of a living process may belong to
// a copy that is about to be written.
func (b *batch) dropMark(c *staging.Copy) error {
	stale, err := b.isStale(c.Name)
	if !stale || err != nil {
		return err
	}
	return c.DropMark(b.w.files)
}

// recoverCopy publishes an inbox copy if the message is in its sender's outbox, unless its sender
// is alive and will do it.
func (b *batch) recoverCopy(name staging.Name, recovered *Recovered) error {
	if name.Origin != "" { // other senders take a missing copy for a published one
		if dead, err := b.isDead(name, strangerAfter); !dead || err != nil {
			return err
		}
	}
	c, err := b.reopen(name)
	if err != nil {
		recovered.Waiting = append(recovered.Waiting, b.outgoing.Path(name.Entry()))
		return err
	}
	defer c.Close()
	data, err := c.Dir.ReadFile(c.File, schema.MaxFileSize)
	if errors.Is(err, fs.ErrNotExist) {
		return b.dropMark(c)
	}
	if err != nil {
		return err
	}
	m, _ := validate.Decode(data)
	if m == nil || m.ID != name.ID {
		return b.deadLetter(c, recovered) // a crash left an incomplete file
	}
	fileName, err := b.sentAs(m, data)
	if err != nil {
		return err
	}
	if fileName == "" {
		return b.deadLetter(c, recovered)
	}
	fileName, err = b.publishInbox(c, m, fileName, data)
	switch {
	case errors.Is(err, ErrGone):
		return nil // another process published it
	case err != nil:
		recovered.Waiting = append(recovered.Waiting, c.Dir.Path(c.File))
		return err
	}
	recovered.Published = append(recovered.Published, c.Box.Path(fileName))
	return b.w.files.SyncDir(c.Box)
}

// sentAs returns the name of the file with exactly these bytes in the sender's outbox. If there is
// none, the message was not sent, and the name is empty.
func (b *batch) sentAs(m *schema.Message, data []byte) (string, error) {
	if !b.w.Knows(m.From) {
		return "", nil
	}
	c, err := b.reopen(b.name(m.ID, m.From, Outbox))
	if err != nil {
		return "", err
	}
	long, err := m.LongFileName()
	if err != nil {
		return "", err
	}
	find := func(names []string) (string, error) {
		for _, name := range names {
			info, err := c.Box.Lstat(name)
			if ignoreMissing(err) != nil {
				return "", err
			}
			if err != nil || info.Size() != int64(len(data)) {
				continue
			}
			sent, err := c.Box.ReadFile(name, schema.MaxFileSize)
			if ignoreMissing(err) != nil || err == nil && string(sent) == string(data) {
				return name, err
			}
		}
		return "", nil
	}
	if name, err := find([]string{long, m.FileName()}); name != "" || err != nil {
		return name, err
	}
	names, err := c.Box.Names() // with a suffix, or chosen by another tool
	if err != nil {
		return "", err
	}
	return find(slices.DeleteFunc(names, func(name string) bool {
		parsed, err := schema.ParseFileName(name)
		return err != nil || parsed.From != m.From || !isSameMinute(parsed.At, m.CreatedAt.Time())
	}))
}

// deadLetter moves an old inbox copy without an outbox copy to its sender's dead letters. Someone
// emptied the outbox or state, and nothing shows which, so Recover does not remove the copy.
func (b *batch) deadLetter(c *staging.Copy, recovered *Recovered) error {
	parts, err := schema.ParseID(c.Name.ID)
	if err != nil || !b.w.Knows(parts.Sender) {
		return err
	}
	if info, err := b.outgoing.Lstat(c.Name.Entry()); err != nil || !b.isOld(info, staleAfter) {
		return ignoreMissing(err)
	}
	if stale, err := b.isStale(c.Name); !stale || err != nil {
		return err
	}
	reason := DeadLetterReason{
		Reason: "a queued copy for " + string(c.Name.Agent) + " whose copy in the sender's outbox is missing",
		ID:     c.Name.ID, From: parts.Sender, At: schema.NewTimestamp(b.w.now()),
	}
	to, err := b.newCopyTo(parts.Sender, DeadLetters)
	if err != nil {
		return err
	}
	name, err := b.move(c.Dir, c.File, to, string(c.Name.ID)+"_"+string(c.Name.Agent)+schema.FileExtension, &reason)
	if err != nil {
		return err
	}
	recovered.DeadLetters = append(recovered.DeadLetters, to.Box.Path(name))
	_, err = c.Take(b.w.files) // its mark
	return err
}
