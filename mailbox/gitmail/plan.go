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
	"github.com/oacp-go/oacp/internal/facts"
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
	// changed are the copies of each agent that differ between the base and another tree or the workspace, and copies are those
	// of them that are not planned yet, in the order of their names.
	changed map[schema.AgentName]map[replica.Copy]bool
	copies  []replica.Copy

	// edits are what the tip lacks. byKey finds those about a message, size counts the bytes that they hold, and edited the edits
	// of all pieces.
	edits        []*edit
	byKey        map[string]*edit
	size, edited int
	// pruned are the new lists of pruned messages, by the folder of their day. ownPruned says that one of them has
	// something that no other machine has.
	pruned    map[string]map[string]facts.Set
	ownPruned bool
	// forgotten are files of the tip whose bytes the branch forgets.
	forgotten []string
	// outcomes are what the workspace lacks.
	outcomes []*outcome
	// added and removed are agents.
	added, removed []schema.AgentName
	// statuses are the status files that the workspace lacks.
	statuses map[schema.AgentName][]byte
	// read are what was read of the agents' folders, agreed the facts that the next base will have of messages, and waiting the
	// places of the files that could not move.
	read    map[schema.AgentName]*replica.Files
	agreed  map[schema.AgentName]map[string]facts.Set
	waiting map[replica.Copy]replica.Place
	// local are the agents with a folder here, and gone the agents without an incarnation that was not removed.
	local []schema.AgentName
	gone  map[schema.AgentName]bool
	// leftOut are the agents that the workspace cannot have.
	leftOut []LeftOut
	// incarnations are the ids of the agents that the workspace has or gets.
	incarnations map[schema.AgentName][]string
	// scanned is what the next sync remembers of the agents' mailboxes, which agree with the base once the sync is done.
	scanned map[schema.AgentName]replica.Memories
	// unfolded says that the machines' refs have, or may have, something that the tip does not have.
	unfolded bool
}

func newPlan() *plan {
	return &plan{
		scanned: make(map[schema.AgentName]replica.Memories),
		changed: make(map[schema.AgentName]map[replica.Copy]bool), byKey: make(map[string]*edit), pruned: make(map[string]map[string]facts.Set),
		statuses: make(map[schema.AgentName][]byte), read: make(map[schema.AgentName]*replica.Files),
		agreed: make(map[schema.AgentName]map[string]facts.Set), waiting: make(map[replica.Copy]replica.Place),
		gone: make(map[schema.AgentName]bool), incarnations: make(map[schema.AgentName][]string),
	}
}

// inOrder orders copies by their names.
func inOrder(a, b replica.Copy) int {
	return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Agent, b.Agent))
}

// waitingCopies returns the copies that a box refused, for the cache.
func (p *plan) waitingCopies() []replica.Copy {
	return slices.SortedFunc(maps.Keys(p.waiting), inOrder)
}

// An outcome is a change to the workspace.
type outcome struct {
	replica.Outcome
	base facts.Set
	// recalled reports whether the sender took the message back.
	recalled bool
	// placed is where the file was put last.
	placed replica.Place
	// object and reason are the objects that hold the bytes.
	object, reason string
}

// remote returns the tip, and the trees of the machines' refs and of the branch of an earlier version.
func (p *plan) remote() []*view { return append([]*view{p.tip}, p.others...) }

// makePlan compares the workspace and the trees, and plans the first piece.
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
		e.planAgent(agent)
		e.copies = slices.AppendSeq(e.copies, maps.Keys(e.changed[agent]))
	}
	e.changed = nil
	slices.SortFunc(e.copies, inOrder)
	return planPiece(ctx, e)
}

