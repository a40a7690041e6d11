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

// legacyArchive is where trees of earlier versions have archived messages, below the agent.
const legacyArchive = "archive"

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

// epochPath returns the path of the file that holds the epoch of a message.
func epochPath(c replica.Copy) string {
	return "agents/" + string(c.Agent) + "/" + restoredName + "/" + c.Name
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
	// implied says that no file has the state, in a tree of an earlier version.
	implied bool
}

// boxesOf are the folders in which a tree has messages of a stage.
var boxesOf = [...]struct {
	stage replica.Stage
	path  func(c replica.Copy) string
}{
	{replica.Pending, func(c replica.Copy) string { return treePath(c.Agent, mailbox.Inbox, c.Name) }},
	{replica.Dead, func(c replica.Copy) string { return treePath(c.Agent, mailbox.DeadLetters, c.Name) }},
	{replica.Handled, func(c replica.Copy) string { return treePath(c.Agent, mailbox.Archive, c.Name) }},
	{replica.Handled, func(c replica.Copy) string {
		return "agents/" + string(c.Agent) + "/" + legacyArchive + "/" + replica.Day(c.Name) + "/" + c.Name
	}},
}

// look returns what a tree has of a message.
func (v *view) look(c replica.Copy) (h held, err error) {
	if h.epoch, err = v.number(epochPath(c)); err != nil {
		if _, refused := errors.AsType[errRefused](err); !refused {
			return h, err
		}
	}
	for _, at := range boxesOf {
		path := at.path(c)
		file, err := v.entry(path)
		if err != nil {
			return h, err
		}
		if !file.isFile() {
			continue
		}
		h.state = replica.Join(h.state, replica.State{Epoch: h.epoch, Stage: at.stage})
		h.object, h.paths = file.object, append(h.paths, path)
		if at.stage != replica.Dead {
			continue
		}
		if reason, err := v.entry(path + mailbox.ReasonSuffix); err != nil {
			return h, err
		} else if reason.isFile() {
			h.reason, h.paths = reason.object, append(h.paths, path+mailbox.ReasonSuffix)
		}
	}
	for _, stage := range []replica.Stage{replica.Dead, replica.Handled} {
		list, err := v.pruned(dayPath(c, stage))
		if err != nil {
			return h, err
		}
		if epoch, ok := list[c.Name]; ok {
			h.state = replica.Join(h.state, replica.State{Epoch: epoch, Stage: stage})
		}
	}
	if h.state.Stage == replica.Unknown && v.isLegacy() {
		// Earlier versions deleted what was handled, and the outbox copy said so.
		if sent, err := v.entry(treePath(replica.Sender(c.Name), mailbox.Outbox, c.Name)); err != nil {
			return h, err
		} else if sent.isFile() {
			h.state, h.object, h.implied = replica.State{Stage: replica.Handled}, sent.object, true
		}
	}
	return h, nil
}

// dayPath returns the folder of a message in the box of a stage.
func dayPath(c replica.Copy, stage replica.Stage) string {
	return boxPath(c.Agent, stage.Box()) + "/" + replica.Day(c.Name)
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
	if _, refused := errors.AsType[errRefused](err); refused {
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

// isLegacy reports whether an earlier version of oacp made the tree.
func (v *view) isLegacy() bool {
	if v.root == "" {
		return false
	}
	at, err := v.entry(formatName)
	return err == nil && at == entry{}
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
	_, top, err := v.folder("")
	if err != nil {
		return err
	}
	_, agents, err := v.folder("agents")
	if err != nil {
		return err
	}
	for name := range agents {
		if kept, err := v.entry("agents/" + name + "/inbox/" + keepName); err != nil || kept.isFile() {
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
func (v *view) agentState(agent schema.AgentName) (replica.State, error) {
	state := replica.State{}
	for path, stage := range map[string]replica.Stage{
		boxPath(agent, mailbox.Inbox) + "/" + keepName: replica.Pending, "agents/" + string(agent) + "/" + removedName: replica.Handled,
	} {
		at, err := v.entry(path)
		if err != nil {
			return state, err
		}
		if !at.isFile() {
			continue
		}
		epoch, err := v.number(path)
		if _, refused := errors.AsType[errRefused](err); err != nil && !refused {
			return state, err
		}
		state = replica.Join(state, replica.State{Epoch: epoch, Stage: stage})
	}
	return state, nil
}

// checkPath returns an error for a path that no sync makes in a tree.
func checkPath(path string) error {
	parts := strings.Split(path, "/")
	name := parts[len(parts)-1]
	switch {
	case path == markerName, path == formatName:
		return nil
	case len(parts) < 3 || parts[0] != "agents":
		return errForeign
	case !schema.AgentName(parts[1]).Valid():
		return fmt.Errorf("%.100q is not an agent name", parts[1])
	}
	agent, below := schema.AgentName(parts[1]), strings.Join(parts[2:], "/")
	if below == removedName || below == "inbox/"+keepName || name == prunedName {
		return nil
	}
	message := strings.TrimSuffix(name, mailbox.ReasonSuffix)
	if err := replica.CheckName(message); err != nil {
		return err
	}
	c := replica.Copy{Agent: agent, Name: message}
	for _, at := range boxesOf {
		if at.path(c) == path || at.stage == replica.Dead && at.path(c)+mailbox.ReasonSuffix == path {
			return nil
		}
	}
	switch path {
	case treePath(agent, mailbox.Outbox, name):
		return replica.CheckSent(agent, name)
	case epochPath(c):
		return nil
	}
	return errForeign
}
