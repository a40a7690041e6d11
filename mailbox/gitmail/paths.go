package gitmail

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"

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
func boxPath(agent schema.AgentName, box mailbox.Box) string { return mailbox.BoxName(agent, box) }

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

// stagePaths returns the paths at which a tree may have a message. The last one is that of earlier versions.
func stagePaths(c replica.Copy) [4]struct {
	stage replica.Stage
	path  string
} {
	return [...]struct {
		stage replica.Stage
		path  string
	}{
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
	// paths are the files, and copies counts those of the message.
	paths  []string
	copies int
}

// look returns what a tree has of a message.
func (v *view) look(c replica.Copy) (h held, err error) {
	if h.epoch, err = v.number(epochPath(c)); err != nil {
		return h, err
	}
	for _, at := range stagePaths(c) {
		file, err := v.entry(at.path)
		if err != nil {
			return h, err
		}
		if !file.isFile() {
			continue
		}
		h.state = replica.Join(h.state, replica.State{Epoch: h.epoch, Stage: at.stage})
		h.object, h.paths, h.copies = file.object, append(h.paths, at.path), h.copies+1
		if at.stage != replica.Dead {
			continue
		}
		if reason, err := v.entry(reasonPath(c)); err != nil {
			return h, err
		} else if reason.isFile() {
			h.reason, h.paths = reason.object, append(h.paths, reasonPath(c))
		}
	}
	for _, stage := range []replica.Stage{replica.Dead, replica.Handled} {
		list, err := v.pruned(boxPath(c.Agent, stage.Box()) + "/" + replica.Day(c.Name))
		if err != nil {
			return h, err
		}
		if epoch, ok := list[c.Name]; ok {
			h.state = replica.Join(h.state, replica.State{Epoch: epoch, Stage: stage})
		}
	}
	return h, nil
}

// pruned returns the messages whose bytes were pruned from the folder of a day, with their epochs. The list of
// another program may hold anything.
func (v *view) pruned(day string) (map[string]int, error) {
	if list, ok := v.lists[day]; ok {
		return list, nil
	}
	list := make(map[string]int)
	v.lists[day] = list
	at, err := v.entry(day + "/" + prunedName)
	if err != nil || !at.isFile() {
		return list, err
	}
	data, err := v.file(at.object)
	if isRefused(err) {
		return list, nil
	}
	for line := range strings.Lines(string(data)) {
		name, number, _ := strings.Cut(strings.TrimSpace(line), " ")
		if epoch, err := strconv.Atoi(cmp.Or(number, "0")); err == nil && epoch >= 0 && replica.CheckName(name) == nil {
			list[name] = epoch
		}
	}
	return list, err
}

// files returns the messages of an agent, of the days from since on.
func (v *view) files(agent schema.AgentName, since string) (*replica.Files, error) {
	f := replica.NewFiles()
	add := func(box mailbox.Box, day string, names map[string]entry) {
		for name, at := range names {
			switch {
			case !at.isFile() || replica.CheckName(name) != nil || day != "" && replica.Day(name) != day:
			case box == mailbox.Outbox:
				if replica.CheckSent(agent, name) == nil {
					f.Sent[name] = true
				}
			default:
				f.Stages[name] = max(f.Stages[name], replica.StageOf(box))
			}
		}
	}
	for _, box := range []mailbox.Box{mailbox.Inbox, mailbox.DeadLetters, mailbox.Archive, mailbox.Outbox} {
		entries, err := v.folder(boxPath(agent, box))
		if err != nil {
			return nil, err
		}
		if box == mailbox.Inbox {
			add(box, "", entries)
			continue
		}
		for day := range entries {
			if day < since {
				continue
			}
			names, err := v.folder(boxPath(agent, box) + "/" + day)
			if err != nil {
				return nil, err
			}
			add(box, day, names)
		}
	}
	return f, nil
}

// checkFormat returns an error if the tree holds no mailboxes, or those of a later version.
func (v *view) checkFormat() error {
	at, err := v.entry(formatName)
	if err != nil || v.root == "" {
		return err
	}
	if at.isFile() {
		data, err := v.file(at.object)
		if err == nil && string(data) != format {
			err = fmt.Errorf("%w: its format is %.20q, and this program knows that of 2", ErrForeignBranch, strings.TrimSpace(string(data)))
		}
		return err
	}
	top, err := v.tree(v.root)
	if err != nil {
		return err
	}
	agents, err := v.folder("agents")
	if err != nil {
		return err
	}
	for name := range agents {
		if kept, err := v.entry(agentPath(schema.AgentName(name), "inbox/"+keepName)); err != nil || kept.isFile() {
			return err
		}
	}
	if len(top) == 0 || len(agents) == 0 && top[markerName].isFile() {
		return nil // nobody has an agent yet
	}
	return ErrForeignBranch
}

// agentState returns whether a tree has an agent: it is Pending while there is one, and Handled once it was
// removed.
func (v *view) agentState(agent schema.AgentName) (state replica.State, err error) {
	for stage, path := range map[replica.Stage]string{replica.Pending: boxPath(agent, mailbox.Inbox) + "/" + keepName, replica.Handled: agentPath(agent, removedName)} {
		at, err := v.entry(path)
		if err != nil {
			return state, err
		}
		if !at.isFile() {
			continue
		}
		epoch, err := v.number(path)
		if err != nil {
			return state, err
		}
		state = replica.Join(state, replica.State{Epoch: epoch, Stage: stage})
	}
	return state, nil
}

// A place is what the path of a file in a tree says.
type place struct {
	agent schema.AgentName
	// name is that of a message. It is empty for files that belong to none.
	name string
	// sent says that the file is in the outbox, message that it holds the message, and list that it is a list
	// of pruned messages.
	sent, message, list bool
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
	p.agent, p.sent, p.list = schema.AgentName(parts[1]), parts[2] == string(mailbox.Outbox), name == prunedName
	if p.list || path == agentPath(p.agent, removedName) || path == agentPath(p.agent, "inbox/"+keepName) {
		return p, nil
	}
	p.name = strings.TrimSuffix(name, mailbox.ReasonSuffix)
	if err := replica.CheckName(p.name); err != nil {
		return p, err
	}
	c := replica.Copy{Agent: p.agent, Name: p.name}
	p.message = true
	for _, at := range stagePaths(c) {
		if at.path == path {
			return p, nil
		}
	}
	if path == treePath(p.agent, mailbox.Outbox, name) {
		return p, replica.CheckSent(p.agent, name)
	}
	if p.message = false; path == epochPath(c) || path == reasonPath(c) {
		return p, nil
	}
	return p, errForeign
}

// checkPath returns an error for a path that no sync makes in a tree.
func checkPath(path string) error {
	_, err := parsePath(path)
	return err
}
