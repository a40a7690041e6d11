package gitmail

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/internal/git"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/replica"
	"github.com/oacp-go/oacp/schema"
)

// trees are those of the base, the tip and the commits of other machines whose pushes to the branch were refused.
type trees struct {
	base, tip *view
	others    []*view
}

// remote returns all trees but the base, the tip first.
func (t *trees) remote() []*view { return append([]*view{t.tip}, t.others...) }

// A plan says what a sync is to do. It compares what is here with what the trees have, and changes nothing.
type plan struct {
	*report
	trees
	w     *replica.Workspace
	o     Options
	cache *cache
	now   time.Time
	// since is the day from which the workspace keeps mail that was handled or given up.
	since string
	// changed are the copies of each agent that the trees and the base have differently, and staged are those that
	// wait for an inbox.
	changed map[schema.AgentName]map[replica.Copy]bool
	staged  map[replica.Copy]bool

	// edits are what the tip lacks. byKey finds those that belong to a message.
	edits []*edit
	byKey map[string]*edit
	// outcomes are what the workspace lacks.
	outcomes []*outcome
	// added and removed are agents, and described is the object of the description of the workspace.
	added, removed []schema.AgentName
	described      string
	// stamps are those of agents whose folders agree with the base once the sync is done.
	stamps map[schema.AgentName]string
	// unfolded says that other machines' commits have, or may have, something that the tip does not have.
	unfolded bool
}

// An outcome is what the workspace is to take.
type outcome struct {
	replica.Outcome
	base replica.State
	// object and reason hold the bytes.
	object, reason string
}

// makePlan compares the workspace and the trees.
func (e *exchange) makePlan(ctx context.Context) (*plan, error) {
	p := &plan{
		report: &e.report, trees: e.trees, w: e.w, o: e.o, cache: &e.cache, now: e.now, since: e.r.settings.Since,
		changed: make(map[schema.AgentName]map[replica.Copy]bool), byKey: make(map[string]*edit), stamps: make(map[schema.AgentName]string),
		unfolded: len(e.others) < len(e.machines), // nobody here can read the rest
	}
	agents, err := p.agents()
	if err == nil {
		p.staged, err = p.w.Staged(ctx)
	}
	if err != nil {
		return nil, err
	}
	for _, agent := range agents {
		p.changed[agent] = make(map[replica.Copy]bool)
	}
	for _, v := range p.remote() {
		p.compare(v, "agents", p.base.entry("agents"), v.entry("agents"))
	}
	for _, agent := range agents {
		p.planAgent(ctx, agent)
	}
	if err := cmp.Or(context.Cause(ctx), p.planWorkspace(), e.failed); err != nil {
		return nil, err
	}
	slices.SortStableFunc(p.edits, func(a, b *edit) int {
		return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.ID, b.ID)) // ids order the messages of a second
	})
	return p, nil
}

// agents returns the agents of the workspace and of all trees.
func (p *plan) agents() ([]schema.AgentName, error) {
	all, err := p.w.Agents()
	if err != nil {
		return nil, err
	}
	all = slices.Clone(all)
	for _, v := range append(p.remote(), p.base) {
		found := v.folder("agents")
		for _, name := range slices.Sorted(maps.Keys(found)) {
			agent := schema.AgentName(name)
			if slices.Contains(all, agent) || !found[name].IsFolder() || !agent.Valid() {
				continue
			}
			if err := mailbox.CheckNewAgent(agent, all); err != nil && !errors.Is(err, mailbox.ErrPostmaster) {
				p.problem(boxPath(agent, mailbox.Inbox), err)
				continue
			}
			all = append(all, agent)
		}
	}
	slices.Sort(all)
	return all, nil
}

// compare finds the messages that a tree and the base have differently below a path.
func (p *plan) compare(v *view, at string, was, is entry) {
	const deepest = 6 // agents/R/inbox/archive/20261121/NAME
	elements := strings.Split(at, "/")
	name := elements[len(elements)-1]
	switch {
	case was == is, len(elements) > deepest, strings.HasPrefix(name, ".") && name != restoredName && name != prunedName:
		return
	case !was.IsFolder() && !is.IsFolder():
		p.compareFile(v, at, was, is)
		return
	case !was.IsFolder() && len(elements) > 3 && name < p.since:
		return // old mail that is not wanted here; what is here anyway is found by its file
	}
	before, after := v.tree(was), v.tree(is)
	for name, is := range after {
		p.compare(v, at+"/"+name, before[name], is)
	}
	for name, was := range before {
		if _, ok := after[name]; !ok {
			p.compare(v, at+"/"+name, was, entry{})
		}
	}
}

