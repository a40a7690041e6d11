package gitmail

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/oacp-go/oacp/internal/git"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/replica"
	"github.com/oacp-go/oacp/schema"
)

// What a tree holds besides messages.
const (
	// formatName is the file that marks a tree as one of mailboxes, and holds the version of its format.
	formatName = ".oacp-format"
	format     = "2\n"
	// keepName is a file in the inbox of an agent, without which git would not keep an empty one, and removedName a
	// file of an agent that was removed. Each holds the epoch of the agent.
	keepName    = ".gitkeep"
	removedName = ".removed"
	// restoredName is the folder of files that hold the epochs of messages that were restored.
	restoredName = ".restored"
	// prunedName is the file in the folder of a day that lists the messages whose bytes were pruned, with their
	// epochs.
	prunedName = ".pruned"
)

var errForeign = errors.New("it is not a file of a mailbox")

// treePath returns the path of a message in trees. Boxes that only grow have a folder for each day, because a
// commit rewrites every folder on the path of a changed file.
func treePath(agent schema.AgentName, box mailbox.Box, name string) string {
	if box == mailbox.Inbox {
		return schema.BoxPath(agent, box) + "/" + name
	}
	return schema.BoxPath(agent, box) + "/" + replica.Day(name) + "/" + name
}

// epochPath returns the path of the file that holds the epoch of a message.
func epochPath(c replica.Copy) string { return schema.AgentPath(c.Agent, restoredName+"/"+c.Name) }

func reasonPath(c replica.Copy) string {
	return treePath(c.Agent, mailbox.DeadLetters, c.Name) + mailbox.ReasonSuffix
}

// A location is a path at which a tree has a message in a stage.
type location struct {
	stage replica.Stage
	path  string
}

// locations returns the paths at which trees may have a message. The first one is that of earlier versions.
func locations(c replica.Copy) (all []location) {
	if c.Sent {
		return []location{{replica.Pending, treePath(c.Agent, mailbox.Outbox, c.Name)}}
	}
	all = []location{{replica.Handled, schema.AgentPath(c.Agent, "archive/"+replica.Day(c.Name)+"/"+c.Name)}}
	for stage := replica.Pending; stage <= replica.Handled; stage++ {
		all = append(all, location{stage, treePath(c.Agent, stage.Box(), c.Name)})
	}
	return all
}

// held is what a tree has of a copy.
type held struct {
	state replica.State
	// epoch is the epoch of the files.
	epoch int
	// object is the object with the bytes, and reason the one with the reason of a dead letter; empty if there is none.
	object, reason string
	// paths are the files.
	paths []string
}

// look returns what a tree has of a message.
func (v *view) look(c replica.Copy) (h held) {
	if !c.Sent {
		h.epoch = v.number(epochPath(c))
	}
	for _, location := range locations(c) {
		at := v.entry(location.path)
		if !at.IsFile() {
			continue
		}
		h.state = replica.Join(h.state, replica.State{Epoch: h.epoch, Stage: location.stage})
		h.object, h.paths = at.Object, append(h.paths, location.path)
		if location.stage != replica.Dead {
			continue
		}
		if reason := v.entry(reasonPath(c)); reason.IsFile() {
			h.reason, h.paths = reason.Object, append(h.paths, reasonPath(c))
		}
	}
	for _, stage := range []replica.Stage{replica.Dead, replica.Handled} {
		if epoch, ok := v.pruned(schema.BoxPath(c.Agent, c.Box(stage)) + "/" + replica.Day(c.Name))[c.Name]; ok {
			h.state = replica.Join(h.state, replica.State{Epoch: epoch, Stage: stage})
		}
	}
	return h
}

// pruned returns the messages whose bytes were pruned from the folder of a day, with their epochs. It ignores invalid
// lines.
func (v *view) pruned(day string) map[string]int {
	list, ok := v.lists[day]
	if ok {
		return list
	}
	list = make(map[string]int)
	for line := range strings.Lines(v.text(v.entry(day + "/" + prunedName))) {
		name, number, _ := strings.Cut(strings.TrimSpace(line), " ")
		if epoch, err := strconv.Atoi(cmp.Or(number, "0")); err == nil && epoch >= 0 && (replica.Copy{Name: name}).Check() == nil {
			list[name] = epoch
		}
	}
	v.lists[day] = list
	return list
}

