package gitmail

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"

	"github.com/oacp-go/oacp/internal/git"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/history"
	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/mailbox/replica"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/validate"
)

// BlockedError says that a part of the mail waits, because a file or folder of the workspace cannot be
// read or written. All other mail is exchanged, and the next sync tries again.
type BlockedError struct {
	// Err is the first error. It names the file or folder.
	Err error
}

func (e *BlockedError) Error() string { return "a part of the mail waits: " + e.Err.Error() }

func (e *BlockedError) Unwrap() error { return e.Err }

// problem notes a file that is skipped.
func (e *exchange) problem(path string, err error) {
	const most = 50 // one commit can hold any number of them
	switch n := len(e.result.Problems); {
	case n < most:
		e.result.Problems = append(e.result.Problems, Problem{Path: path, Err: err})
	case n == most:
		e.result.Problems = append(e.result.Problems, Problem{Path: schema.AgentsName, Err: errors.New("more files are skipped, which are not listed")})
	}
}

// blocked notes that a box cannot be read or written.
func (e *exchange) blocked(err error) {
	if e.block == nil {
		e.block = &BlockedError{err}
	}
}

// noteIncoming notes a change that another machine made. The message may be nil.
func (e *exchange) noteIncoming(kind history.Kind, agent schema.AgentName, m *schema.Message) {
	c := history.Change{Direction: history.In, Kind: kind, Agent: agent}
	if m != nil {
		c.Describe(m)
	}
	e.result.add(c)
}

// apply gives the workspace what it lacks of a piece, and after the last one removes agents.
func (e *exchange) apply(ctx context.Context, last bool) error {
	e.r.step("merged")
	if !e.o.DryRun {
		if err := noteLeftOut(e); err != nil {
			return err
		}
	}
	for agent, agreed := range e.agreed {
		if e.o.DryRun {
			continue
		}
		if err := e.w.Prepare(agent, e.read[agent], agreed); err != nil {
			return err
		}
	}
	e.addAgents()
	e.added = nil
	for agent, status := range e.statuses {
		if e.o.DryRun || !e.w.Knows(agent) {
			continue
		}
		if err := project.TakeStatus(e.r.w, agent, status); err != nil { // the next sync tries again
			e.problem(schema.AgentPath(agent, project.StatusName), err)
		}
	}
	e.statuses = nil
	outcomes := e.receive(ctx)
	e.r.step("arrived")
	for _, o := range outcomes {
		if ctx.Err() == nil && e.failed == nil {
			e.applyOutcome(ctx, o)
			e.r.step("moved")
		}
	}
	if err := cmp.Or(context.Cause(ctx), e.failed); err != nil {
		return err
	}
	for _, agent := range e.removed {
		if !last {
			break
		}
		here, err := e.w.Agents()
		if err != nil {
			return err
		}
		if !slices.Contains(here, agent) {
			continue // its folder is gone, and no message from it has made it again
		}
		e.noteIncoming(history.RemovedAgent, agent, nil)
		if e.o.DryRun {
			continue
		}
		if err := mailbox.SetAside(e.w.Workspace, agent); err != nil {
			return err
		}
	}
	e.r.step("applied")
	return nil
}

func (e *exchange) addAgents() {
	for _, agent := range e.added {
		err := error(nil)
		for _, box := range []mailbox.Box{mailbox.Inbox, mailbox.Outbox, mailbox.DeadLetters} {
			if !e.o.DryRun {
				err = cmp.Or(err, e.w.MakeFolder(schema.BoxPath(agent, box)))
			}
		}
		if err != nil {
			e.blocked(err)
		} else {
			e.noteIncoming(history.NewAgent, agent, nil)
		}
	}
	for agent, ids := range e.incarnations {
		if !e.o.DryRun && e.w.Knows(agent) {
			if err := mailbox.SetIncarnations(e.w.Workspace, agent, ids...); err != nil {
				e.blocked(err)
			}
		}
	}
}

// receiveBatch and receiveBytes bound the messages that are received at once: they share the wait for the disk, and memory.
const (
	receiveBatch = 200
	receiveBytes = 16 << 20
)

// receive delivers the messages that are not here yet, and returns the outcomes of the others.
func (e *exchange) receive(ctx context.Context) (later []*outcome) {
	arrivals := make(map[string][]*outcome)
	for _, o := range e.outcomes {
		sent, _, err := e.w.Look(replica.Copy{Agent: replica.Sender(o.Name), Name: o.Name, Sent: true})
		if o.Was == replica.Nowhere && o.Want == replica.Pending && sent == replica.Nowhere && err == nil {
			arrivals[o.Name] = append(arrivals[o.Name], o)
		} else {
			later = append(later, o)
		}
	}
	var files []mailbox.Received
	size := 0
	for i, name := range slices.Sorted(maps.Keys(arrivals)) {
		if e.o.Progress != nil {
			e.o.Progress(i+1, len(arrivals))
		}
		if f, ok := e.arrival(ctx, name, arrivals[name]); ok && !e.o.DryRun {
			files, size = append(files, f), size+len(f.Data)
		}
		if len(files) == receiveBatch || size >= receiveBytes || i+1 == len(arrivals) {
			e.receiveFiles(ctx, files, arrivals)
			files, size = nil, 0
		}
	}
	return later
}

