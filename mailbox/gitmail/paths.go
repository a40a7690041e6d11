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
	markerName = "workspace.json"
	// formatName is the file that says that a tree holds mailboxes, and in which way.
	formatName = ".oacp-format"
	format     = "2\n"
	// keepName keeps the inbox of an agent, and removedName says that the agent was removed. Each holds the
	// epoch of that.
	keepName    = ".gitkeep"
	removedName = ".removed"
	// restoredName is the folder of files that hold the epochs of messages that were restored.
	restoredName = ".restored"
	// prunedName is the file in the folder of a day that lists messages which were pruned, with their epochs:
	// their states stay, and their bytes go.
	prunedName = ".pruned"
)

var errForeign = errors.New("it is not a file of a mailbox")

// boxPath returns the path of a box, both in the workspace and in trees.
func boxPath(agent schema.AgentName, box mailbox.Box) string { return schema.BoxPath(agent, box) }

// treePath returns the path of a message in trees. Boxes that only grow have a folder for each day, because a
// commit writes every folder on the way to a file again.
func treePath(agent schema.AgentName, box mailbox.Box, name string) string {
	if box == mailbox.Inbox {
		return boxPath(agent, box) + "/" + name
	}
	return boxPath(agent, box) + "/" + replica.Day(name) + "/" + name
}

// agentPath returns the path of a file in the folder of an agent.
func agentPath(agent schema.AgentName, name string) string {
	return "agents/" + string(agent) + "/" + name
}

// epochPath returns the path of the file that holds the epoch of a message.
func epochPath(c replica.Copy) string { return agentPath(c.Agent, restoredName+"/"+c.Name) }

// reasonPath returns the path of the reason of a dead letter.
func reasonPath(c replica.Copy) string {
	return treePath(c.Agent, mailbox.DeadLetters, c.Name) + mailbox.ReasonSuffix
}

// A location is a path at which a tree has a message in a stage.
type location struct {
	stage replica.Stage
	path  string
}

// locations returns those of a message. The last one is that of earlier versions.
func locations(c replica.Copy) []location {
	if c.Sent {
		return []location{{replica.Pending, treePath(c.Agent, mailbox.Outbox, c.Name)}}
	}
	return []location{
		{replica.Pending, treePath(c.Agent, mailbox.Inbox, c.Name)},
		{replica.Dead, treePath(c.Agent, mailbox.DeadLetters, c.Name)},
		{replica.Handled, treePath(c.Agent, mailbox.Archive, c.Name)},
		{replica.Handled, agentPath(c.Agent, "archive/"+replica.Day(c.Name)+"/"+c.Name)},
	}
}

// A held is what a tree has of a message for one recipient.
type held struct {
	state replica.State
	// epoch is that of the files.
	epoch int
	// object holds the bytes, and reason the reason of a dead letter. They are empty if there are none.
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
		if epoch, ok := v.pruned(boxPath(c.Agent, c.Box(stage)) + "/" + replica.Day(c.Name))[c.Name]; ok {
			h.state = replica.Join(h.state, replica.State{Epoch: epoch, Stage: stage})
		}
	}
	return h
}

// pruned returns the messages whose bytes were pruned from the folder of a day, with their epochs. The list of
// another program may hold anything.
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

// stages returns those of the messages of an agent, of the days from since on.
func (v *view) stages(agent schema.AgentName, since string) map[replica.Copy]replica.Stage {
	stages := make(map[replica.Copy]replica.Stage)
	for _, box := range []mailbox.Box{mailbox.Inbox, mailbox.DeadLetters, mailbox.Archive, mailbox.Outbox} {
		days := map[string]entry{"": {}}
		if box != mailbox.Inbox {
			days = v.folder(boxPath(agent, box))
		}
		for day := range days {
			if day != "" && day < since {
				continue
			}
			for name, at := range v.folder(path.Join(boxPath(agent, box), day)) {
				c := replica.Copy{Agent: agent, Name: name, Sent: box == mailbox.Outbox}
				if at.IsFile() && c.Check() == nil && (day == "" || replica.Day(name) == day) {
					stages[c] = max(stages[c], replica.StageOf(box))
				}
			}
		}
	}
	return stages
}

// checkFormat returns an error if the tree holds no mailboxes, or those of a later version.
func (v *view) checkFormat() error {
	marked, agents, top := v.entry(formatName), v.folder("agents"), v.tree(git.Folder(v.root))
	foreign := len(top) > 0 && (len(agents) > 0 || !top[markerName].IsFile()) // otherwise nobody has an agent yet
	for name := range agents {
		foreign = foreign && !v.entry(agentPath(schema.AgentName(name), "inbox/"+keepName)).IsFile()
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

// agentState returns whether a tree has an agent: it is Pending while there is one, and Handled once it was
// removed.
func (v *view) agentState(agent schema.AgentName) (state replica.State) {
	for stage, path := range map[replica.Stage]string{replica.Pending: boxPath(agent, mailbox.Inbox) + "/" + keepName, replica.Handled: agentPath(agent, removedName)} {
		if v.entry(path).IsFile() {
			state = replica.Join(state, replica.State{Epoch: v.number(path), Stage: stage})
		}
	}
	return state
}

// A place is what the path of a file in a tree says: the copy that it belongs to, if it has a name, whether it holds the
// message, and whether it is a list of pruned messages.
type place struct {
	replica.Copy
	message, list bool
}

// parsePath returns an error for a path that no sync makes in a tree.
func parsePath(path string) (p place, err error) {
	parts := strings.Split(path, "/")
	switch {
	case path == markerName, path == formatName:
		return p, nil
	case len(parts) < 3 || parts[0] != "agents":
		return p, errForeign
	case !schema.AgentName(parts[1]).Valid():
		return p, fmt.Errorf("%.100q is not an agent name", parts[1])
	}
	name := parts[len(parts)-1]
	p.Agent, p.Sent, p.list = schema.AgentName(parts[1]), parts[2] == string(mailbox.Outbox), name == prunedName
	if p.list || path == agentPath(p.Agent, removedName) || path == agentPath(p.Agent, "inbox/"+keepName) {
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
