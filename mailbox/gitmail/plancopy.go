package gitmail

import (
	"cmp"
	"errors"
	"fmt"
	"hash/maphash"
	"io/fs"
	"slices"

	"github.com/oacp-go/oacp/internal/git"
	"github.com/oacp-go/oacp/internal/secrets"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/history"
	"github.com/oacp-go/oacp/mailbox/replica"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/validate"
)

// planCopy plans one copy of a message. The files are nil if the folders agree with the base.
func (e *exchange) planCopy(c replica.Copy, files *replica.Files) {
	// What is here, and what the trees say.
	stage, here, err := replica.Unknown, mailbox.Entry{}, error(nil)
	if files == nil || files.Stages[c] != replica.Unknown {
		if stage, here, err = e.w.Look(c); err != nil {
			e.blocked(err)
		}
	}
	base, tip := e.base.look(c), e.tip.look(c)
	if before, ok := e.cache.Waiting[c.String()]; ok && !c.Sent {
		base.state = before
	}
	remote := tip
	for _, v := range e.others {
		other := v.look(c)
		if joined := replica.Join(remote.state, other.state); joined != remote.state {
			remote.state, remote.reason = joined, cmp.Or(other.reason, remote.reason)
		}
		remote.object = cmp.Or(remote.object, other.object)
	}
	remote.object, remote.reason = cmp.Or(remote.object, base.object), cmp.Or(remote.reason, base.reason)
	if state := replica.Join(remote.state, base.state); c.Sent && state.Stage == replica.Handled {
		if tip.state.Stage != replica.Handled {
			e.listPruned(c, state, remote.state.Stage != replica.Handled)
		}
		return // it was pruned
	}
	result := replica.Join(replica.Here(stage, base.state), remote.state)

	if result != tip.state {
		e.editCopy(c, here, tip, remote, result)
	}
	wanted := remote.object != "" && (result.Stage == replica.Pending && !c.Sent || replica.Day(c.Name) >= e.r.settings.Since)
	newReason := result.Stage == replica.Dead && tip.reason != "" && tip.reason != base.reason
	switch {
	case stage == replica.Unknown && !wanted:
	case stage != result.Stage, newReason:
		e.outcomes = append(e.outcomes, &outcome{
			Outcome: replica.Outcome{Copy: c, Was: stage, Want: result.Stage}, base: base.state, object: remote.object, reason: remote.reason,
		})
		delete(e.stamps, c.Agent)
	}
}

// editCopy gives the tip the result for a message. The remote is the join of the tip and the machines' refs.
func (e *exchange) editCopy(c replica.Copy, here mailbox.Entry, tip, remote held, result replica.State) {
	agent, key, kind := c.Agent, c.String(), changeKinds[result.Stage]
	if c.Sent || kind == history.Restored && result.Epoch == tip.epoch {
		agent, key, kind = replica.Sender(c.Name), c.Name, history.Sent // with the outbox copy
	}
	box := c.Box(result.Stage)
	out := git.File{Path: treePath(c.Agent, box, c.Name), Object: remote.object}
	var (
		data    []byte
		message *schema.Message
		err     error
	)
	switch {
	case out.Object != "":
		data, err = e.file(out.Object)
	case here.Name != "":
		if data, err = mailbox.ReadUnscreened(e.w.Workspace, here); err == nil {
			out.Read = later(e.w, c, data)
		}
	default:
		e.listPruned(c, result, result != remote.state)
		return
	}
	if err == nil {
		message, err = validate.Read(data)
	}
	_, invalid := errors.AsType[*validate.InvalidError](err)
	if err == nil {
		err = checkMessage(c, message)
	}
	if out.Object == "" && (message == nil || !message.AllowsSecret()) {
		if secret := secrets.Check("not sent", string(data)); secret != nil {
			err, invalid = secret, false
		}
	}
	switch {
	case e.failed != nil:
		return
	case err != nil && tip.state.Stage == replica.Unknown && !(invalid && result.Stage == replica.Dead):
		delete(e.stamps, c.Agent) // somebody may fix it in place, which does not change the time of its folder
		if !errors.Is(err, fs.ErrNotExist) {
			e.problem(schema.BoxPath(c.Agent, box)+"/"+cmp.Or(here.Name, c.Name), err)
		}
		return
	}
	change := e.edit(key, kind, agent, message, result != remote.state)
	if out.Object != "" || out.Read != nil { // otherwise the tip lists it as pruned, and its file here vanished
		change.write = append(change.write, out)
	}
	if result.Stage == replica.Dead {
		reason := git.File{Path: reasonPath(c), Object: remote.reason}
		if local := localReason(e.w, here); local != nil && (reason.Object == "" || tip.state.Stage != replica.Dead) {
			reason.Object, reason.Data = "", local
		}
		if reason.Object != "" || reason.Data != nil {
			change.write = append(change.write, reason)
		}
	}
	for _, old := range tip.paths {
		if !slices.ContainsFunc(change.write, func(f git.File) bool { return f.Path == old }) {
			change.remove = append(change.remove, old)
		}
	}
	if result.Epoch != tip.epoch && result.Epoch > 0 {
		change.write = append(change.write, git.File{Path: epochPath(c), Data: fmt.Appendf(nil, "%d\n", result.Epoch)})
	}
}