// compareFile notes the message of a file that a tree and the base have differently, or what is wrong with the file.
func (p *plan) compareFile(v *view, file string, was, is entry) {
	at, err := parsePath(file)
	switch {
	case err != nil:
	case is != entry{} && !is.IsFile():
		err = fmt.Errorf("it is not a regular file: its mode is %s", is.Mode)
	case at.message && was.IsFile() && is.IsFile():
		err = errors.New("it was changed after it was published; the workspace keeps what it has")
	}
	changed := p.changed[at.Agent]
	switch {
	case err != nil && is != entry{}:
		p.problem(file, err)
	case err != nil, changed == nil:
	case at.list:
		for _, side := range []*view{v, p.base} {
			for name := range side.pruned(path.Dir(file)) {
				changed[replica.Copy{Agent: at.Agent, Name: name, Sent: at.Sent}] = true
			}
		}
	default:
		changed[at.Copy] = true
	}
}

// planAgent decides the mailbox of an agent.
func (p *plan) planAgent(ctx context.Context, agent schema.AgentName) {
	if removed := p.planPresence(agent); removed {
		return
	}
	changed := p.changed[agent]
	for c := range p.staged {
		if c.Agent == agent {
			changed[c] = true
		}
	}
	for key := range p.cache.Waiting {
		if of, name, _ := strings.Cut(key, "/"); of == string(agent) {
			changed[replica.Copy{Agent: agent, Name: name}] = true
		}
	}
	var files *replica.Files
	if !p.inStep(agent) {
		files = p.w.Scan(agent)
		base := p.base.stages(agent, p.since)
		addDifferent(files.Stages, base, changed)
		addDifferent(base, files.Stages, changed)
		for path, err := range files.Problems {
			p.problem(path, err)
		}
		for path, err := range files.Unread {
			p.blocked(fmt.Errorf("%s: %w", path, err))
		}
		if len(files.Problems)+len(files.Unread) > 0 {
			delete(p.stamps, agent)
		}
	}
	for _, c := range slices.SortedFunc(maps.Keys(changed), func(a, b replica.Copy) int { return cmp.Compare(a.Name, b.Name) }) {
		if ctx.Err() != nil || p.base.failed != nil {
			return
		}
		p.planCopy(c, files)
	}
}

// addDifferent adds the copies that have one stage here and another one there.
func addDifferent(here, there map[replica.Copy]replica.Stage, into map[replica.Copy]bool) {
	for c, stage := range here {
		if there[c] != stage {
			into[c] = true
		}
	}
}

// planPresence decides whether there is an agent. It reports whether it was removed, with all its mail.
func (p *plan) planPresence(agent schema.AgentName) (removed bool) {
	if agent == mailbox.Postmaster {
		return false
	}
	base, tip := p.base.agentState(agent), p.tip.agentState(agent)
	remote := tip
	for _, v := range p.others {
		remote = replica.Join(remote, v.agentState(agent))
	}
	stage := replica.Unknown
	if _, missing := p.w.Root().Lstat(boxPath(agent, mailbox.Inbox)); missing == nil && !p.isUnasked(agent) {
		stage = replica.Pending
	}
	here := replica.Here(stage, base)
	if p.o.RemoveAgent == agent {
		here.Stage = replica.Handled
	}
	result := replica.Join(here, remote)
	if removed = result.Stage == replica.Handled; removed {
		p.removed = append(p.removed, agent)
	} else if result.Stage == replica.Pending && !p.w.Knows(agent) {
		p.added = append(p.added, agent)
	}
	if result == tip && (!removed || len(p.tip.folder("agents/"+string(agent))) <= 1) {
		return removed
	}
	number := []byte(nil)
	if result.Epoch > 0 || removed {
		number = fmt.Appendf(nil, "%d\n", result.Epoch)
	}
	change := &edit{Change: Change{Direction: Out, Kind: NewAgent, Agent: agent}, own: result != remote}
	change.write, change.remove = []git.File{{Path: agentPath(agent, "inbox/"+keepName), Data: number}}, []string{agentPath(agent, removedName)}
	if removed {
		change.Kind, change.write[0].Path, change.remove = RemovedAgent, change.remove[0], []string{"agents/" + string(agent)}
	}
	p.edits, p.unfolded = append(p.edits, change), p.unfolded || !change.own
	return removed
}

// planWorkspace decides the description of the workspace, and marks a tree as one of mailboxes.
func (p *plan) planWorkspace() error {
	marked, described := p.tip.entry(formatName), p.tip.entry(markerName)
	change := &edit{Change: Change{Direction: Out, Kind: Described}, own: true}
	data, err := durable.ReadFile(p.w.Root(), p.w.Dir(), markerName, schema.MaxFileSize)
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	case err != nil && described.IsFile():
		p.described = described.Object
	case err == nil && described == entry{}:
		change.write = append(change.write, git.File{Path: markerName, Data: data})
	}
	if marked == (entry{}) {
		change.write = append(change.write, git.File{Path: formatName, Data: []byte(format)})
	}
	if len(change.write) > 0 && (len(p.edits) > 0 || p.tip.root != "") {
		p.edits = append(p.edits, change)
	}
	return nil
}
