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
		if _, fatal := mailbox.SplitUnreadable(findErr); fatal != nil {
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
	if missing == nil && !e.isUnasked(agent) {
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
