package gitmail

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/replica"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/validate"
)

// An edit is what a commit changes in the tree of the tip.
type edit struct {
	Change
	// own says that the change was made here, and that no other machine has it.
	own    bool
	write  []file
	remove []string
}

// file is a file for the tree: the bytes, or the object that holds them.
type file struct {
	path, object string
	data         []byte
}

// An outcome is what the workspace is to take.
type outcome struct {
	replica.Outcome
	base replica.State
	// object and reason hold the bytes.
	object, reason string
}

// A merge is what a sync is to do: the join of what is here with what the others have.
type merge struct {
	edits    []*edit
	byName   map[string]*edit
	outcomes []*outcome
	// sent are the messages for outboxes by name, with the objects that hold them.
	sent map[string]string
	// added and removed are agents, and described is the object of the description of the workspace.
	added, removed []schema.AgentName
	described      string
	// seen are the times of folders that are in step once the merge is done.
	seen map[string]int64
	// useful are the machines' refs that have something that the tip does not have.
	useful map[string]bool
}

// merge compares the workspace, the base, the tip and the other machines' refs.
func (e *exchange) merge(ctx context.Context) (*merge, error) {
	m := &merge{byName: make(map[string]*edit), sent: make(map[string]string), seen: make(map[string]int64), useful: make(map[string]bool)}
	agents, err := e.agents()
	if err == nil {
		err = e.findStaged(ctx)
	}
	if err != nil {
		return nil, err
	}
	for _, agent := range agents {
		if err := context.Cause(ctx); err != nil {
			return nil, err
		}
		if err := e.mergeAgent(ctx, m, agent); err != nil {
			return nil, err
		}
	}
	if err := e.mergeWorkspace(m); err != nil {
		return nil, err
	}
	slices.SortStableFunc(m.edits, func(a, b *edit) int {
		return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.ID, b.ID)) // ids order the messages of a second
	})
	return m, nil
}

// findStaged finds the messages whose inbox copies are staged, because an inbox refuses them. Elsewhere, they need not
// wait.
func (e *exchange) findStaged(ctx context.Context) error {
	e.staged = make(map[replica.Copy]bool)
	ids, _, err := e.r.w.Staged()
	for _, id := range ids {
		found, findErr := e.r.w.Find(ctx, string(id))
		if findErr != nil {
			continue // it is not sent yet
		}
		for _, entry := range found {
			name, nameErr := "", error(nil)
			if entry.Box == mailbox.Outbox && entry.Message != nil {
				name, nameErr = e.w.LongName(entry)
			}
			if name == "" || nameErr != nil {
				continue
			}
			for _, to := range entry.Message.To {
				if queued, queueErr := e.r.w.IsQueued(id, to); queued && queueErr == nil {
					e.staged[replica.Copy{Agent: to, Name: name}] = true
				}
			}
		}
	}
	return err
}

// views are all trees but the base.
func (e *exchange) views() []*view { return append([]*view{e.tip}, e.others...) }

// agents returns the agents of the workspace and of all trees.
func (e *exchange) agents() ([]schema.AgentName, error) {
	known, err := e.r.w.Agents()
	if err != nil {
		return nil, err
	}
	all := slices.Clone(known)
	for _, v := range append(e.views(), e.base) {
		_, names, err := v.folder("agents")
		if err != nil {
			return nil, err
		}
		for _, name := range slices.Sorted(maps.Keys(names)) {
			agent := schema.AgentName(name)
			if slices.Contains(all, agent) || names[name].mode != folder || !agent.Valid() {
				continue
			}
			if err := mailbox.CheckNewAgent(agent, all); err != nil && !errors.Is(err, mailbox.ErrPostmaster) {
				e.problem(boxPath(agent, mailbox.Inbox), err)
				continue
			}
			all = append(all, agent)
		}
	}
	slices.Sort(all)
	return all, nil
}

// mergeAgent merges the mailbox of an agent.
func (e *exchange) mergeAgent(ctx context.Context, m *merge, agent schema.AgentName) error {
	if removed, err := e.mergePresence(m, agent); removed || err != nil {
		return err
	}
	keys, sent := make(map[string]bool), make(map[string]bool)
	for _, v := range e.views() {
		if err := e.differences(v, agent, keys, sent); err != nil {
			return err
		}
	}
	for c := range e.staged {
		keys[c.Name] = keys[c.Name] || c.Agent == agent
	}
	var files *replica.Files
	if !e.inStep(m, agent) {
		var err error
		if files, err = e.scan(m, agent, keys, sent); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(sent)) {
		if err := e.mergeSent(m, agent, name, files); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(keys)) {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		if err := e.mergeCopy(m, replica.Copy{Agent: agent, Name: name}, files); err != nil {
			return err
		}
	}
	return nil
}

