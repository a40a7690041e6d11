package gitmail

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/oacp-go/oacp/internal/facts"
	"github.com/oacp-go/oacp/internal/git"
	"github.com/oacp-go/oacp/internal/secrets"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/history"
	"github.com/oacp-go/oacp/mailbox/replica"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/validate"
)

// planCopy plans one copy of a message.
func (e *exchange) planCopy(ctx context.Context, c replica.Copy) {
	// What is here, and what the trees say.
	place, here, err := replica.Nowhere, mailbox.Entry{}, error(nil)
	read := e.read[c.Agent]
	if read.Partial || read.Places[c] != replica.Nowhere {
		if place, here, err = e.w.Look(c); err != nil {
			e.blocked(err)
		}
	}
	if read.Places[c] != place && !read.Same(c.Box(place), replica.DayOf(c.Name)) { // it moved since the scan
		e.scanned[c.Agent].Forget(replica.Day(c.Name), c.Box(read.Places[c]), c.Box(place))
	}
	base, tip := e.base.look(c), e.tip.look(c)
	remote := tip
	for _, v := range e.remote()[1:] {
		other := v.look(c)
		if joined := remote.Join(other.Set); joined != remote.Set {
			remote.Set, remote.reason = joined, cmp.Or(other.reason, remote.reason)
		}
		remote.object = cmp.Or(remote.object, other.object)
	}
	remote.object, remote.reason = cmp.Or(remote.object, base.object), cmp.Or(remote.reason, base.reason)
	if known := remote.Join(base.Set); c.Sent && (known.Place() == replica.Handled || e.gone[c.Agent]) {
		if known = facts.Done; tip.Place() == replica.Pending || tip.Set != known && !e.gone[c.Agent] {
			e.listPruned(c, known, remote.Place() != replica.Handled)
			e.forget(tip)
		}
		return // it was pruned, or its sender removed
	}
	read.Places[c] = place
	var mark facts.Mark
	if !c.Sent {
		mark = read.Marks[c.Name]
	}
	result := e.w.Here(c, place, mark, base.Set).Join(remote.Set)
	if e.old != nil && e.base.old && slices.Contains(e.removed, c.Agent) && base.Place() == replica.Pending {
		result = result.Add(facts.WasRemoved) // an earlier version forgot the mail of removed agents
	}
	result = kept(ctx, e, c, here, result)
	if !result.IsKnown() {
		return
	}
	want := result.Place()
	// The other machines have forgotten a message that ended before the horizon, and a file of it here tells them nothing.
	forgotten := replica.Day(c.Name) < e.horizon && !remote.IsKnown() && (c.Sent || want != replica.Pending) && !mailbox.IsUnsent(e.w.Workspace, mailbox.Entry{Name: c.Name})
	if !forgotten && (result != tip.Set || e.gone[c.Agent] && want != replica.Pending && len(tip.paths) > 0) {
		if !e.editCopy(c, here, tip, remote, result) {
			return
		}
	}
	if !c.Sent && !forgotten {
		e.agreed[c.Agent][c.Name] = result
	}
	wanted := remote.object != "" && (want == replica.Pending && !c.Sent || replica.Day(c.Name) >= e.r.settings.Since)
	newReason := want == replica.Dead && tip.reason != "" && tip.reason != base.reason
	switch {
	case e.gone[c.Agent], place == replica.Nowhere && (!wanted || want == replica.Removed):
	case place != want, newReason, read.Twice[c]:
		e.outcomes = append(e.outcomes, &outcome{
			Outcome: replica.Outcome{Copy: c, Was: place, Want: want}, base: base.Set, recalled: result.Has(facts.WasRecalled), placed: cmp.Or(mark.Placed, base.Place()), object: remote.object, reason: remote.reason,
		})
		e.scanned[c.Agent].Forget(replica.Day(c.Name), c.Box(place), c.Box(want)) // these boxes do not hold yet what the base says
	}
}