// stages returns the stages of the messages of an agent, from the day since on.
func (v *view) stages(agent schema.AgentName, since string) map[replica.Copy]replica.Stage {
	stages := make(map[replica.Copy]replica.Stage)
	for _, box := range []mailbox.Box{mailbox.Inbox, mailbox.DeadLetters, mailbox.Archive, mailbox.Outbox} {
		days := map[string]entry{"": {}}
		if box != mailbox.Inbox {
			days = v.folder(schema.BoxPath(agent, box))
		}
		for day := range days {
			if day != "" && day < since {
				continue
			}
			for name, at := range v.folder(path.Join(schema.BoxPath(agent, box), day)) {
				c := replica.Copy{Agent: agent, Name: name, Sent: box == mailbox.Outbox}
				if at.IsFile() && c.Check() == nil && (day == "" || replica.Day(name) == day) {
					stages[c] = max(stages[c], replica.StageOf(box))
				}
			}
		}
	}
	return stages
}

// checkFormat returns an error if the tree does not hold mailboxes, or holds mailboxes of a later version.
func (v *view) checkFormat() error {
	marked, agents, top := v.entry(formatName), v.folder("agents"), v.tree(git.Folder(v.root))
	foreign := len(top) > 0 && (len(agents) > 0 || !top[schema.MarkerName].IsFile()) // otherwise there is no agent yet
	for name := range agents {
		foreign = foreign && !v.entry(schema.AgentPath(schema.AgentName(name), "inbox/"+keepName)).IsFile()
	}
	switch found := v.text(marked); {
	case v.failed != nil:
		return v.failed
	case marked.IsFile() && found != strings.TrimSpace(format):
		return fmt.Errorf("%w: its format is %.20q, and this program knows that of 2", ErrForeignBranch, found)
	case !marked.IsFile() && foreign:
		return ErrForeignBranch
	}
	return nil
}

// agentState returns whether a tree has an agent, as a state that replica.Join can join: Pending for an agent that
// exists, and Handled for one that was removed.
func (v *view) agentState(agent schema.AgentName) (state replica.State) {
	for stage, path := range map[replica.Stage]string{replica.Pending: schema.BoxPath(agent, mailbox.Inbox) + "/" + keepName, replica.Handled: schema.AgentPath(agent, removedName)} {
		if v.entry(path).IsFile() {
			state = replica.Join(state, replica.State{Epoch: v.number(path), Stage: stage})
		}
	}
	return state
}

// A place is what the path of a file in a tree means.
type place struct {
	// Copy is the copy that the file belongs to. It has no name if the file belongs to none.
	replica.Copy
	// message says that the file holds the message, and list that it is a list of pruned messages.
	message, list bool
}

// parsePath returns an error for a path that no sync writes.
func parsePath(path string) (p place, err error) {
	parts := strings.Split(path, "/")
	switch {
	case path == schema.MarkerName, path == formatName:
		return p, nil
	case len(parts) < 3 || parts[0] != "agents":
		return p, errForeign
	case !schema.AgentName(parts[1]).Valid():
		return p, fmt.Errorf("%.100q is not an agent name", parts[1])
	}
	name := parts[len(parts)-1]
	p.Agent, p.Sent, p.list = schema.AgentName(parts[1]), parts[2] == string(mailbox.Outbox), name == prunedName
	if p.list || path == schema.AgentPath(p.Agent, removedName) || path == schema.AgentPath(p.Agent, "inbox/"+keepName) {
		return p, nil
	}
	p.Name = strings.TrimSuffix(name, mailbox.ReasonSuffix)
	if err := p.Check(); err != nil {
		return p, err
	}
	p.message = slices.ContainsFunc(locations(p.Copy), func(l location) bool { return l.path == path })
	if !p.message && path != epochPath(p.Copy) && path != reasonPath(p.Copy) {
		return p, errForeign
	}
	return p, nil
}