// arrival returns the file of a message with these outcomes, if it can be received.
func (e *exchange) arrival(ctx context.Context, name string, outcomes []*outcome) (f mailbox.Received, ok bool) {
	f = mailbox.Received{From: replica.Sender(name), Name: name}
	for _, o := range outcomes {
		m, err := e.fill(o)
		if err != nil {
			e.refuse(ctx, o, err)
			continue
		}
		if e.o.DryRun && f.Data == nil {
			e.noteIncoming(history.Sent, m.From, m)
		}
		f.Data, o.Data = o.Data, nil // only the batch keeps the bytes
		if !o.Sent {
			f.Pending = append(f.Pending, o.Agent)
		}
	}
	return f, f.Data != nil
}

// receiveFiles delivers a batch.
func (e *exchange) receiveFiles(ctx context.Context, files []mailbox.Received, arrivals map[string][]*outcome) {
	if e.failed != nil || len(files) == 0 {
		return
	}
	e.r.step("received")
	for i, result := range e.r.w.Receive(ctx, files) {
		if queued, ok := errors.AsType[*mailbox.QueuedError](result.Err); ok { // its copy stays staged: it is here
			e.blocked(fmt.Errorf("%s: %w", schema.BoxPath(queued.Agents[0], mailbox.Inbox), queued.Err))
		}
		if result.Receipt != nil {
			e.noteIncoming(history.Sent, result.Receipt.Message.From, result.Receipt.Message)
			continue
		}
		for _, o := range arrivals[files[i].Name] {
			e.refuse(ctx, o, result.Err)
		}
	}
}

// refuse notes why the workspace could not take an outcome, and where the file of the message still is.
func (e *exchange) refuse(ctx context.Context, o *outcome, err error) {
	_, foreign := errors.AsType[*mailbox.RefusedError](err)
	_, invalid := errors.AsType[*validate.InvalidError](err)
	switch path := treePath(o.Agent, o.Box(o.Want), o.Name); {
	case foreign, invalid, isRefused(err):
		if !e.base.entry(path).IsFile() { // otherwise it was noted before
			e.problem(path, err)
		}
		return
	case e.failed != nil, ctx.Err() != nil:
		e.fail(err)
		return
	case !errors.Is(err, replica.ErrChanged): // the next sync handles that
		e.blocked(fmt.Errorf("%s: %w", schema.BoxPath(o.Agent, o.Box(cmp.Or(o.Want, o.Was))), err))
	}
	if !o.Sent {
		e.waiting[o.Copy] = cmp.Or(o.Was, o.placed) // its box may be away
	}
}

// applyOutcome gives one message its state.
func (e *exchange) applyOutcome(ctx context.Context, o *outcome) {
	message, err := e.fill(o)
	applied := err == nil
	if applied && !e.o.DryRun {
		applied, err = e.move(ctx, o, message)
	}
	o.Data, o.Reason = nil, nil // the plan keeps the outcome until its piece ends
	switch {
	case err != nil:
		e.refuse(ctx, o, err)
	case !applied, o.Was == replica.Nowhere && (o.base.IsKnown() || o.Want != replica.Pending):
		// A file that was removed here is back, or the message was handled before it came: no news.
	case o.Was == replica.Nowhere:
		e.noteIncoming(history.Sent, message.From, message)
	case o.Want == replica.Removed, o.Was == o.Want:
	default:
		e.noteIncoming(changeKinds[o.Want], o.Agent, message)
	}
}

// move moves or makes the file of an outcome. A message that its sender took back stays if it was shown to the agent since the
// plan.
func (e *exchange) move(ctx context.Context, o *outcome, m *schema.Message) (applied bool, err error) {
	if e.o.TakeBack == nil || m == nil || !o.recalled || o.Was != replica.Pending || o.Want != replica.Dead {
		return e.w.Apply(ctx, o.Outcome)
	}
	unseen, err := e.o.TakeBack(ctx, m, o.Agent, func() (err error) {
		applied, err = e.w.Apply(ctx, o.Outcome)
		return err
	})
	if err == nil && !unseen {
		err = replica.ErrChanged
	}
	return applied, err
}

// fill reads the bytes that an outcome needs. The message is nil if the file, which only moves, is not a valid one.
func (e *exchange) fill(o *outcome) (m *schema.Message, err error) {
	if o.Was != replica.Nowhere {
		o.Data, err = e.w.Read(o.Copy)
	}
	if o.Was == replica.Nowhere || errors.Is(err, fs.ErrNotExist) && o.object != "" {
		o.Data, err = e.file(o.object)
	}
	if err == nil && o.Want == replica.Dead && o.reason != "" {
		o.Reason, err = e.file(o.reason)
	}
	if err != nil {
		return nil, err
	}
	m, err = validate.Read(o.Data)
	switch {
	case err != nil && (o.Was != replica.Nowhere || o.Want == replica.Dead):
		return nil, nil
	case err == nil && o.Was == replica.Nowhere:
		err = checkMessage(o.Copy, m)
	}
	if err == nil && o.Was == replica.Nowhere && !e.w.Knows(o.Agent) && !e.o.DryRun {
		err = fmt.Errorf("there is no agent %s", o.Agent)
	}
	if err != nil {
		return nil, git.UnwantedError(err.Error())
	}
	return m, nil
}
