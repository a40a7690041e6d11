package schema

import (
	"slices"
	"strings"
)

// Names in a workspace. Each agent owns a folder in AgentsName, its mailbox: only the agent moves files
// out of its boxes, and others write only to its inbox. StateName is the folder of files that concern
// only one machine. They are never committed.
const (
	AgentsName = "agents"
	StateName  = "state"
	// MarkerName is the file that marks a folder as a workspace, and holds its settings.
	MarkerName = "workspace.json"
)

// A Box is a folder of a mailbox that holds messages.
type Box string

// The boxes of a mailbox.
const (
	// Inbox holds the pending messages.
	Inbox Box = "inbox"
	// Outbox holds a copy of each message that the agent sent.
	Outbox Box = "outbox"
	// DeadLetters holds messages that could not be handled, each with a reason.
	DeadLetters Box = "dead_letter"
	// Archive holds the acknowledged messages. It is a folder in the inbox.
	Archive Box = "archive"
)

// Boxes returns all boxes: those that a message passes through at its recipient, in that order, then the outbox.
func Boxes() []Box { return []Box{Inbox, Archive, DeadLetters, Outbox} }

// IsBox reports whether a mailbox has a box of this name.
func IsBox(name string) bool { return slices.Contains(Boxes(), Box(name)) }

// AgentPath returns the path of a file in an agent's folder, with slashes, below the workspace. It does not check the name.
func AgentPath(agent AgentName, file string) string {
	return AgentsName + "/" + string(agent) + "/" + file
}

// BoxPath returns the path of a box as AgentPath does.
func BoxPath(agent AgentName, box Box) string {
	if box == Archive {
		return AgentPath(agent, string(Inbox+"/"+Archive))
	}
	return AgentPath(agent, string(box))
}

// A Location is the place of a file in a mailbox.
type Location struct {
	// Workspace is the path of the workspace, with a slash at its end, or empty.
	Workspace string
	Agent     AgentName
	Box       Box
	Name      string
}

// Locate reads the path of a file in a mailbox, with slashes. The file may be in a folder of the box: the trees that sync
// keeps have one for each day. Trees of earlier versions have the archive beside the inbox.
func Locate(path string) (Location, bool) {
	parts := strings.Split(path, "/")
	for at := len(parts) - 4; at >= max(0, len(parts)-6); at-- {
		box, below := parts[at+2], parts[at+3:]
		if Box(box) == Inbox && Box(below[0]) == Archive && len(below) > 1 {
			box, below = below[0], below[1:]
		}
		l := Location{Workspace: strings.Join(parts[:at], "/"), Agent: AgentName(parts[at+1]), Box: Box(box), Name: below[len(below)-1]}
		if parts[at] != AgentsName || !l.Agent.Valid() || !IsBox(box) || len(below) > 2 {
			continue
		}
		if at > 0 {
			l.Workspace += "/"
		}
		return l, true
	}
	return Location{}, false
}
