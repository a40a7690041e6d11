package gitmail

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/internal/git"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/history"
	"github.com/oacp-go/oacp/mailbox/replica"
	"github.com/oacp-go/oacp/schema"
)

// A plan says what a sync has to do. Making it changes nothing.
type plan struct {
	// base, tip and others are the trees of the base, the tip and the machines' refs.
	base, tip *view
	others    []*view
	// changed are the copies of each agent that differ between the base and the other trees.
	changed map[schema.AgentName]map[replica.Copy]bool

	// edits are what the tip lacks. byKey finds those about a message.
	edits []*edit
	byKey map[string]*edit
	// pruned are the new lists of pruned messages, by the folder of their day. ownPruned says that one of them has
	// something that no other machine has.
	pruned    map[string]map[string]int
	ownPruned bool
	// outcomes are what the workspace lacks.
	outcomes []*outcome
	// added and removed are agents.
	added, removed []schema.AgentName
	// statuses are the status files that the workspace lacks.
	statuses map[schema.AgentName][]byte
	// stamps are the stamps of agents whose folders agree with the base once the sync is done, and waiting are the
	// states that the base has of messages that a box refused.
	stamps  map[schema.AgentName]string
	waiting map[string]replica.State
	// unfolded says that the machines' refs have, or may have, something that the tip does not have.
	unfolded bool
}

func newPlan() *plan {
	return &plan{
		changed: make(map[schema.AgentName]map[replica.Copy]bool), byKey: make(map[string]*edit), pruned: make(map[string]map[string]int),
		statuses: make(map[schema.AgentName][]byte), stamps: make(map[schema.AgentName]string), waiting: make(map[string]replica.State),
	}
}

// An outcome is a change to the workspace.
type outcome struct {
	replica.Outcome
	base replica.State
	// object and reason are the objects that hold the bytes.
	object, reason string
}

// remote returns the tip and the trees of the machines' refs.
func (p *plan) remote() []*view { return append([]*view{p.tip}, p.others...) }

// makePlan compares the workspace and the trees.
func (e *exchange) makePlan(ctx context.Context) error {
	agents, err := e.agents()
	if err != nil {
		return err
	}
	for _, agent := range agents {
		e.changed[agent] = make(map[replica.Copy]bool)
	}
	for _, v := range e.remote() {
		e.compare(v, "agents", e.base.entry("agents"), v.entry("agents"))
	}
	for _, agent := range agents {
		e.planAgent(ctx, agent)
	}
	e.planWorkspace()
	slices.SortStableFunc(e.edits, func(a, b *edit) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.ID, b.ID)) // ids order the messages of a second
	})
	return cmp.Or(context.Cause(ctx), e.failed)
}

// agents returns the agents of the workspace and of all trees.
func (e *exchange) agents() ([]schema.AgentName, error) {
	all, err := e.w.Agents()
	if err != nil {
		return nil, err
	}
	all = slices.Clone(all)
	for _, v := range append(e.remote(), e.base) {
		found := v.folder("agents")
		for _, name := range slices.Sorted(maps.Keys(found)) {
			agent := schema.AgentName(name)
			if slices.Contains(all, agent) || !found[name].IsFolder() || !agent.Valid() {
				continue
			}
			if err := mailbox.CheckNewAgent(agent, all); err != nil && !errors.Is(err, mailbox.ErrPostmaster) {
				e.problem(schema.BoxPath(agent, mailbox.Inbox), err)
				continue
			}
			all = append(all, agent)
		}
	}
	slices.Sort(all)
	return all, nil
}

// compare finds the messages below a path that differ between a tree and the base.
func (e *exchange) compare(v *view, at string, was, is entry) {
	const deepest = 6 // agents/R/inbox/archive/20261121/NAME
	elements := strings.Split(at, "/")
	name := elements[len(elements)-1]
	switch {
	case was == is, len(elements) > deepest, strings.HasPrefix(name, ".") && name != restoredName && name != prunedName:
		return
	case !was.IsFolder() && !is.IsFolder():
		e.compareFile(v, at, was, is)
		return
	case !was.IsFolder() && len(elements) > 3 && name < e.r.settings.Since:
		return // old mail that the workspace does not take; the scan finds what it has
	}
	before, after := v.tree(was), v.tree(is)
	for name, is := range after {
		e.compare(v, at+"/"+name, before[name], is)
	}
	for name, was := range before {
		if _, ok := after[name]; !ok {
			e.compare(v, at+"/"+name, was, entry{})
		}
	}
}

