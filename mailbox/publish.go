package mailbox

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/internal/staging"
	"github.com/oacp-go/oacp/schema"
)

// ErrGone is returned, in a *QueuedError, for a copy that is neither in its inbox nor staged:
// someone removed the staged copy, and it could not be written again, or another machine delivered it.
var ErrGone = errors.New("the staged copy is gone")

// publish publishes the inbox copies of sent messages.
func (b *batch) publish(messages []*outgoing, syncErr error) {
	inboxes := make(map[*durable.Dir]bool)
	for _, o := range messages {
		if o.receipt == nil || o.receipt.AlreadySent {
			continue
		}
		queued := &QueuedError{ID: o.message.ID}
		for i, c := range o.inboxes {
			name, err := b.publishInbox(c, o.message, o.name, o.data)
			if errors.Is(err, ErrGone) && !o.outbox.NotExclusive && b.w.now().Sub(b.opened) < strangerAfter {
				// Nobody else publishes a copy of a living process, so someone removed it. On a network file
				// system this is not certain: a machine with another clock may take the process for dead.
				name, err = b.publishAgain(c.Box, o)
			}
			if err != nil {
				queued.Agents = append(queued.Agents, c.Name.Agent)
				queued.Err = errors.Join(queued.Err, err)
				continue
			}
			o.receipt.Inboxes[i] = c.Box.Path(name)
			inboxes[c.Box] = true
		}
		if queued.Err != nil {
			o.err = queued
		}
	}
	if err := errors.Join(syncErr, b.syncAll(inboxes)); err != nil {
		for _, o := range messages {
			if o.receipt != nil && o.err == nil {
				o.err = &NotDurableError{ID: o.message.ID, Err: err}
			}
		}
	}
}

// publishInbox publishes an inbox copy under the name of its outbox copy, or under the long name if
// another file has that one, and returns the name. It returns ErrGone if the copy is neither staged
// nor in the inbox.
func (b *batch) publishInbox(c *staging.Copy, m *schema.Message, name string, data []byte) (string, error) {
	long, err := m.LongFileName()
	if err != nil {
		return name, err
	}
	for _, as := range []string{name, long} {
		err = c.Publish(b.w.files, as, b.isUnique(m, as))
		switch {
		case err == nil:
			return as, nil
		case errors.Is(err, fs.ErrExist) && holds(c.Box, as, data):
			// The copy is published; a crash undid the removal of the staged name.
			_, err = c.Take(b.w.files)
			return as, err
		case errors.Is(err, fs.ErrNotExist) && !holds(b.outgoing, c.Name.Entry(), data):
			// The copy is no longer staged; if it were, the inbox would be missing.
			for _, as := range []string{name, long} {
				if holds(c.Box, as, data) {
					return as, nil
				}
			}
			return name, fmt.Errorf("%w: %s", ErrGone, c.Path())
		case !errors.Is(err, fs.ErrExist) && !errors.Is(err, durable.ErrNotExclusive):
			return name, err
		}
	}
	return name, err
}

// holds reports whether a file has these bytes. It opens the file, because a network file system
// describes a removed one for a while.
func holds(dir *durable.Dir, name string, data []byte) bool {
	found, err := dir.ReadFile(name, schema.MaxFileSize)
	return err == nil && string(found) == string(data)
}

// publishAgain writes an inbox copy of a sent message because someone removed the staged copy.
func (b *batch) publishAgain(inbox *durable.Dir, o *outgoing) (name string, err error) {
	name = o.name
	err = durable.AddFile(b.w.files, inbox, name, o.data)
	if errors.Is(err, fs.ErrExist) {
		if name, err = o.message.LongFileName(); err == nil {
			err = durable.AddFile(b.w.files, inbox, name, o.data)
		}
	}
	if err != nil {
		err = fmt.Errorf("%w: %w", ErrGone, err)
	}
	return name, err
}