// mergePresence merges whether there is an agent. It reports whether it was removed, with all its mail.
func (e *exchange) mergePresence(m *merge, agent schema.AgentName) (removed bool, err error) {
	if agent == mailbox.Postmaster {
		return false, nil
	}
	base, err := e.base.agentState(agent)
	if err != nil {
		return false, err
	}
	stage := replica.Unknown
	_, missing := e.r.w.Root().Lstat(boxPath(agent, mailbox.Inbox))
	if missing == nil {
		stage = replica.Pending
	}
	var remote, tip replica.State
	for i, v := range e.views() {
		s, err := v.agentState(agent)
		if err != nil {
			return false, err
		}
		if remote = replica.Join(remote, s); i == 0 {
			tip = s
		}
	}
	here := replica.Here(stage, base)
	if e.o.RemoveAgent == agent {
		here.Stage = replica.Handled
	}
	result := replica.Join(here, remote)
	_, below, err := e.tip.folder("agents/" + string(agent))
	if err != nil {
		return false, err
	}
	if removed = result.Stage == replica.Handled; removed {
		m.removed = append(m.removed, agent)
	}
	if result.Stage == replica.Pending && !e.r.w.Knows(agent) {
		m.added = append(m.added, agent)
	}
	if result == tip && !(removed && len(below) > 1) {
		return removed, nil
	}
	number := []byte(nil)
	if result.Epoch > 0 || removed {
		number = fmt.Appendf(nil, "%d\n", result.Epoch)
	}
	change := &edit{Change: Change{Direction: Out, Kind: NewAgent, Agent: agent}, own: result != remote}
	if removed {
		change.Kind, change.remove = RemovedAgent, []string{"agents/" + string(agent)}
		change.write = []file{{path: "agents/" + string(agent) + "/" + removedName, data: number}}
	} else {
		change.remove = []string{"agents/" + string(agent) + "/" + removedName}
		change.write = []file{{path: boxPath(agent, mailbox.Inbox) + "/" + keepName, data: number}}
	}
	m.edits = append(m.edits, change)
	return removed, nil
}

// differences adds the names in which a tree and the base differ: messages that the agent got, and those that
// it sent. It notes files that a sync does not take.
func (e *exchange) differences(v *view, agent schema.AgentName, keys, sent map[string]bool) error {
	below := "agents/" + string(agent) + "/"
	check := func(folder string, into map[string]bool, day string, check func(string) error) error {
		return e.compare(v, folder, func(name string, was, is entry) {
			message := strings.TrimSuffix(name, mailbox.ReasonSuffix)
			switch {
			case strings.HasPrefix(name, ".") || was.mode == "40000" && is.mode == "":
				return
			case day == "" && name == string(mailbox.Archive) && is.mode == "40000":
				return // in the inbox
			}
			err := check(message)
			switch {
			case err == nil && day != "" && replica.Day(message) != day:
				err = errForeign
			case err == nil && is != entry{} && !is.isFile():
				err = fmt.Errorf("it is not a regular file: its mode is %s", is.mode)
			case err == nil && was.isFile() && is.isFile() && message == name:
				err = errors.New("it was changed after it was published; the workspace keeps what it has")
			}
			if err == nil {
				into[message] = true
			} else if is != (entry{}) {
				e.problem(folder+"/"+name, err)
			}
		})
	}
	err := cmp.Or(check(below+"inbox", keys, "", replica.CheckName), check(below+restoredName, keys, "", replica.CheckName))
	days := func(box string, into map[string]bool, each func(string) error) {
		err = cmp.Or(err, e.compare(v, below+box, func(day string, was, is entry) {
			if was.mode != folder && is.mode != folder {
				if is != (entry{}) && !strings.HasPrefix(day, ".") {
					e.problem(below+box+"/"+day, errForeign)
				}
				return
			}
			err = cmp.Or(err, check(below+box+"/"+day, into, day, each))
			// Pruning leaves a list.
			for _, side := range []*view{v, e.base} {
				list, listErr := side.pruned(below + box + "/" + day)
				for name := range list {
					into[name] = true
				}
				err = cmp.Or(err, listErr)
			}
		}))
	}
	days("inbox/archive", keys, replica.CheckName)
	days(legacyArchive, keys, replica.CheckName)
	days(string(mailbox.DeadLetters), keys, replica.CheckName)
	days(string(mailbox.Outbox), sent, func(name string) error { return replica.CheckSent(agent, name) })
	if err == nil && v.isLegacy() {
		err = e.recipients(v, agent, sent, keys)
	}
	return err
}

// recipients adds the messages for an agent in a tree of an earlier version, which says of handled ones only that
// they were sent.
func (e *exchange) recipients(v *view, agent schema.AgentName, sent, keys map[string]bool) error {
	if e.legacy == nil {
		e.legacy = make(map[schema.AgentName][]string)
		_, senders, err := v.folder("agents")
		if err != nil {
			return err
		}
		for from := range senders {
			_, days, err := v.folder("agents/" + from + "/outbox")
			if err != nil {
				return err
			}
			for day := range days {
				_, names, err := v.folder("agents/" + from + "/outbox/" + day)
				if err != nil {
					return err
				}
				for name, file := range names {
					if !file.isFile() || replica.CheckSent(schema.AgentName(from), name) != nil {
						continue
					}
					data, err := v.file(file.object)
					if _, refused := errors.AsType[errRefused](err); err != nil && !refused {
						return err
					}
					if m, err := validate.Read(data); err == nil {
						for _, to := range m.To {
							e.legacy[to] = append(e.legacy[to], name)
						}
					}
				}
			}
		}
	}
	for _, name := range e.legacy[agent] {
		keys[name] = true
	}
	return nil
}

