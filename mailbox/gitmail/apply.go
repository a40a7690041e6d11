package gitmail

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"time"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/replica"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/validate"
)

// BlockedError says that a part of the mail waits, because a file or folder of the workspace cannot be
// read or written. All other mail is in step, and the next sync tries again.
type BlockedError struct {
	// Err is the first error. It names the file or folder.
	Err error
}

// Error says what is wrong.
func (e *BlockedError) Error() string { return "a part of the mail waits: " + e.Err.Error() }

// Unwrap returns the cause.
func (e *BlockedError) Unwrap() error { return e.Err }

// blocked notes that a box refuses to be read or written.
func (e *exchange) blocked(err error) {
	if e.block == nil {
		e.block = &BlockedError{err}
	}
}

// refused notes that the workspace did not take the state of a message: the base keeps what it has of it.
func (e *exchange) refused(c replica.Copy, err error) {
	e.blocked(err)
	e.waiting = append(e.waiting, c)
}

// apply gives the workspace the result of a merge.
func (e *exchange) apply(ctx context.Context, m *merge) error {
	if err := e.addAgents(m); err != nil {
		return err
	}
	later, err := e.receive(ctx, m)
	if err != nil {
		return err
	}
	e.r.step("arrived")
	for _, o := range later {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		if err := e.applyOutcome(ctx, o); err != nil {
			return err
		}
	}
	for _, agent := range m.removed {
		if err := e.removeAgent(agent); err != nil {
			return err
		}
	}
	e.r.step("applied")
	return nil
}

// addAgents makes the mailboxes of new agents, and the description of the workspace.
func (e *exchange) addAgents(m *merge) error {
	for _, agent := range m.added {
		err := e.write(func() (err error) {
			for _, box := range []mailbox.Box{mailbox.Inbox, mailbox.Outbox, mailbox.DeadLetters} {
				err = cmp.Or(err, e.r.w.MakeFolder(boxPath(agent, box)))
			}
			return err
		})
		if err != nil {
			e.blocked(err)
			continue
		}
		e.result.Changes = append(e.result.Changes, Change{Direction: In, Kind: NewAgent, Agent: agent})
	}
	if m.described == "" {
		return nil
	}
	data, err := e.tip.file(m.described)
	if refused, ok := errors.AsType[errRefused](err); ok {
		e.problem(markerName, refused.error)
		return nil
	}
	if err != nil {
		return err
	}
	e.result.Changes = append(e.result.Changes, Change{Direction: In, Kind: Described})
	return e.write(func() error { return durable.ReplaceFile(e.r.w.Root(), e.r.w.Dir(), markerName, data, 0o644) })
}

// removeAgent moves the folder of an agent that was removed out of the way, if there is one: what it sent may have made
// it again. Nothing is deleted.
func (e *exchange) removeAgent(agent schema.AgentName) error {
	if !e.r.w.Knows(agent) {
		return nil
	}
	if _, err := e.r.w.Root().Lstat(boxPath(agent, mailbox.Inbox)); err == nil && e.o.RemoveAgent != agent {
		e.result.Changes = append(e.result.Changes, Change{Direction: In, Kind: RemovedAgent, Agent: agent})
	}
	return e.write(func() error {
		_, err := SetAside(e.r.w, agent, e.now)
		return err
	})
}

// SetAside moves the folder of an agent to state/removed, and returns the new path.
func SetAside(w *mailbox.Workspace, agent schema.AgentName, now time.Time) (path string, err error) {
	const removed = "state/removed"
	if err := w.MakeStateFolder(removed); err != nil {
		return "", err
	}
	from, err := durable.OpenDir(w.Root(), w.Dir(), "agents")
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	to, err := durable.OpenDir(w.Root(), w.Dir(), removed)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	name := string(agent) + "-" + now.UTC().Format("20060102T150405.000000000Z")
	if err := from.Publish(string(agent), to, name); err != nil {
		return "", fmt.Errorf("removing agent %s: %w", agent, err)
	}
	return to.Path(name), errors.Join(to.Sync(), from.Sync())
}

