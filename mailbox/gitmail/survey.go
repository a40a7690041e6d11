package gitmail

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// survey is what the boxes of the workspace and of the tip hold.
type survey struct {
	at      time.Time
	folders map[string]*folder
	agents  []schema.AgentName
}

// folder is a box in the workspace and in the tip.
type folder struct {
	agent schema.AgentName
	box   mailbox.Box
	// modified is when the folder last changed, in nanoseconds; 0 if it is missing.
	modified int64
	// lost says that the folder was removed, and seen that it has the file seenName.
	lost, seen bool
	// tree is the folder's tree in the tip; empty if it has none.
	tree string
	// inStep says that neither has changed since they held the same.
	inStep bool
	// here are the names of the files in the workspace by their names in the tree, and there are the
	// files in the tip, if they are not in step.
	here  map[string]string
	there map[string]bool
	// unsettled says that something in the folder is left for the next sync, and aside that all of it is.
	unsettled, aside bool
}

// setAside leaves the folder to the next sync: what it holds says nothing about its messages.
func (f *folder) setAside() {
	f.unsettled, f.aside, f.inStep, f.here, f.there = true, true, true, nil, nil
}

// name returns the path of the box in the workspace.
func (f *folder) name() string { return mailbox.BoxName(f.agent, f.box) }

// survey finds the boxes of the workspace and of the tip.
func (e *exchange) survey(ctx context.Context) (*survey, error) {
	agents, err := e.r.w.Agents()
	if err != nil {
		return nil, err
	}
	s := &survey{at: e.r.now(), folders: make(map[string]*folder), agents: agents}
	trees := e.cache.trees()
	if e.tip != e.cache.Tip {
		if trees, err = e.trees(ctx, agents); err != nil {
			return nil, err
		}
	}
	for name := range trees {
		agent := schema.AgentName(strings.Split(name, "/")[1]) // agents/NAME/box
		if !slices.Contains(s.agents, agent) && mailbox.CheckNewAgent(agent, agents) == nil {
			s.agents = append(s.agents, agent) // somebody removed its mailbox
		}
	}
	slices.Sort(s.agents)
	for _, agent := range s.agents {
		for _, box := range boxes {
			name := mailbox.BoxName(agent, box)
			known, ok := e.cache.Boxes[name]
			f := &folder{agent: agent, box: box, tree: trees[name], lost: known.Lost, seen: known.Seen}
			s.folders[name] = f
			if f.tree != "" && !f.seen && !e.o.DryRun {
				e.markSeen(f)
			}
			info, err := e.r.w.Root().Lstat(name)
			switch {
			case err == nil && !info.IsDir():
				e.problem(name, errors.New("it is not a folder, so its mail stays where it is"))
				f.setAside()
				continue
			case errors.Is(err, syscall.ENOTDIR):
				f.setAside() // the inbox is no folder
				continue
			case err == nil:
				f.modified = info.ModTime().UnixNano()
			case !errors.Is(err, fs.ErrNotExist):
				f.setAside()
				e.blocked(err)
				continue
			}
			f.lost = f.tree != "" && (f.modified == 0 || known.Lost)
			f.inStep = !f.lost && ok && known.Tree == f.tree && known.Modified == f.modified || f.modified == 0 && f.tree == ""
			if e.aside[name] {
				f.setAside()
			}
		}
	}
	return s, nil
}

// trees returns the trees of the boxes in the tip by their paths in the workspace: those of the given agents and of the tip's.
func (e *exchange) trees(ctx context.Context, agents []schema.AgentName) (map[string]string, error) {
	all := slices.Clone(agents)
	err := e.list(ctx, false, []string{"agents/"}, func(path, kind, _ string) {
		if agent := schema.AgentName(strings.TrimPrefix(path, "agents/")); kind == "tree" && agent.Valid() {
			all = append(all, agent)
		}
	})
	if err != nil {
		return nil, err
	}
	var paths []string
	names := make(map[string]string)
	for _, agent := range all {
		for _, box := range boxes {
			at := treeFolder(agent, box)
			paths = append(paths, at)
			names[at] = mailbox.BoxName(agent, box)
		}
	}
	trees := make(map[string]string)
	return trees, e.list(ctx, false, paths, func(path, kind, object string) {
		if kind == "tree" {
			trees[names[path]] = object
		}
	})
}