// compare calls visit for each name of a folder that a tree and the base have differently.
func (e *exchange) compare(v *view, path string, visit func(name string, was, is entry)) error {
	before, was, err := e.base.folder(path)
	if err != nil {
		return err
	}
	after, is, err := v.folder(path)
	if err != nil || before == after {
		return err
	}
	for name, file := range is {
		if was[name] != file {
			visit(name, was[name], file)
		}
	}
	for name, file := range was {
		if _, ok := is[name]; !ok {
			visit(name, file, entry{})
		}
	}
	return nil
}

// scan lists the mailbox of an agent, and adds what is not as the base says.
func (e *exchange) scan(m *merge, agent schema.AgentName, keys, sent map[string]bool) (*replica.Files, error) {
	files := e.w.Scan(agent)
	for path, err := range files.Problems {
		e.problem(path, err)
	}
	for path, err := range files.Unread {
		e.blocked(fmt.Errorf("%s: %w", path, err))
	}
	if len(files.Problems)+len(files.Unread) > 0 {
		e.unsettle(m, agent)
	}
	for name, stage := range files.Stages {
		before, err := e.base.look(replica.Copy{Agent: agent, Name: name})
		if err != nil {
			return nil, err
		}
		keys[name] = keys[name] || before.state.Stage != stage
	}
	for name := range files.Sent {
		at, err := e.base.entry(treePath(agent, mailbox.Outbox, name))
		if err != nil {
			return nil, err
		}
		sent[name] = sent[name] || !at.isFile()
	}
	return files, e.missing(agent, files, keys, sent)
}

// missing adds what the base has and the workspace should have, but has not.
func (e *exchange) missing(agent schema.AgentName, files *replica.Files, keys, sent map[string]bool) error {
	_, pending, err := e.base.folder(boxPath(agent, mailbox.Inbox))
	if err != nil {
		return err
	}
	for name, at := range pending {
		if files.Stages[name] == replica.Unknown && at.isFile() && replica.CheckName(name) == nil {
			keys[name] = true
		}
	}
	for box, into := range map[mailbox.Box]map[string]bool{mailbox.Outbox: sent, mailbox.Archive: keys, mailbox.DeadLetters: keys} {
		_, days, err := e.base.folder(boxPath(agent, box))
		if err != nil {
			return err
		}
		for day := range days {
			if day < e.r.settings.Since {
				continue
			}
			_, names, err := e.base.folder(boxPath(agent, box) + "/" + day)
			if err != nil {
				return err
			}
			for name, at := range names {
				if at.isFile() && replica.Day(name) == day && files.Stages[name] == replica.Unknown && !files.Sent[name] {
					into[name] = true
				}
			}
		}
	}
	return nil
}

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

// mergeWorkspace merges the description of the workspace, and marks a tree as one of mailboxes.
func (e *exchange) mergeWorkspace(m *merge) error {
	marked, err := e.tip.entry(formatName)
	if err != nil {
		return err
	}
	described, err := e.tip.entry(markerName)
	if err != nil {
		return err
	}
	data, err := durable.ReadFile(e.r.w.Root(), e.r.w.Dir(), markerName, schema.MaxFileSize)
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	case err != nil && described.isFile():
		m.described = described.object
	case err == nil && described == entry{} && (len(m.edits) > 0 || e.tip.root != ""):
		m.edits = append(m.edits, &edit{Change: Change{Direction: Out, Kind: Described}, own: true, write: []file{{path: markerName, data: data}}})
	}
	if marked == (entry{}) && (len(m.edits) > 0 || e.tip.root != "") {
		if len(m.edits) == 0 {
			m.edits = append(m.edits, &edit{Change: Change{Direction: Out, Kind: Described}, own: true})
		}
		m.edits[0].write = append(m.edits[0].write, file{path: formatName, data: []byte(format)})
	}
	return nil
}

// settled is the age at which a folder's time says whether it changed since it was listed: the clocks of file
// systems have ticks.
const settled = 2 * time.Second

// inStep reports whether the folders of an agent did not change since they were in step with the base, and
// notes their times.
func (e *exchange) inStep(m *merge, agent schema.AgentName) bool {
	in := e.cache.Base == e.base.commit
	for _, box := range []mailbox.Box{mailbox.Outbox, mailbox.Inbox, mailbox.Archive, mailbox.DeadLetters} {
		name, at := boxPath(agent, box), int64(0)
		if info, err := e.r.w.Root().Lstat(name); err == nil {
			at = info.ModTime().UnixNano()
		}
		before, known := e.cache.Boxes[name]
		if in = in && known && before == at; e.now.Sub(time.Unix(0, at)) >= settled {
			m.seen[name] = at
		}
	}
	return in
}

// unsettle makes the next sync list the folders of an agent.
func (e *exchange) unsettle(m *merge, agent schema.AgentName) {
	delete(m.seen, boxPath(agent, mailbox.Inbox))
}
