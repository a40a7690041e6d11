package mailbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/internal/failure"
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

func (e *PendingError) Error() string {
	return fmt.Sprintf("message %s is in the inbox of %s already, or on its way there", e.ID, e.Agent)
}

// ErrNoCopy is returned if there is no copy of a message that could be restored.
var ErrNoCopy = failure.New("not_found", "no copy of the message exists", "oacp read ID --raw prints a copy of another agent, if there is one")

// restorable is the copy that goes back into an inbox, its bytes, and the file name that it gets there.
type restorable struct {
	source Entry
	data   []byte
	name   string
}

// findRestorable looks for the copies of a message and chooses one. The best is the agent's copy if it has the bytes
// of the sender's outbox copy, because moving it never leaves two. The next is the outbox copy. If that is gone or not
// valid, it is the agent's copy. The last is one in the mail of a removed agent.
func (w *Workspace) findRestorable(ctx context.Context, m *schema.Message, agent schema.AgentName) (r restorable, err error) {
	if err := w.CheckAgent(agent); err != nil {
		return r, err
	}
	var unreadable UnreadableError
	load := func(agent schema.AgentName, box Box, isCopy func(*Entry) bool) []Entry {
		entries, loadErr := w.ListNamed(ctx, agent, box, func(name string) bool { return mayHold(string(m.ID), name) }, isCopy)
		unreadable.Add(agent, loadErr)
		return InOrder(entries)
	}
	isCopy := func(e *Entry) bool { return e.Message != nil && e.Message.ID == m.ID }
	long, _ := m.LongFileName() // a malformed id has none
	var originals []Entry
	if w.Knows(m.From) {
		originals = load(m.From, Outbox, isCopy)
	}
	pending := load(agent, Inbox, func(e *Entry) bool { // a file that cannot be read counts by its name
		isOriginal := func(o Entry) bool { return o.Name == e.Name || long == e.Name }
		return isCopy(e) || e.Err != nil && slices.ContainsFunc(originals, isOriginal)
	})
	copies := append(load(agent, DeadLetters, isCopy), load(agent, Archive, isCopy)...)
	queued, err := IsQueued(w, m.ID, agent)
	switch err = errors.Join(unreadable.orNil(), err); {
	case err != nil:
		return r, err
	case len(pending) > 0:
		return r, &PendingError{m.ID, agent, pending[0].Path}
	case queued:
		return r, &PendingError{m.ID, agent, ""}
	case len(originals)+len(copies) == 0:
		removed, err := findRemoved(w, string(m.ID))
		if err == nil && len(removed) == 0 {
			err = fmt.Errorf("message %s for %s: %w", m.ID, agent, ErrNoCopy)
		}
		return append(removed, r)[0], err
	}
	all := append(originals, copies...)
	r.source = all[max(0, slices.IndexFunc(all, func(e Entry) bool { return e.Err == nil }))]
	r.name = r.source.Name
	if r.data, err = ReadUnscreened(w, r.source); err != nil || r.source.Box != Outbox {
		return r, err
	}
	for _, c := range copies {
		if data, err := ReadUnscreened(w, c); err == nil && bytes.Equal(data, r.data) {
			r.source = c
			break
		}
	}
	return r, nil
}

// Restore puts a message back into the inbox of an agent that acknowledged it or gave it up, and returns
// the path. It removes the reason of a dead letter. A crash leaves the message as it was, or restored.
//
// After its checks, and before it changes anything, Restore calls begin with the source and returns its
// error, if any. Other errors are a *PendingError, one that matches ErrNoCopy, and those of the file system. An error
// with a path came after the message was put back.
func (w *Workspace) Restore(ctx context.Context, m *schema.Message, agent schema.AgentName, begin func(source Entry) error) (path string, err error) {
	placed := func() error { return nil }
	path, err = PutBack(ctx, w, m, agent, func(source Entry) (err error) {
		if err = begin(source); err == nil {
			placed, err = noteRestore(w, agent, source)
		}
		return err
	})
	if path != "" {
		err = errors.Join(err, placed())
	}
	return path, err
}

// PutBack is Restore for a message that was restored on another machine, so it notes no restore.
func PutBack(ctx context.Context, w *Workspace, m *schema.Message, agent schema.AgentName, begin func(source Entry) error) (path string, err error) {
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
	inbox, err := b.open(agent, Inbox)
	if err == nil {
		err = inbox.Writable()
	}
	if err == nil {
		err = begin(r.source)
	}
	if err != nil {
		return "", err
	}
	name := r.name
	err = r.putBack(w, inbox, name)
	if errors.Is(err, fs.ErrExist) {
		if name, err = r.source.Message.LongFileName(); err == nil {
			err = r.putBack(w, inbox, name)
		}
	}
	if _, moved := errors.AsType[*NotDurableError](err); err != nil && !moved {
		return "", err
	}
	if r.source.Box == DeadLetters {
		reason := Entry{Agent: agent, Box: DeadLetters, Name: r.source.Name + ReasonSuffix}
		if goneErr := w.Remove(reason); !IsGone(goneErr) {
			err = errors.Join(err, goneErr)
		}
	}
	return inbox.Path(name), err
}

// putBack moves or copies the source to the inbox, under this name.
func (r *restorable) putBack(w *Workspace, inbox *durable.Dir, name string) (err error) {
	if r.source.Box == Outbox {
		return durable.AddFile(w.files, inbox, name, r.data)
	}
	from, err := (folder{w, r.source.Agent, r.source.Box}).open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	if err := w.files.Publish(from, r.source.Name, inbox, name, true); err != nil {
		return err
	}
	return syncMove(w.files, from, inbox)
}