// listHere lists the boxes of the workspace that are not in step.
func (e *exchange) listHere(ctx context.Context, s *survey, boxes ...mailbox.Box) error {
	for _, agent := range s.agents {
		for _, box := range boxes {
			f := s.folders[mailbox.BoxName(agent, box)]
			if f.inStep {
				continue
			}
			f.here = make(map[string]string)
			names, err := durable.ListFolder(e.r.w.Root(), e.r.w.Dir(), f.name())
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				f.setAside()
				e.blocked(err)
			}
			for _, name := range names {
				if !strings.HasPrefix(name, ".") {
					f.here[e.treeName(place{agent, box, name})] = name
				}
			}
		}
	}
	return nil
}

// listThere lists the tip's files of the boxes that are not in step.
func (e *exchange) listThere(ctx context.Context, s *survey) error {
	var paths []string
	for _, f := range s.folders {
		if f.inStep {
			continue
		}
		f.there = make(map[string]bool)
		if f.tree != "" {
			paths = append(paths, treeFolder(f.agent, f.box))
		}
	}
	slices.Sort(paths)
	return e.list(ctx, true, paths, func(path, kind, _ string) {
		if p, err := parsePath(path); err == nil && kind == "blob" && p.name != keepName {
			s.folders[p.folder()].there[p.name] = true
		}
	})
}

// The cache spares listing boxes. Without it, a sync lists them all.
const cacheName = stateFolder + "/cache.json"

type cache struct {
	// Tip is the commit whose trees are listed.
	Tip   string               `json:"tip"`
	Boxes map[string]cachedBox `json:"boxes"`
	// Revived are the inbox copies that were put back and may be news again, as long as RevivedOn is
	// the base.
	RevivedOn string   `json:"revived_on,omitempty"`
	Revived   []string `json:"revived,omitempty"`
}

type cachedBox struct {
	Tree string `json:"tree,omitempty"`
	// Modified is when the folder had last changed when it held what the tree holds, in nanoseconds.
	Modified int64 `json:"modified"`
	// Seen says that the folder has the file seenName.
	Seen bool `json:"seen,omitempty"`
	// Lost says that the folder was removed, and that what it held is not restored yet.
	Lost bool `json:"lost,omitempty"`
}

func (c *cache) trees() map[string]string {
	trees := make(map[string]string)
	for name, box := range c.Boxes {
		if box.Tree != "" {
			trees[name] = box.Tree
		}
	}
	return trees
}

func (r *Repository) readCache() (c cache) {
	const mostBytes = 16 << 20
	data, err := durable.ReadFile(r.w.Root(), r.w.Dir(), cacheName, mostBytes)
	if err != nil || json.Unmarshal(data, &c) != nil {
		return cache{}
	}
	return c
}

// settled is the age at which a folder's time says whether it changed since it was listed: the clocks
// of file systems have ticks.
const settled = 2 * time.Second

// keep writes the cache, if it changes.
func (e *exchange) keep(ctx context.Context, d *outgoing) error {
	before := e.cache
	trees := before.trees()
	if e.tip != before.Tip {
		var err error
		if trees, err = e.trees(ctx, d.agents); err != nil {
			return err
		}
	}
	after := cache{Tip: e.tip, Boxes: make(map[string]cachedBox)}
	changed := e.tip != before.Tip || before.RevivedOn != ""
	for name, f := range d.folders {
		box := cachedBox{Tree: trees[name], Modified: f.modified, Seen: f.seen, Lost: f.lost}
		if f.unsettled || d.at.Sub(time.Unix(0, f.modified)) < settled {
			box.Modified = 0
		}
		if box.Tree == "" && box.Modified == 0 {
			continue
		}
		after.Boxes[name] = box
		changed = changed || box != before.Boxes[name]
	}
	if !changed {
		return nil
	}
	e.cache = after
	return e.writeCache()
}

func (e *exchange) writeCache() error {
	data, err := json.Marshal(e.cache)
	if err != nil {
		return err
	}
	return durable.ReplaceFile(e.r.w.Root(), e.r.w.Dir(), cacheName, data, 0o644)
}