// write calls the function, but not in a dry run.
func (e *exchange) write(do func() error) error {
	if e.o.DryRun {
		return nil
	}
	return do()
}

// receiveBatch is how many messages are received at once: their syncs are shared.
const receiveBatch = 200

// An arrival is a message that is new here, and those that it is pending for.
type arrival struct {
	object  string
	pending []*outcome
	// sent says that the outbox copy is all that there is to receive.
	sent bool
}

// receive delivers the messages that are not here yet, and returns the outcomes of the others.
func (e *exchange) receive(ctx context.Context, m *merge) (later []*outcome, err error) {
	arrivals := make(map[string]*arrival)
	for name, object := range m.sent {
		arrivals[name] = &arrival{object: object, sent: true}
	}
	for _, o := range m.outcomes {
		from := replica.Sender(o.Name)
		sent, err := e.w.Find(from, mailbox.Outbox, o.Name)
		a := arrivals[o.Name]
		if o.Was != replica.Unknown || o.Want != replica.Pending || sent.Name != "" || err != nil {
			later = append(later, o)
			continue
		}
		if a == nil {
			a = &arrival{object: o.object}
			arrivals[o.Name] = a
		}
		a.pending = append(a.pending, o)
	}
	done, names := 0, slices.Sorted(maps.Keys(arrivals))
	for names := range slices.Chunk(names, receiveBatch) {
		for range names {
			if done++; e.o.Progress != nil {
				e.o.Progress(done, len(arrivals))
			}
		}
		if err := e.deliver(ctx, names, arrivals); err != nil {
			return nil, err
		}
	}
	return later, nil
}

// deliver puts messages into the boxes of the workspace. One that the workspace refuses stays a problem of the
// tree.
func (e *exchange) deliver(ctx context.Context, names []string, arrivals map[string]*arrival) error {
	var files []mailbox.Received
	var of []*arrival
	for _, name := range names {
		a := arrivals[name]
		data, err := e.tip.file(a.object)
		if refused, ok := errors.AsType[errRefused](err); ok {
			e.foreign(name, a, refused.error)
			continue
		}
		if err != nil {
			return err
		}
		f := mailbox.Received{From: replica.Sender(name), Name: name, Data: data}
		m, err := validate.Read(data)
		for _, o := range a.pending {
			if err == nil && !m.IsFor(o.Agent) {
				e.foreignCopy(o, fmt.Errorf("the message is not for %s", o.Agent))
				continue
			}
			f.Pending = append(f.Pending, o.Agent)
		}
		files, of = append(files, f), append(of, a)
	}
	if e.o.DryRun {
		for i, f := range files {
			if m, err := validate.Read(f.Data); err != nil {
				e.foreign(f.Name, of[i], err)
			} else {
				e.arrived(m)
			}
		}
		return nil
	}
	for i, result := range e.r.w.Receive(ctx, files) {
		queued, isQueued := errors.AsType[*mailbox.QueuedError](result.Err)
		var refused *mailbox.RefusedError
		switch {
		case isQueued:
			// The copy stays staged: it is here, and the next sync tries to publish it.
			e.blocked(fmt.Errorf("%s: %w", boxPath(queued.Agents[0], mailbox.Inbox), queued.Err))
			e.arrived(result.Receipt.Message)
		case result.Receipt != nil:
			e.arrived(result.Receipt.Message)
		case errors.As(result.Err, &refused):
			e.foreign(files[i].Name, of[i], result.Err)
		default:
			e.blocked(result.Err)
			for _, o := range of[i].pending {
				e.waiting = append(e.waiting, o.Copy)
			}
			if of[i].sent {
				e.unsent = append(e.unsent, files[i].Name)
			}
		}
	}
	return nil
}

