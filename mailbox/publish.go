package mailbox

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"golang.org/x/sync/errgroup"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/staging"
	"github.com/oacp-go/oacp/schema"
)

// ErrGone is returned, in a *QueuedError, for a copy that is neither in its inbox nor staged:
// someone removed the staged copy, and it could not be written again, or another machine delivered it.
var ErrGone = failure.New("copy_gone", "the staged copy is gone",
	"someone removed its copy, or another machine delivered it: if the agent does not have the message, send it again to that agent alone")

// publish publishes the inbox copies of sent messages.
func (b *batch) publish(messages []*outgoing) {
	inboxes := make(map[*durable.Dir]bool)
	for _, o := range messages {
		if o.receipt == nil || o.receipt.AlreadySent {
			continue
		}
		queued := &QueuedError{ID: o.message.ID}
		_, outboxErr := b.committed(o)
		for i, c := range o.inboxes {
			path, err := "", outboxErr
			if err == nil {
				path, err = b.publishInbox(c, o.message, o.name, o.data)
			}
			if errors.Is(err, ErrGone) {
				path, err = b.findGone(c, o, err)
			}
			if err != nil {
				queued.Agents = append(queued.Agents, c.Name.Agent)
				queued.Err = cmp.Or(outboxErr, errors.Join(queued.Err, err))
				continue
			}
			o.receipt.Inboxes[i] = path
			inboxes[c.Box] = true
		}
		if queued.Err != nil {
			o.err = queued
		}
	}
	if err := b.syncPublished(inboxes); err != nil {
		for _, o := range messages {
			if o.receipt != nil && o.err == nil {
				o.err = &NotDurableError{fmt.Sprintf("message %s is sent", o.message.ID), err}
			}
		}
	}
}

// syncPublished makes it durable that copies are in inboxes, and then that they are no longer staged. In the other order,
// a crash of the machine between the two could leave neither.
func (b *batch) syncPublished(inboxes map[*durable.Dir]bool) error {
	if len(inboxes) == 0 {
		return nil
	}
	var group errgroup.Group
	group.SetLimit(syncsAtOnce)
	for inbox := range inboxes {
		group.Go(func() error { return b.w.files.SyncDir(inbox) })
	}
	err := group.Wait()
	return cmp.Or(err, b.w.files.SyncDir(b.outgoing))
}

// publishInbox publishes an inbox copy under the name of its outbox copy, or under the long name if
// another file has that one, and returns the path. It returns ErrGone if the copy is no longer staged.
func (b *batch) publishInbox(c *staging.Copy, m *schema.Message, name string, data []byte) (string, error) {
	long, err := m.LongFileName()
	if err != nil {
		return "", err
	}
	for _, as := range []string{name, long} {
		err = c.Publish(b.w.files, as, b.isUnique(m, as))
		switch {
		case err == nil:
			return c.Box.Path(as), nil
		case errors.Is(err, fs.ErrExist) && holds(c.Box, as, data):
			// The copy is published; a crash undid the removal of the staged name.
			_, err = c.Take(b.w.files)
			return c.Box.Path(as), err
		case errors.Is(err, fs.ErrNotExist) && !holds(b.outgoing, c.Name.Entry(), data):
			// The copy is no longer staged; if it were, the inbox would be missing.
			return "", fmt.Errorf("%w: %s", ErrGone, c.Path())
		case !errors.Is(err, fs.ErrExist) && !errors.Is(err, durable.ErrNotExclusive):
			return "", err
		}
	}
	return "", err
}

// findGone returns the path of an inbox copy that this process staged and somebody took: another process published it,
// the sender recalled it, or someone removed it. In the last case, findGone writes it again.
func (b *batch) findGone(c *staging.Copy, o *outgoing, gone error) (string, error) {
	path, err := b.delivered(c.Name.Agent, o)
	switch {
	case path != "" || err != nil:
		return path, err
	case o.outbox.NotExclusive || b.w.now().Sub(b.opened) >= strangerAfter:
		// On a network file system, a machine with another clock may have taken this process for dead, and
		// published the copy, and its recipient may have removed it.
		return "", gone
	}
	return b.publishAgain(c.Box, o)
}

// delivered returns the path of an agent's copy of a message, empty if the agent has none: in the inbox, or where the
// agent or a recall has moved it.
func (b *batch) delivered(agent schema.AgentName, o *outgoing) (string, error) {
	for _, box := range []Box{Inbox, Archive, DeadLetters} {
		names, err := folder{b.w, agent, box}.names()
		if err != nil {
			return "", err
		}
		for _, name := range names {
			if !schema.IsMessageFile(name) || !mayHold(string(o.message.ID), name) {
				continue
			}
			e := Entry{Agent: agent, Box: box, Name: name}
			if data, err := ReadUnscreened(b.w, e); err == nil && bytes.Equal(data, o.data) {
				return filepath.Join(b.w.BoxPath(agent, box), name), nil
			}
		}
	}
	return "", nil
}

// holds reports whether a file has these bytes. It opens the file, because a network file system
// describes a removed one for a while.
func holds(dir *durable.Dir, name string, data []byte) bool {
	found, err := dir.ReadFile(name, schema.MaxFileSize)
	return err == nil && string(found) == string(data)
}

// publishAgain writes an inbox copy of a sent message because someone removed the staged copy.
func (b *batch) publishAgain(inbox *durable.Dir, o *outgoing) (string, error) {
	name := o.name
	err := durable.AddFile(b.w.files, inbox, name, o.data)
	if errors.Is(err, fs.ErrExist) {
		if name, err = o.message.LongFileName(); err == nil {
			err = durable.AddFile(b.w.files, inbox, name, o.data)
		}
	}
	if err != nil {
		err = fmt.Errorf("%w: %w", ErrGone, err)
	}
	return inbox.Path(name), err
}

// publishSent publishes the outbox copy of a message.
func (b *batch) publishSent(o *outgoing) error {
	if o.received == nil {
		noteUnsent(b.w, o.name)
	}
	return o.outbox.Publish(b.w.files, o.name, b.isUnique(o.message, o.name))
}
