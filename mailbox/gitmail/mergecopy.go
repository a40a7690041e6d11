package gitmail

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/replica"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/validate"
)

// mergeSent merges a message in an outbox.
func (e *exchange) mergeSent(m *merge, agent schema.AgentName, name string, files *replica.Files) error {
	path := treePath(agent, mailbox.Outbox, name)
	day := boxPath(agent, mailbox.Outbox) + "/" + replica.Day(name)
	object, inTip := "", false
	for i, v := range append(e.views(), e.base) {
		list, err := v.pruned(day)
		if err != nil {
			return err
		}
		if _, pruned := list[name]; pruned {
			return nil // nobody needs it any more
		}
		at, err := v.entry(path)
		if err != nil {
			return err
		}
		if at.isFile() {
			object, inTip = cmp.Or(object, at.object), inTip || i == 0
			if i > 0 && i <= len(e.others) && !inTip {
				m.useful[e.others[i-1].commit] = true
			}
		}
	}
	here, err := e.w.Find(agent, mailbox.Outbox, name)
	if err != nil {
		e.blocked(err)
		return nil
	}
	if here.Name == "" && replica.Day(name) >= e.r.settings.Since {
		m.sent[name] = object
	}
	if inTip || here.Name == "" && object == "" {
		return nil
	}
	own := object == ""
	message, out, err := e.content(here, object, path)
	if err == nil && message.From != agent {
		err = fmt.Errorf("the message is from %s", message.From)
	}
	if err != nil {
		return e.skip(m, agent, boxPath(agent, mailbox.Outbox)+"/"+cmp.Or(here.Name, name), err)
	}
	change := m.change(name, Sent, agent, own)
	change.describe(message)
	change.write = append(change.write, out)
	return nil
}

// skip notes a file that does not travel. Other errors end the sync.
func (e *exchange) skip(m *merge, agent schema.AgentName, path string, err error) error {
	e.unsettle(m, agent) // somebody may mend it in place, which leaves no trace in its folder
	if _, gitFailed := gitError(err); gitFailed {
		return err
	}
	if !errors.Is(err, fs.ErrNotExist) {
		e.problem(path, err)
	}
	return nil
}

// content returns a message, and the file for the tree: that of an object, or that of the workspace.
func (e *exchange) content(here mailbox.Entry, object, path string) (*schema.Message, file, error) {
	out := file{path: path, object: object}
	data, err := []byte(nil), error(nil)
	if object != "" {
		data, err = e.tip.file(object)
	} else {
		data, err = e.r.w.ReadRaw(here)
		out.data = data
	}
	if err != nil {
		return nil, out, err
	}
	m, err := validate.Read(data)
	return m, out, err
}

// change returns the edit for a message that was sent, with the inboxes that it is in, or for what an agent did
// with it.
func (m *merge) change(key string, kind Kind, agent schema.AgentName, own bool) *edit {
	made := m.byName[key]
	if made == nil {
		made = &edit{Change: Change{Direction: Out, Kind: kind, Agent: agent}}
		m.byName[key] = made
		m.edits = append(m.edits, made)
	}
	made.own = made.own || own
	return made
}

