package mailbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gofrs/flock"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/validate"
)

// staleAfter is the age at which the staged copies of an unsent message are taken for those of a
// dead process.
const staleAfter = time.Hour

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

// Recover completes deliveries that a crash interrupted or an inbox refused: it publishes copies of
// sent messages, and removes copies of unsent messages that are an hour old. Any number of
// processes may run it at any time, during deliveries too.
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

// Staged lists state/outgoing: the ids of messages with staged copies, and the names of entries
// that are not staged copies.
func (w *Workspace) Staged() (ids []schema.ID, others []string, err error) {
	dir, err := durable.OpenDir(w.root, w.dir, outgoingName)
	if err != nil {
		return nil, nil, ignoreMissing(err)
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	names, err := dir.Names()
	for _, left := range groupStaged(names) {
		ids = append(ids, left.id)
	}
	for _, name := range names {
		if _, ok := parseStagedName(name); !ok {
			others = append(others, name)
		}
	}
	return ids, others, err
}

// IsQueued reports whether the agent's copy of a message is staged and not yet in its inbox.
func (w *Workspace) IsQueued(id schema.ID, agent schema.AgentName) (bool, error) {
	staged := stagedName{id, agent, Inbox}.String()
	if _, ok := parseStagedName(staged); !ok {
		return false, fmt.Errorf("%q is not an id, or %q not an agent name", id, agent)
	}
	for _, name := range []string{staged, staged + markSuffix} {
		switch _, err := w.root.Lstat(outgoingName + "/" + name); {
		case err == nil:
			return true, nil
		case !errors.Is(err, fs.ErrNotExist):
			return false, fmt.Errorf("looking at %s: %w", filepath.Join(w.dir, outgoingName, name), err)
		}
	}
	return false, nil
}

// leftovers are the staged copies of one message. Those in unsent show, as long as they are staged,
// that the message is not sent or not moved: the copies for all boxes but inboxes.
type leftovers struct {
	id      schema.ID
	unsent  []stagedName
	inboxes []stagedName
}

// groupStaged groups the names in state/outgoing by message, in the order of the ids.
func groupStaged(names []string) []*leftovers {
	slices.Sort(names)
	var groups []*leftovers
	for _, name := range names {
		parsed, ok := parseStagedName(name)
		if !ok {
			continue
		}
		if len(groups) == 0 || groups[len(groups)-1].id != parsed.id {
			groups = append(groups, &leftovers{id: parsed.id})
		}
		group := groups[len(groups)-1]
		if parsed.box == Inbox {
			group.inboxes = append(group.inboxes, parsed)
		} else {
			group.unsent = append(group.unsent, parsed)
		}
	}
	return groups
}

func (w *Workspace) recover(b *batch) (recovered Recovered, err error) {
	names, err := b.staging.Names()
	for _, left := range groupStaged(names) {
		err = errors.Join(err, b.recoverMessage(left, &recovered))
	}
	return recovered, err
}

// recoverMessage recovers one message. As long as the outbox copy is staged, a running process may
// still send the message; only its age shows that the process is dead.
func (b *batch) recoverMessage(left *leftovers, recovered *Recovered) error {
	for _, name := range left.unsent {
		c, err := b.reopen(name)
		if err != nil {
			return err
		}
		staged, err := c.dir.Exists(c.entry)
		if staged || err != nil {
			return errors.Join(err, b.sweep(c, left, recovered))
		}
		// It was published, and its mark is left.
		if err := b.dropMark(c); err != nil {
			return err
		}
	}
	var err error
	for _, name := range left.inboxes {
		err = errors.Join(err, b.recoverCopy(name, recovered))
	}
	return err
}

// reopen opens the box of a staged copy. Unlike newCopy, it does not make mailboxes, and leaves it
// to publish to find that a box refuses the copy.
func (b *batch) reopen(name stagedName) (*stagedCopy, error) {
	if err := b.w.CheckAgent(name.agent); err != nil {
		return nil, err
	}
	c, err := b.newCopy(name)
	if c == nil {
		return nil, err
	}
	return c, nil
}

// sweep removes the copies of a message that is not sent after an hour. It takes the copy that
// prevents the sending first: that ends a delivery which is still running, and if the copy is gone,
// the message has been sent.
func (b *batch) sweep(unsent *stagedCopy, left *leftovers, recovered *Recovered) error {
	stale, err := b.isStale(unsent.dir, unsent.entry)
	if !stale || err != nil {
		return err
	}
	took, err := unsent.take(b.w.files)
	if !took {
		return err
	}
	recovered.Swept = append(recovered.Swept, unsent.dir.Path(unsent.entry))
	for _, name := range left.inboxes {
		c, openErr := b.reopen(name)
		if openErr != nil {
			err = errors.Join(err, openErr)
			continue
		}
		took, takeErr := c.take(b.w.files)
		if took {
			recovered.Swept = append(recovered.Swept, c.dir.Path(c.entry))
		}
		err = errors.Join(err, takeErr)
	}
	return err
}

// isStale reports whether a staged file is so old that its delivery is dead. If it is, the batch
// holds the lock: otherwise a message with a given id could be staged again under the same names at
// this moment, and its new copies would be taken for the old ones.
func (b *batch) isStale(dir *durable.Dir, name string) (bool, error) {
	for {
		info, err := dir.Lstat(name)
		if err != nil {
			return false, ignoreMissing(err)
		}
		stale := b.w.now().Sub(info.ModTime()) >= staleAfter
		if !stale || b.lock != nil {
			return stale, nil
		}
		if locked, err := b.takeLock((*flock.Flock).TryLock); !locked {
			return false, err
		}
	}
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// dropMark removes the mark of a copy that is published. A young mark may belong to a copy that is
// about to be written.
func (b *batch) dropMark(c *stagedCopy) error {
	if c.marks == nil {
		return nil
	}
	stale, err := b.isStale(c.marks, c.mark)
	if !stale || err != nil {
		return err
	}
	_, err = b.w.files.take(c.marks, c.mark)
	return err
}

// recoverCopy publishes an inbox copy if the message is in its sender's outbox.
func (b *batch) recoverCopy(name stagedName, recovered *Recovered) error {
	c, err := b.reopen(name)
	if err != nil {
		recovered.Waiting = append(recovered.Waiting, b.staging.Path(name.String()))
		return err
	}
	data, err := c.dir.ReadFile(c.entry, schema.MaxFileSize)
	if errors.Is(err, fs.ErrNotExist) {
		return b.dropMark(c)
	}
	if err != nil {
		return err
	}
	m, _ := validate.Decode(data)
	if m == nil || m.ID != name.id {
		return b.deadLetter(c, recovered) // a crash left an incomplete file
	}
	fileName, err := b.sentAs(m, data)
	if err != nil {
		return err
	}
	if fileName == "" {
		return b.deadLetter(c, recovered)
	}
	if fileName, err = b.publishInbox(c, m, fileName, data); err != nil {
		recovered.Waiting = append(recovered.Waiting, c.dir.Path(c.entry))
		return err
	}
	recovered.Published = append(recovered.Published, c.box.Path(fileName))
	return b.w.files.syncDir(c.box)
}

// sentAs returns the name of the file with exactly these bytes in the sender's outbox. If there is
// none, the message was not sent, and the name is empty.
func (b *batch) sentAs(m *schema.Message, data []byte) (string, error) {
	if !b.w.Knows(m.From) {
		return "", nil
	}
	c, err := b.reopen(stagedName{m.ID, m.From, Outbox})
	if err != nil {
		return "", err
	}
	long, err := m.LongFileName()
	if err != nil {
		return "", err
	}
	isCopy := func(name string) (bool, error) {
		info, err := c.box.Lstat(name)
		if err != nil || info.Size() != int64(len(data)) {
			return false, nil
		}
		sent, err := c.box.ReadFile(name, schema.MaxFileSize)
		return err == nil && string(sent) == string(data), err
	}
	for _, name := range []string{long, m.FileName()} {
		if sent, err := isCopy(name); sent || err != nil {
			return name, err
		}
	}
	names, err := c.box.Names()
	for _, name := range names {
		if !strings.HasPrefix(name, strings.TrimSuffix(long, schema.FileExtension)+"_") { // a suffix follows
			continue
		}
		if sent, err := isCopy(name); sent || err != nil {
			return name, err
		}
	}
	return "", err
}

// deadLetter moves an old inbox copy without an outbox copy to its sender's dead letters. The
// message was sent if someone emptied the outbox, and was not sent if a sweep was interrupted.
// Nothing shows which, so Recover does not remove the copy.
func (b *batch) deadLetter(c *stagedCopy, recovered *Recovered) error {
	parts, err := schema.ParseID(c.name.id)
	if err != nil || !b.w.Knows(parts.Sender) {
		return err
	}
	stale, err := b.isStale(c.dir, c.entry)
	if !stale || err != nil {
		return err
	}
	reason := DeadLetterReason{
		Reason: "a queued copy for " + string(c.name.agent) + " whose copy in the sender's outbox is missing",
		ID:     c.name.id, From: parts.Sender, At: schema.NewTimestamp(b.w.now()),
	}
	to, err := b.newCopyTo(parts.Sender, DeadLetters)
	if err != nil {
		return err
	}
	name, err := b.move(c.dir, c.entry, to, string(c.name.id)+"_"+string(c.name.agent)+schema.FileExtension, &reason)
	if err != nil {
		return err
	}
	recovered.DeadLetters = append(recovered.DeadLetters, to.box.Path(name))
	_, err = c.take(b.w.files) // its mark
	return err
}