// agents returns the agents of the workspace and of all trees. Of agents whose names differ only in case, it returns the one that
// lives here, or else the one with mail, or else the smaller one; the others wait until somebody renames them.
func (e *exchange) agents() ([]schema.AgentName, error) {
	all, err := e.w.Agents()
	if err != nil {
		return nil, err
	}
	e.local = slices.Clone(all)
	lives, hasMail := make(map[schema.AgentName]bool), make(map[schema.AgentName]bool)
	var removed []schema.AgentName
	for _, v := range append(e.remote(), e.base) {
		for name, at := range v.folder("agents") {
			if agent := schema.AgentName(name); at.IsFolder() && agent.Valid() {
				hasMail[agent] = hasMail[agent] || len(v.folder(schema.BoxPath(agent, mailbox.Inbox))) > 0
			}
		}
	}
	for agent := range hasMail {
		p, err := e.presence(agent)
		if err != nil {
			return nil, err
		}
		lives[agent] = agent == mailbox.Postmaster || len(p.living) > 0
	}
	rank := func(agent schema.AgentName) int {
		switch {
		case !lives[agent]:
			return 2
		case hasMail[agent]:
			return 0
		}
		return 1
	}
	byRank := func(a, b schema.AgentName) int { return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a, b)) }
	for _, agent := range slices.SortedFunc(maps.Keys(hasMail), byRank) {
		err := mailbox.CheckNewAgent(agent, all)
		switch same, isCase := errors.AsType[*mailbox.SameNameError](err); {
		case slices.Contains(all, agent):
		case isCase && lives[agent]:
			leaveOut(e, agent, same.Other)
		case err != nil && !isCase && !errors.Is(err, mailbox.ErrPostmaster):
			e.problem(schema.BoxPath(agent, mailbox.Inbox), err)
		case lives[agent]:
			all = append(all, agent)
		default: // a removed agent takes no name
			removed = append(removed, agent)
		}
	}
	all = append(all, removed...)
	slices.Sort(all)
	return all, nil
}

// compare finds the messages below a path that differ between a tree and the base.
func (e *exchange) compare(v *view, at string, was, is entry) {
	const deepest = 6 // agents/R/inbox/archive/20261121/NAME
	elements := strings.Split(at, "/")
	name := elements[len(elements)-1]
	switch {
	case was == is, len(elements) > deepest, strings.HasPrefix(name, ".") && name != factsName && name != prunedName && name != restoredName:
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
	if name := path.Base(file); v.old && path.Base(path.Dir(file)) == restoredName { // its epochs are facts now
		at.Agent, at.Name, err = schema.AgentName(strings.Split(file, "/")[1]), name, (replica.Copy{Name: name}).Check()
	} else if v.old && (name == keepName || name == removedName) {
		return
	}
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
			for name, known := range side.pruned(path.Dir(file)) {
				if other := v.pruned(path.Dir(file))[name]; other == known && side != v || v.commit == e.base.commit {
					continue
				}
				changed[replica.Copy{Agent: at.Agent, Name: name, Sent: at.Sent}] = true
			}
		}
	default:
		changed[at.Copy] = true
	}
}

// planAgent plans the mailbox of an agent.
func (e *exchange) planAgent(agent schema.AgentName) {
	changed := e.changed[agent]
	removed := e.planPresence(agent)
	if removed {
		for c := range e.tip.places(agent, "", nil) { // the branch forgets the bytes of what is done
			changed[c] = true
		}
	}
	for _, c := range e.cache.Waiting {
		if c.Agent == agent {
			changed[c] = true
		}
	}
	times := e.times(agent) // before anything is read
	files := e.w.Scan(agent, e.remembered(agent))
	e.read[agent], e.scanned[agent], e.agreed[agent] = files, files.Memory, make(map[string]facts.Set)
	base := e.base.places(agent, e.r.settings.Since, files.Same)
	addDifferent(files.Places, base, changed)
	addDifferent(base, files.Places, changed)
	for name := range files.Marks {
		changed[replica.Copy{Agent: agent, Name: name}] = true
	}
	for c := range files.Twice {
		changed[c] = true
	}
	for path, err := range files.Problems {
		e.problem(path, err)
	}
	for path, err := range files.Unread {
		e.blocked(fmt.Errorf("%s: %w", path, err))
	}
	if len(files.Unread) == 0 {
		maps.Copy(files.Memory, times)
	}
	e.planStatus(agent)
	if removed { // its boxes hold nothing, whatever the base says; another incarnation gets what is pending
		delete(e.scanned, agent)
	}
}

