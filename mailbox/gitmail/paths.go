package gitmail

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/validate"
)

// place is the place of a file in the tree: a message, the reason of a dead letter, or the file that
// keeps an agent's inbox.
type place struct {
	agent schema.AgentName
	box   mailbox.Box
	// name is that of the file in the tree. In the workspace, it can be shorter: see exchange.find.
	name string
}

const (
	markerName = "workspace.json"
	keepName   = ".gitkeep"
)

// boxes are the folders of a mailbox, in the order in which they are looked at: see exchange.look.
var boxes = [...]mailbox.Box{mailbox.Outbox, mailbox.Archive, mailbox.DeadLetters, mailbox.Inbox}

// file returns the path in the workspace, and in the tree if that has no folders of days there.
func (p place) file() string { return p.folder() + "/" + p.name }

// folder returns the path of the box in the workspace.
func (p place) folder() string { return mailbox.BoxName(p.agent, p.box) }

// treeFolder returns the path of a box in the tree, where the archive is beside the inbox.
func treeFolder(agent schema.AgentName, box mailbox.Box) string {
	return "agents/" + string(agent) + "/" + string(box)
}

// path returns the path in the tree. Boxes that only grow have a folder for each day, because a commit
// writes every folder on the way to a file again.
func (p place) path() string {
	if p.box == mailbox.Inbox {
		return p.file()
	}
	return treeFolder(p.agent, p.box) + "/" + day(p.message()) + "/" + p.name
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

var errForeign = errors.New("it is not a file of a mailbox")

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
		return place{}, fmt.Errorf("%.100q is not an agent name", parts[1])
	}
	if p.name == keepName && p.box == mailbox.Inbox && len(parts) == 4 {
		return p, nil
	}
	if err := p.check(); err != nil {
		return place{}, err
	}
	if path != p.path() {
		return place{}, errForeign
	}
	return p, nil
}

func isBox(box mailbox.Box) bool { return slices.Contains(boxes[:], box) }

// check returns an error for a file whose name does not say that it is a message file, and which one.
// Without a random part, two machines can choose the same name.
func (p place) check() error {
	if len(p.name) > longestName {
		return errors.New("its name is too long")
	}
	parsed, err := schema.ParseFileName(p.message())
	switch {
	case err != nil:
		return err
	case parsed.Rand == "":
		return errors.New("its name has no random part")
	case p.box == mailbox.Outbox && parsed.From != p.agent:
		return fmt.Errorf("its name says that %s sent it", parsed.From)
	}
	return nil
}

// shortName returns the name that a message of this long name may have in the workspace, where it is
// the only one; empty if there is none.
func shortName(name string) string {
	parsed, err := schema.ParseFileName(name)
	if err != nil || parsed.Rand == "" || parsed.Suffix != "" {
		return ""
	}
	return strings.TrimSuffix(name, "_"+parsed.Rand+schema.FileExtension) + schema.FileExtension
}

// find returns the name in the workspace of a file of the tree; empty if it is not there. A message that
// was sent before the workspace had a repository can have a short name.
func (e *exchange) find(p place) (name string, err error) {
	_, err = e.r.w.Root().Lstat(p.file())
	if at, ok := errors.AsType[*fs.PathError](err); ok && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("looking for %s: %w", filepath.Join(e.r.w.Dir(), p.file()), at.Err)
	}
	if err == nil {
		return p.name, nil
	}
	short := shortName(p.message())
	if short == "" {
		return "", nil
	}
	m, err := e.readFile(place{p.agent, p.box, short})
	if err != nil {
		return "", nil // another file has the short name, or none
	}
	if long, err := m.LongFileName(); err != nil || long != p.message() {
		return "", nil
	}
	return short + strings.TrimPrefix(p.name, p.message()), nil
}

// treeName returns the name in the tree of a file in the workspace.
func (e *exchange) treeName(p place) string {
	parsed, err := schema.ParseFileName(p.message())
	if err != nil || parsed.Rand != "" {
		return p.name
	}
	m, err := e.readFile(place{p.agent, p.box, p.message()})
	if err != nil {
		return p.name // the check of the name says why it does not travel
	}
	long, err := m.LongFileName()
	if err != nil {
		return p.name
	}
	return long + strings.TrimPrefix(p.name, p.message())
}

// readFile reads a message file of the workspace.
func (e *exchange) readFile(p place) (*schema.Message, error) {
	data, err := e.r.w.ReadRaw(mailbox.Entry{Agent: p.agent, Box: p.box, Name: p.name})
	if err != nil {
		return nil, err
	}
	return validate.Read(data)
}

// original returns the outbox copy of a message of the tree. If there is none, the error matches
// fs.ErrNotExist.
func (e *exchange) original(name string) (place, *schema.Message, error) {
	parsed, err := schema.ParseFileName(name)
	if err != nil {
		return place{}, nil, err
	}
	p := place{parsed.From, mailbox.Outbox, name}
	here, err := e.find(p)
	if err == nil && here == "" {
		err = fs.ErrNotExist
	}
	if err != nil {
		return p, nil, err
	}
	m, err := e.readFile(place{p.agent, p.box, here})
	return p, m, err
}

// pathOf returns where the tip has a new message: in an inbox, if the sender's outbox has none.
func (e *exchange) pathOf(from schema.AgentName, name string, pending []schema.AgentName) string {
	sent := place{from, mailbox.Outbox, name}.path()
	if e.touched[sent] || len(pending) == 0 {
		return sent
	}
	return place{pending[0], mailbox.Inbox, name}.path()
}