// foreign notes a message that the workspace does not take, once.
func (e *exchange) foreign(name string, a *arrival, err error) {
	path := treePath(replica.Sender(name), mailbox.Outbox, name)
	if !a.sent && len(a.pending) > 0 {
		path = treePath(a.pending[0].Agent, mailbox.Inbox, name)
	}
	e.problemOnce(path, err)
}

func (e *exchange) foreignCopy(o *outcome, err error) {
	e.problemOnce(treePath(o.Agent, o.Want.Box(), o.Name), err)
}

// problemOnce notes a problem of the tree that the base does not have.
func (e *exchange) problemOnce(path string, err error) {
	if at, baseErr := e.base.entry(path); baseErr == nil && !at.isFile() {
		e.problem(path, err)
	}
}

func (e *exchange) arrived(m *schema.Message) {
	c := Change{Direction: In, Kind: Sent, Agent: m.From}
	c.describe(m)
	e.result.Changes = append(e.result.Changes, c)
}

// applyOutcome gives one message its state.
func (e *exchange) applyOutcome(ctx context.Context, o *outcome) error {
	message, err := e.fill(o)
	if refused, ok := errors.AsType[errRefused](err); ok {
		e.foreignCopy(o, refused.error)
		return nil
	}
	if _, gitFailed := gitError(err); gitFailed {
		return err
	}
	if err != nil {
		e.refused(o.Copy, err)
		return nil
	}
	applied := true
	if !e.o.DryRun {
		applied, err = e.w.Apply(ctx, o.Outcome)
	}
	var invalid *validate.InvalidError
	switch {
	case errors.Is(err, replica.ErrChanged):
		// The next sync has that. With a base that says more than the file, the file would be restored.
		e.waiting = append(e.waiting, o.Copy)
		return nil
	case errors.As(err, &invalid):
		e.foreignCopy(o, err)
		return nil
	case err != nil && ctx.Err() == nil:
		e.refused(o.Copy, fmt.Errorf("%s: %w", boxPath(o.Agent, cmp.Or(o.Want.Box(), o.Was.Box())), err))
		return nil
	case err != nil:
		return err
	}
	kind := map[replica.Stage]Kind{replica.Pending: Restored, replica.Dead: DeadLetter, replica.Handled: Acknowledged}[o.Want]
	if o.Was == replica.Unknown && kind == Restored {
		kind = Sent
	}
	if !applied || o.Was == replica.Unknown && (o.base.Stage != replica.Unknown || o.Want != replica.Pending) {
		return nil // it is no news
	}
	c := Change{Direction: In, Kind: kind, Agent: o.Agent}
	if message != nil {
		c.describe(message)
	}
	if kind == Sent {
		c.Agent = message.From
	}
	e.result.Changes = append(e.result.Changes, c)
	return nil
}

// fill reads what an outcome needs. The message is nil for a dead letter that is none.
func (e *exchange) fill(o *outcome) (m *schema.Message, err error) {
	switch {
	case o.Was != replica.Unknown:
		o.Data, err = e.w.Read(o.Copy)
		if errors.Is(err, fs.ErrNotExist) && o.object != "" {
			o.Data, err = e.tip.file(o.object)
		}
	case o.object != "":
		o.Data, err = e.tip.file(o.object)
	}
	if err == nil && o.Want == replica.Dead && o.reason != "" {
		o.Reason, err = e.tip.file(o.reason)
	}
	if err != nil {
		return nil, err
	}
	m, err = validate.Read(o.Data)
	switch {
	case err == nil && o.Was == replica.Unknown && !m.IsFor(o.Agent):
		return nil, errRefused{fmt.Errorf("the message is not for %s", o.Agent)}
	case err == nil && o.Was == replica.Unknown && !e.r.w.Knows(o.Agent) && !e.o.DryRun:
		return nil, errRefused{fmt.Errorf("there is no agent %s", o.Agent)}
	case err != nil && (o.Was != replica.Unknown || o.Want == replica.Dead):
		return nil, nil
	case err != nil:
		return nil, errRefused{err}
	}
	return m, nil
}