// mergeCopy merges a message for one recipient.
func (e *exchange) mergeCopy(m *merge, c replica.Copy, files *replica.Files) error {
	stage, here, err := replica.Unknown, mailbox.Entry{}, error(nil)
	if files == nil || files.Stages[c.Name] != replica.Unknown {
		if stage, here, err = e.w.Look(c); err != nil {
			e.blocked(err)
		}
	}
	base, err := e.base.look(c)
	if err != nil {
		return err
	}
	tip, err := e.tip.look(c)
	if err != nil {
		return err
	}
	remote, object, reason := tip.state, cmp.Or(tip.object, base.object), cmp.Or(tip.reason)
	for _, v := range e.others {
		other, err := v.look(c)
		if err != nil {
			return err
		}
		joined := replica.Join(remote, other.state)
		if joined != remote {
			m.useful[v.commit], reason = true, cmp.Or(other.reason, reason)
		}
		remote, object = joined, cmp.Or(object, other.object)
	}
	said, staged := stage, e.staged[c] && stage == replica.Unknown && base.state.Stage == replica.Unknown
	if staged {
		said = replica.Pending
		here, err = e.w.Find(replica.Sender(c.Name), mailbox.Outbox, c.Name)
		e.unsettle(m, c.Agent)
	}
	if err != nil {
		return err
	}
	result := replica.Join(replica.Here(said, base.state), remote)
	reason = cmp.Or(reason, base.reason)
	if result != tip.state || tip.implied || len(tip.paths) > 1+min(len(tip.reason), 1) {
		if err := e.editCopy(m, c, here, tip, object, reason, result, result != remote); err != nil {
			return err
		}
	}
	held := result.Stage == replica.Pending || replica.Day(c.Name) >= e.r.settings.Since
	newReason := result.Stage == replica.Dead && stage == replica.Dead && tip.reason != "" && tip.reason != base.reason
	restored := stage == replica.Pending && base.state.Stage > stage // perhaps without all that belongs to it
	if (result.Stage == stage && !newReason && !restored) || staged && result.Stage == replica.Pending || stage == replica.Unknown && (!held || object == "") {
		return nil
	}
	m.outcomes = append(m.outcomes, &outcome{
		Outcome: replica.Outcome{Copy: c, Was: stage, Want: result.Stage}, base: base.state, object: object, reason: reason,
	})
	e.unsettle(m, c.Agent)
	return nil
}

// editCopy adds an edit that gives the tip the result for a message.
func (e *exchange) editCopy(m *merge, c replica.Copy, here mailbox.Entry, tip held, object, reason string, result replica.State, own bool) error {
	agent, kind := c.Agent, map[replica.Stage]Kind{replica.Pending: Sent, replica.Dead: DeadLetter, replica.Handled: Acknowledged}[result.Stage]
	if result.Epoch > tip.epoch && result.Stage == replica.Pending {
		kind = Restored
	}
	key := string(c.Agent) + "/" + c.Name
	if kind == Sent {
		agent, key = replica.Sender(c.Name), c.Name // with the outbox copy
	}
	path := treePath(c.Agent, result.Stage.Box(), c.Name)
	message, out, err := e.content(here, object, path)
	_, invalid := errors.AsType[*validate.InvalidError](err)
	if err == nil && !message.IsFor(c.Agent) {
		err = fmt.Errorf("the message is not for %s", c.Agent)
	}
	if err != nil && !(invalid && result.Stage == replica.Dead) && tip.state.Stage == replica.Unknown {
		return e.skip(m, c.Agent, boxPath(c.Agent, result.Stage.Box())+"/"+cmp.Or(here.Name, c.Name), err)
	}
	if _, gitFailed := gitError(err); gitFailed {
		return err
	}
	change := m.change(key, kind, agent, own)
	if change.ID == "" && message != nil {
		change.describe(message)
		if kind != Sent {
			change.at = e.now
		}
	}
	if out.object != "" || out.data != nil {
		change.write = append(change.write, out)
	}
	if result.Stage == replica.Dead {
		if local := e.localReason(c, here); reason == "" || tip.state.Stage != replica.Dead && local != nil {
			if local != nil {
				change.write = append(change.write, file{path: path + mailbox.ReasonSuffix, data: local})
			}
		} else {
			change.write = append(change.write, file{path: path + mailbox.ReasonSuffix, object: reason})
		}
	}
	for _, old := range tip.paths {
		if !slices.ContainsFunc(change.write, func(f file) bool { return f.path == old }) {
			change.remove = append(change.remove, old)
		}
	}
	if result.Epoch != tip.epoch && result.Epoch > 0 {
		change.write = append(change.write, file{path: epochPath(c), data: fmt.Appendf(nil, "%d\n", result.Epoch)})
	}
	return nil
}

// localReason returns the reason of a dead letter in the workspace, or nil.
func (e *exchange) localReason(c replica.Copy, here mailbox.Entry) []byte {
	if here.Box != mailbox.DeadLetters || here.Name == "" {
		return nil
	}
	data, err := e.r.w.ReadRaw(mailbox.Entry{Agent: c.Agent, Box: here.Box, Name: here.Name + mailbox.ReasonSuffix})
	if err != nil {
		return nil
	}
	return data
}
