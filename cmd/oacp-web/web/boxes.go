package web

import (
	"cmp"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// A box is a folder of a mailbox.
type box struct {
	agent schema.AgentName
	name  mailbox.Box
}

// boxes lists folders, and lists one again only if it has changed, because a folder can have 100,000 files.
type boxes struct {
	w     *mailbox.Workspace
	mutex sync.Mutex
	known map[box]*listed
}

// listed are the names in a box, the newest first.
type listed struct {
	names []string
	// settled is the durable.SettledTime of the folder.
	settled int64
}

// names returns the names of the message files in a box, the newest first. A missing box is empty. The caller must not
// change them.
func (b *boxes) names(agent schema.AgentName, name mailbox.Box) ([]string, error) {
	l, err := b.list(agent, name)
	if err != nil {
		return nil, err
	}
	return l.names, nil
}

// list returns what names returns, and the same value as before if the box has not changed.
func (b *boxes) list(agent schema.AgentName, name mailbox.Box) (*listed, error) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	key, settled := box{agent, name}, int64(0)
	if info, err := durable.StatFolder(b.w.Root(), b.w.Dir(), schema.BoxPath(agent, name)); err == nil {
		settled = durable.SettledTime(info)
	}
	if l := b.known[key]; l != nil && settled != 0 && settled == l.settled {
		return l, nil
	}
	listing, err := b.w.Names(func(a schema.AgentName, in mailbox.Box) bool { return a == agent && in == name })
	if err != nil {
		return nil, err
	}
	l := &listed{names: listing.MessageFiles(), settled: settled}
	slices.SortFunc(l.names, func(a, b string) int { return newestFirst(a, b) })
	if b.known == nil {
		b.known = make(map[box]*listed)
	}
	b.known[key] = l
	return l, nil
}

// newestFirst compares the names of two files by the times in them, which some tools write without the T and the Z.
func newestFirst(a, b string) int {
	const day = len("20060102")
	if len(a) <= day || len(b) <= day || a[:day] != b[:day] {
		return strings.Compare(b, a)
	}
	return cmp.Or(strings.Compare(strings.TrimPrefix(b[day:], "T"), strings.TrimPrefix(a[day:], "T")), strings.Compare(b, a))
}

// read reads the file of a box.
func (b *boxes) read(agent schema.AgentName, name mailbox.Box, file string) mailbox.Entry {
	e := mailbox.Entry{Agent: agent, Box: name, Name: file, Path: filepath.Join(b.w.BoxPath(agent, name), file)}
	e.Message, _, e.Err = b.w.Read(e)
	return e
}
