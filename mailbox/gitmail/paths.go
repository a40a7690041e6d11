package gitmail

import (
	"errors"
	"fmt"
	"strings"

	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// place is the place of a file in the tree: a message, the reason of a dead letter, or the file that
// keeps an agent's inbox.
type place struct {
	agent schema.AgentName
	box   mailbox.Box
	// name is that of the file; folders of a day are only in the tree.
	name string
}

const (
	markerName = "workspace.json"
	keepName   = ".gitkeep"
)

// boxes are the folders of a mailbox, in the order in which they are looked at: see exchange.look.
var boxes = [...]mailbox.Box{mailbox.Outbox, mailbox.Archive, mailbox.DeadLetters, mailbox.Inbox}

// file returns the path in the workspace.
func (p place) file() string { return p.folder() + "/" + p.name }

// folder returns the path of the box, both in the tree and in the workspace.
func (p place) folder() string { return mailbox.BoxName(p.agent, p.box) }

// path returns the path in the tree. Boxes that grow for ever have a folder for each day, because a
// commit writes every folder on the way to a file anew.
func (p place) path() string {
	if p.box == mailbox.Inbox {
		return p.file()
	}
	return p.folder() + "/" + day(p.message()) + "/" + p.name
}

// message returns the name of the message file that the file is, or is about.
func (p place) message() string {
	if p.box == mailbox.DeadLetters {
		return strings.TrimSuffix(p.name, mailbox.ReasonSuffix)
	}
	return p.name
}

// isReason reports whether the file is the reason of a dead letter.
func (p place) isReason() bool { return p.message() != p.name }

// day returns the day in the name of a message file, such as 20261121.
func day(name string) string {
	parsed, err := schema.ParseFileName(name)
	if err != nil {
		return ""
	}
	return parsed.At.UTC().Format("20060102")
}

// longestName bounds file names, in bytes, as file systems do.
const longestName = 255

var errForeign = errors.New("it is no file of a mailbox")

// parsePath parses a path in the tree.
func parsePath(path string) (place, error) {
	parts := strings.Split(path, "/")
	if len(parts) < 4 || parts[0] != "agents" {
		return place{}, errForeign
	}
	p := place{agent: schema.AgentName(parts[1]), box: mailbox.Box(parts[2]), name: parts[len(parts)-1]}
	if !isBox(p.box) {
		return place{}, errForeign
	}
	if !p.agent.Valid() {
		return place{}, fmt.Errorf("%.100q is no agent name", parts[1])
	}
	if p.name == keepName && p.box == mailbox.Inbox && len(parts) == 4 {
		return p, nil
	}
	if err := p.checkName(); err != nil {
		return place{}, err
	}
	if path != p.path() {
		return place{}, errForeign
	}
	return p, nil
}

func isBox(box mailbox.Box) bool {
	for _, known := range boxes {
		if box == known {
			return true
		}
	}
	return false
}

// checkName returns an error for a file whose name does not say that it is a message file.
func (p place) checkName() error {
	if len(p.name) > longestName {
		return errors.New("its name is too long")
	}
	parsed, err := schema.ParseFileName(p.message())
	if err == nil && p.box == mailbox.Outbox && parsed.From != p.agent {
		err = fmt.Errorf("its name says that %s sent it", parsed.From)
	}
	return err
}