// kept adds that a message is kept if its sender took it back after the recipient was shown it here.
func kept(ctx context.Context, e *exchange, c replica.Copy, here mailbox.Entry, known facts.Set) facts.Set {
	if e.o.TakeBack == nil || c.Sent || here.Name == "" || known.Place() != replica.Dead || !known.Has(facts.WasRecalled) {
		return known
	}
	data, err := mailbox.ReadUnscreened(e.w.Workspace, here)
	if err != nil {
		return known
	}
	m, err := validate.Read(data)
	if err != nil {
		return known
	}
	unseen, err := e.o.TakeBack(ctx, m, c.Agent, func() error { return nil })
	if err != nil {
		e.blocked(err)
	}
	if unseen || err != nil {
		return known
	}
	return known.Add(facts.Kept)
}

// forget adds the files of a copy in the tip to what the sync prunes.
func (p *plan) forget(tip held) { p.forgotten = append(p.forgotten, tip.paths...) }

// editCopy gives the tip the result for a message, and reports whether it could. The remote is the join of the tip and the other
// trees.
func (e *exchange) editCopy(c replica.Copy, here mailbox.Entry, tip, remote held, result facts.Set) bool {
	place := result.Place()
	agent, key, kind := c.Agent, c.String(), changeKinds[place]
	if c.Sent || kind == history.Restored && len(result.Restores()) == len(tip.Restores()) && !result.Has(facts.Kept) {
		agent, key, kind = replica.Sender(c.Name), c.Name, history.Sent // with the outbox copy
	}
	if place == replica.Removed || e.gone[c.Agent] && place != replica.Pending {
		e.listPruned(c, result, result != remote.Set)
		e.forget(tip)
		return true
	}
	box := c.Box(place)
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
		if data, err = e.w.ReadFile(here); err == nil {
			out.Data = data
			e.size += len(data)
		}
	default:
		e.listPruned(c, result, result != remote.Set)
		return true
	}
	if err == nil {
		message, err = validate.Read(data)
	}
	_, invalid := errors.AsType[*validate.InvalidError](err)
	if err == nil {
		err = checkMessage(c, message)
	}
	if out.Object == "" && (message == nil || !message.Marks.AllowSecret) {
		if secret := secrets.Check("not sent", string(data)); secret != nil {
			err, invalid = secret, false
		}
	}
	switch {
	case e.failed != nil:
		return false
	case err != nil && !tip.IsKnown() && !(invalid && place == replica.Dead):
		e.scanned[c.Agent].Forget(replica.Day(c.Name), box, here.Box) // somebody may fix it in place
		if !errors.Is(err, fs.ErrNotExist) {
			e.problem(schema.BoxPath(c.Agent, box)+"/"+cmp.Or(here.Name, c.Name), err)
		}
		return false
	}
	change := e.edit(key, kind, agent, message, result != remote.Set)
	if out.Object != "" || out.Data != nil { // otherwise the tip lists it as pruned, and its file here vanished
		change.write = append(change.write, out)
	}
	if place == replica.Dead {
		reason := git.File{Path: reasonPath(c), Object: remote.reason}
		if local := localReason(e.w, here); local != nil && (reason.Object == "" || tip.Place() != replica.Dead) {
			reason.Object, reason.Data = "", local
		}
		if reason.Object != "" || reason.Data != nil {
			change.write = append(change.write, reason)
		}
	}
	if result != plain(place) && !c.Sent {
		change.write = append(change.write, git.File{Path: factsPath(c), Data: []byte(result.String() + "\n")})
	}
	for _, old := range tip.paths {
		if !slices.ContainsFunc(change.write, func(f git.File) bool { return f.Path == old }) {
			change.remove = append(change.remove, old)
		}
	}
	return true
}

// changeKinds say what an agent did to bring a message to a place. A pending one was sent or restored.
var changeKinds = map[replica.Place]history.Kind{replica.Pending: history.Restored, replica.Dead: history.DeadLetter, replica.Handled: history.Acknowledged}

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