// later returns a function that reads the bytes of a message again, so that a large backlog need not be in memory. Its
// error matches replica.ErrChanged if they are not the ones that were checked, or gone.
func later(w *replica.Workspace, c replica.Copy, data []byte) func() ([]byte, error) {
	sum := maphash.Bytes(checked, data)
	return func() ([]byte, error) {
		again, err := w.Read(c) // it may have moved
		if errors.Is(err, fs.ErrNotExist) || err == nil && maphash.Bytes(checked, again) != sum {
			err = replica.ErrChanged
		}
		if err != nil {
			err = fmt.Errorf("%s: %w", c, err)
		}
		return again, err
	}
}

// checked is the seed of sums of messages that were checked.
var checked = maphash.MakeSeed()

// changeKinds say what an agent did to bring a message to a stage. A pending one was sent or restored.
var changeKinds = map[replica.Stage]history.Kind{replica.Pending: history.Restored, replica.Dead: history.DeadLetter, replica.Handled: history.Acknowledged}

// checkMessage returns an error if a message does not belong in the mailbox of a copy.
func checkMessage(c replica.Copy, m *schema.Message) error {
	if c.Sent && m.From != c.Agent {
		return fmt.Errorf("the message is from %s", m.From)
	}
	if !c.Sent && !m.IsFor(c.Agent) {
		return fmt.Errorf("the message is not for %s", c.Agent)
	}
	return nil
}

// edit returns the edit for a key, and makes it if there is none. A message that was sent shares one with its inbox
// copies, and what an agent did with it has another one.
func (e *exchange) edit(key string, kind history.Kind, agent schema.AgentName, m *schema.Message, own bool) *edit {
	made := e.byKey[key]
	if made == nil {
		made = &edit{Change: history.Change{Direction: history.Out, Kind: kind, Agent: agent}}
		e.byKey[key] = made
		e.edits = append(e.edits, made)
	}
	e.unfolded = e.unfolded || !own
	made.own = made.own || own
	if made.ID == "" && m != nil {
		made.Describe(m)
		if kind != history.Sent {
			made.At = e.now
		}
	}
	return made
}

// localReason returns the reason of a dead letter in the workspace, or nil.
func localReason(w *replica.Workspace, here mailbox.Entry) []byte {
	if here.Box != mailbox.DeadLetters || here.Name == "" {
		return nil
	}
	here.Name += mailbox.ReasonSuffix
	data, _ := mailbox.ReadUnscreened(w.Workspace, here) // it may be gone
	return data
}
