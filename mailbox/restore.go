package mailbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/oacp-go/oacp/internal/staging"
	"github.com/oacp-go/oacp/schema"
)

// PendingError reports that a message cannot be restored because it is pending: in the inbox, or on its
// way there.
type PendingError struct {
	ID    schema.ID
	Agent schema.AgentName
	// Path is the copy in the inbox. It is empty for a copy on its way.
	Path string
}

// Error names the message and the agent.
func (e *PendingError) Error() string {
	return fmt.Sprintf("message %s is in the inbox of %s already, or on its way there", e.ID, e.Agent)
}

// ErrNoCopy is returned if there is no copy of a message that could be restored.
var ErrNoCopy = errors.New("no copy of the message exists")

// Restorable returns the copy of a message that Restore would put back into an agent's inbox. Only
// the message's ID, From and To matter. The error is a *PendingError or matches ErrNoCopy.
func (w *Workspace) Restorable(ctx context.Context, m *schema.Message, agent schema.AgentName) (Entry, error) {
	r, err := w.findRestorable(ctx, m, agent)
	return r.source, err
}

// restoring is the box in the name of a staged copy that goes back into an inbox. No recovery
// publishes such a copy: the message stays as it was.
const restoring Box = "restoring"

// restorable describes how a message can be restored.
type restorable struct {
	source Entry
	data   []byte
	// name is the file name for the inbox.
	name string
	// leftovers are the files that go when the message is back: other copies, and reasons. A dead
	// letter gets no name that still has a reason, so nobody uses their names again meanwhile.
	leftovers []Entry
}

// findRestorable looks for the copies of a message. The source is the sender's outbox copy, or a copy
// of the agent with the same bytes: moving that one leaves no second copy at any time. If the
// sender's copy is gone or not valid, the agent's is the source.
func (w *Workspace) findRestorable(ctx context.Context, m *schema.Message, agent schema.AgentName) (r restorable, err error) {
	if err := w.CheckAgent(agent); err != nil {
		return r, err
	}
	wanted := func(name string) bool { return mayHold(string(m.ID), name) }
	var unreadable UnreadableError
	isCopy := func(e *Entry) bool { return e.Message != nil && e.Message.ID == m.ID }
	load := func(agent schema.AgentName, box Box) []Entry {
		entries, loadErr := w.ListNamed(ctx, agent, box,
			wanted,
			func(e *Entry) bool { return isCopy(e) || e.Err != nil && box == Inbox })
		unreadable.add(agent, loadErr)
		return InOrder(entries)
	}
	pending := load(agent, Inbox)
	copies := append(load(agent, DeadLetters), load(agent, Archive)...)
	var originals []Entry
	if w.Knows(m.From) {
		originals = load(m.From, Outbox)
	}
	named, others := nameInvalid(pending, originals)
	pending = append(named, slices.DeleteFunc(others, func(e Entry) bool { return !isCopy(&e) })...)
	queued, err := IsQueued(w, m.ID, agent)
	switch err = errors.Join(unreadable.orNil(), err); {
	case err != nil:
		return r, err
	case len(pending) > 0:
		return r, &PendingError{m.ID, agent, pending[0].Path}
	case queued:
		return r, &PendingError{m.ID, agent, ""}
	case len(originals)+len(copies) == 0:
		return r, fmt.Errorf("message %s for %s: %w", m.ID, agent, ErrNoCopy)
	}
	all := append(originals, copies...)
	r.source = all[max(0, slices.IndexFunc(all, func(e Entry) bool { return e.Err == nil }))]
	r.name = r.source.Name
	if r.data, err = w.ReadRaw(r.source); err != nil {
		return r, err
	}
	for _, c := range copies {
		data, err := w.ReadRaw(c)
		switch {
		case err != nil || !bytes.Equal(data, r.data):
			continue // somebody edited it, or it is another message with the same id: it stays
		case r.source.Box == Outbox:
			r.source = c
		case c.Path != r.source.Path:
			r.leftovers = append(r.leftovers, c)
		}
		reason := Entry{Agent: agent, Box: c.Box, Name: c.Name + ReasonSuffix}
		if _, err := w.root.Lstat(schema.BoxPath(agent, c.Box) + "/" + reason.Name); err == nil {
			r.leftovers = append(r.leftovers, reason)
		}
	}
	return r, nil
}

// Restore returns a message to the inbox of an agent that acknowledged it or gave it up, and returns
// the path. Once the copy in the inbox is durable, Restore removes identical copies in the agent's
// archive and dead letters, with their reasons. A crash leaves the message as it was, or restored.
//
// Restore calls begin with the source after its checks, before it changes anything. Restore ends
// with its error. Other errors are those of Restorable and of the file system.
func (w *Workspace) Restore(ctx context.Context, m *schema.Message, agent schema.AgentName, begin func(source Entry) error) (path string, err error) {
	b, err := openBatch(w, nil)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	if err := b.waitForLock(ctx); err != nil {
		return "", err
	}
	// A restore that was killed may have left a copy that goes first.
	_, _ = b.recover()
	r, err := w.findRestorable(ctx, m, agent)
	if err != nil {
		return "", err
	}
	c, err := b.newCopyTo(agent, restoring)
	if err == nil {
		err = begin(r.source)
	}
	if err != nil {
		return "", err
	}
	defer c.Close()
	name, err := b.putBack(c, r)
	if err == nil {
		err = w.files.SyncDir(c.Box)
	}
	if err != nil {
		return "", err
	}
	for _, old := range r.leftovers {
		if goneErr := w.Remove(old); !IsGone(goneErr) {
			err = errors.Join(err, goneErr)
		}
	}
	return c.Box.Path(name), err
}

// putBack moves or copies the source to the inbox, under its name or the long one.
func (b *batch) putBack(c *staging.Copy, r restorable) (name string, err error) {
	from, err := (folder{b.w, r.source.Agent, r.source.Box}).open()
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	put := func(name string) error {
		if r.source.Box == Outbox {
			return c.Put(b.w.files, r.data, name)
		}
		return c.Move(b.w.files, from, r.source.Name, name)
	}
	if err = put(r.name); !errors.Is(err, fs.ErrExist) {
		return r.name, err
	}
	if name, err = r.source.Message.LongFileName(); err != nil {
		return "", err
	}
	return name, put(name)
}