// addDifferent adds the copies whose places differ.
func addDifferent(here, there map[replica.Copy]replica.Place, into map[replica.Copy]bool) {
	for c, place := range here {
		if there[c] != place {
			into[c] = true
		}
	}
}

// A presence is what is known of the incarnations of an agent: the living ones, those that were removed, and of both what the
// other machines know.
type presence struct{ living, gone, remote, remoteGone []string }

func (e *exchange) presence(agent schema.AgentName) (p presence, err error) {
	for _, v := range e.remote() {
		ids, gone := v.incarnations(agent)
		p.remote, p.remoteGone = union(p.remote, ids), union(p.remoteGone, gone)
	}
	here, gone, err := mailbox.Incarnations(e.w.Workspace, agent)
	if !slices.Contains(e.local, agent) || e.isUnasked(agent) {
		here = nil // where case does not matter, they may be those of another agent
	}
	baseIDs, baseGone := e.base.incarnations(agent)
	p.gone = union(union(gone, p.remoteGone), baseGone)
	p.living = slices.DeleteFunc(union(union(here, p.remote), baseIDs), func(id string) bool { return slices.Contains(p.gone, id) })
	return p, err
}

// planPresence plans whether there is an agent, and reports whether all its incarnations were removed.
func (e *exchange) planPresence(agent schema.AgentName) (removed bool) {
	if agent == mailbox.Postmaster {
		return false
	}
	p, err := e.presence(agent)
	if err != nil {
		e.blocked(err)
		return false
	}
	_, missing := e.w.Root().Lstat(schema.BoxPath(agent, mailbox.Inbox))
	isHere := missing == nil && !e.isUnasked(agent)
	if isHere && len(p.living)+len(p.gone) == 0 { // a folder that another program made, or a new one
		p.living = []string{string(facts.NewID())}
	}
	removed = len(p.living) == 0 && len(p.gone) > 0
	switch {
	case removed:
		e.gone[agent] = true
		e.removed = append(e.removed, agent)
	case len(p.living) == 0:
		return false
	default:
		e.incarnations[agent] = p.living
		if !e.w.Knows(agent) || missing != nil {
			e.added = append(e.added, agent)
		}
	}
	tipIDs, tipGone := e.tip.incarnations(agent)
	change := &edit{Change: history.Change{Direction: history.Out, Kind: history.NewAgent, Agent: agent}}
	if removed {
		change.Kind = history.RemovedAgent
	}
	add := func(folder string, ids, tip, remote []string) {
		for _, id := range ids {
			if !slices.Contains(tip, id) {
				change.write = append(change.write, git.File{Path: schema.AgentPath(agent, folder+"/"+id), Data: []byte{}})
				change.own = change.own || !slices.Contains(remote, id)
			}
		}
	}
	add(agentsName, p.living, tipIDs, p.remote)
	add(removedName, p.gone, tipGone, p.remoteGone)
	for _, id := range tipIDs {
		if slices.Contains(p.gone, id) {
			change.remove = append(change.remove, schema.AgentPath(agent, agentsName+"/"+id))
		}
	}
	if len(change.write)+len(change.remove) > 0 {
		e.edits, e.unfolded = append(e.edits, change), e.unfolded || !change.own
	}
	return removed
}

// union returns the ids of two lists, sorted, each once.
func union(a, b []string) []string {
	all := slices.Concat(a, b)
	slices.Sort(all)
	return slices.Compact(all)
}

// planWorkspace adds workspace.json and the format to a tip that lacks them, before all else: the branch may be found, or rewound
// to, at any commit.
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
		e.edits = slices.Insert(e.edits, 0, change)
	}
}