// compareFile notes the message of a file that differs between a tree and the base, or what is wrong with the file.
func (e *exchange) compareFile(v *view, file string, was, is entry) {
	at, err := parsePath(file)
	switch {
	case err != nil:
	case is != entry{} && !is.IsFile():
		err = fmt.Errorf("it is not a regular file: its mode is %s", is.Mode)
	case at.message && was.IsFile() && is.IsFile():
		err = errors.New("it was changed after it was published; the workspace keeps what it has")
	}
	changed := e.changed[at.Agent]
	switch {
	case err != nil && is != entry{}:
		e.problem(file, err)
	case err != nil, changed == nil:
	case at.list:
		for _, side := range []*view{v, e.base} {
			for name := range side.pruned(path.Dir(file)) {
				changed[replica.Copy{Agent: at.Agent, Name: name, Sent: at.Sent}] = true
			}
		}
	default:
		changed[at.Copy] = true
	}
}

// planAgent plans the mailbox of an agent.
func (e *exchange) planAgent(ctx context.Context, agent schema.AgentName) {
	if removed := e.planPresence(agent); removed {
		return
	}
	changed := e.changed[agent]
	for key := range e.cache.Waiting {
		if of, name, _ := strings.Cut(key, "/"); of == string(agent) {
			changed[replica.Copy{Agent: agent, Name: name}] = true
		}
	}
	var files *replica.Files
	if !e.isUnchanged(agent) {
		files = e.w.Scan(agent)
		base := e.base.stages(agent, e.r.settings.Since)
		addDifferent(files.Stages, base, changed)
		addDifferent(base, files.Stages, changed)
		for path, err := range files.Problems {
			e.problem(path, err)
		}
		for path, err := range files.Unread {
			e.blocked(fmt.Errorf("%s: %w", path, err))
		}
		if len(files.Problems)+len(files.Unread) > 0 {
			delete(e.stamps, agent)
		}
	}
	e.planStatus(agent)
	for _, c := range slices.SortedFunc(maps.Keys(changed), func(a, b replica.Copy) int { return cmp.Compare(a.Name, b.Name) }) {
		if ctx.Err() != nil || e.failed != nil {
			return
		}
		e.planCopy(c, files)
	}
}

// addDifferent adds the copies whose stages differ.
func addDifferent(here, there map[replica.Copy]replica.Stage, into map[replica.Copy]bool) {
	for c, stage := range here {
		if there[c] != stage {
			into[c] = true
		}
	}
}

// planPresence plans whether there is an agent, and reports whether it was removed, with all its mail.
func (e *exchange) planPresence(agent schema.AgentName) (removed bool) {
	if agent == mailbox.Postmaster {
		return false
	}
	base, tip := e.base.agentState(agent), e.tip.agentState(agent)
	remote := tip
	for _, v := range e.others {
		remote = replica.Join(remote, v.agentState(agent))
	}
	stage := replica.Unknown
	if _, missing := e.w.Root().Lstat(schema.BoxPath(agent, mailbox.Inbox)); missing == nil && !e.isUnasked(agent) {
		stage = replica.Pending
	}
	here := replica.Here(stage, base)
	if e.o.RemoveAgent == agent {
		here.Stage = replica.Handled
	}
	result := replica.Join(here, remote)
	removed = result.Stage == replica.Handled
	if removed {
		e.removed = append(e.removed, agent)
	} else if result.Stage == replica.Pending && !e.w.Knows(agent) {
		e.added = append(e.added, agent)
	}
	if result == tip && (!removed || len(e.tip.folder("agents/"+string(agent))) <= 1) {
		return removed
	}
	var number []byte
	if result.Epoch > 0 || removed {
		number = fmt.Appendf(nil, "%d\n", result.Epoch)
	}
	kept, gone := schema.AgentPath(agent, "inbox/"+keepName), schema.AgentPath(agent, removedName)
	change := &edit{Change: history.Change{Direction: history.Out, Agent: agent}, own: result != remote}
	if removed {
		change.Kind = history.RemovedAgent
		change.write, change.remove = []git.File{{Path: gone, Data: number}}, []string{"agents/" + string(agent)}
	} else {
		change.Kind = history.NewAgent
		change.write, change.remove = []git.File{{Path: kept, Data: number}}, []string{gone}
	}
	e.edits, e.unfolded = append(e.edits, change), e.unfolded || !change.own
	return removed
}

// planWorkspace adds workspace.json and the format to a tip that lacks them.
func (e *exchange) planWorkspace() {
	change := &edit{Change: history.Change{Direction: history.Out, Kind: history.Described}, own: true}
	data, err := durable.ReadFile(e.w.Root(), e.w.Dir(), schema.MarkerName, schema.MaxFileSize)
	if (e.tip.entry(schema.MarkerName) == entry{}) && err == nil {
		change.write = append(change.write, git.File{Path: schema.MarkerName, Data: data})
	}
	if (e.tip.entry(formatName) == entry{}) {
		change.write = append(change.write, git.File{Path: formatName, Data: []byte(format)})
	}
	if len(change.write) > 0 && (len(e.edits) > 0 || e.tip.root != "") {
		e.edits = append(e.edits, change)
	}
}
