package powercut

import "fmt"

// Kind is what an operation does.
type Kind string

// The kinds of operations. Add gives a node a name: a new file, folder or link, or a further name of an old one. Move takes
// the name From of a node and gives it the name To, and Remove takes it. What had the new name loses it. Write replaces the
// bytes of a file. Sync makes a node durable: the bytes of a file, or the names in a folder.
const (
	Add    Kind = "add"
	Move   Kind = "move"
	Remove Kind = "remove"
	Write  Kind = "write"
	Sync   Kind = "sync"
)

// Entry is a name in a folder.
type Entry struct {
	Folder Node
	Name   string
}

// Operation is a change of a disk, or a sync.
type Operation struct {
	Kind Kind
	Node Node
	// From is the entry that Move and Remove take, and To the one that Add and Move make.
	From, To Entry
	// IsFolder and IsLink say what Add makes if the node is new.
	IsFolder, IsLink bool
	// Data are the bytes of the file after Write, or of a new link.
	Data []byte
	// Path is that of the node, or of the entry that is taken, below the recorded folder: for people.
	Path string
}

func (o Operation) String() string {
	switch o.Kind {
	case Write:
		return fmt.Sprintf("%s %s (%d bytes)", o.Kind, o.Path, len(o.Data))
	case Move:
		return fmt.Sprintf("%s %s to %s", o.Kind, o.Path, o.To.Name)
	}
	return fmt.Sprintf("%s %s", o.Kind, o.Path)
}

// take does the half of an operation that takes a name, and give that which makes one. They are two because a disk may
// remember one half of a Move between two folders.
func (d *Disk) take(o Operation) {
	if entries := d.folders[o.From.Folder]; (o.Kind == Move || o.Kind == Remove) && entries[o.From.Name] == o.Node {
		delete(entries, o.From.Name)
	}
}

func (d *Disk) give(o Operation) {
	if o.Kind != Add && o.Kind != Move {
		return
	}
	if o.Kind == Add {
		d.make(o)
	}
	d.folders[o.To.Folder][o.To.Name] = o.Node
}

// make makes the node of an Add, without a name, if it is new.
func (d *Disk) make(o Operation) {
	_, isFile := d.files[o.Node]
	_, isFolder := d.folders[o.Node]
	switch {
	case isFile || isFolder:
	case o.IsFolder:
		d.folders[o.Node] = map[string]Node{}
	default:
		d.files[o.Node], d.links[o.Node] = o.Data, o.IsLink
	}
}

// apply does the operation, as a disk does that remembers everything.
func (d *Disk) apply(o Operation) {
	d.take(o)
	d.give(o)
	if o.Kind == Write {
		d.files[o.Node] = o.Data
	}
}
