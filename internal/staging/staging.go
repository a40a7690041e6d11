// Package staging keeps the copies of a message that are not in their boxes yet: what such a copy is
// called, and which process made it.
package staging

import (
	"errors"
	"os"
	"strings"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/schema"
)

// Name identifies a staged copy: a message's copy for one box. No part of it can contain an @.
type Name struct {
	ID    schema.ID
	Agent schema.AgentName
	Box   schema.Box
	// Origin is that of the process that staged the copy; see durable.Dir.Origin. Other programs and
	// older versions leave it out.
	Origin string
}

// originLength is the length of an Origin.
const originLength = 16

// ParseName parses the name of an entry of the staging folder.
func ParseName(entry string) (name Name, ok bool) {
	parts := append(strings.Split(entry, "@"), "")
	if len(parts) < 4 || len(parts[3]) != 0 && len(parts[3]) != originLength {
		return Name{}, false
	}
	name = Name{schema.ID(parts[0]), schema.AgentName(parts[1]), schema.Box(parts[2]), parts[3]}
	_, err := schema.ParseID(name.ID)
	isKnown := name.Box == schema.Outbox || name.Box == schema.Inbox
	return name, err == nil && name.Agent.Valid() && isKnown && name.Entry() == entry
}

// Entry returns the name of the copy in the staging folder.
func (n Name) Entry() string {
	entry := string(n.ID) + "@" + string(n.Agent) + "@" + string(n.Box)
	if n.Origin != "" {
		entry += "@" + n.Origin
	}
	return entry
}

// Copy is a copy of a message that is staged until it is published in its box.
type Copy struct {
	Name Name
	Box  *durable.Dir
	// NotExclusive reports whether Publish found no exclusive rename: other machines may share the folders.
	NotExclusive bool
	folder       *durable.Dir
	// file is open from Create to Close. Its claim shows others that this process is alive.
	file *os.File
}

// New returns the copy of that name for a box. The folder is the staging folder.
func New(name Name, box, folder *durable.Dir) *Copy {
	return &Copy{Name: name, Box: box, folder: folder}
}

// Create writes the copy. Until Close, others see that this process is alive.
func (c *Copy) Create(files durable.FileSystem, data []byte) (err error) {
	c.file, err = files.Create(c.folder, c.Name.Entry(), data)
	return err
}

// Path returns the path of the copy, for messages to people.
func (c *Copy) Path() string { return c.folder.Path(c.Name.Entry()) }

// Sync makes the bytes of a created copy durable, and not its name.
func (c *Copy) Sync(files durable.FileSystem) error { return files.SyncFile(c.file) }

// Close ends the claim. Nothing is unwritten by then, so errors do not matter.
func (c *Copy) Close() {
	if c.file != nil {
		_ = c.file.Close()
	}
	c.file = nil
}

// Publish moves the copy to its box under a file name; see durable.FileSystem.
func (c *Copy) Publish(files durable.FileSystem, name string, unique bool) error {
	err := files.Publish(c.folder, c.Name.Entry(), c.Box, name, false)
	if c.NotExclusive = errors.Is(err, durable.ErrNotExclusive); c.NotExclusive && unique {
		err = files.Publish(c.folder, c.Name.Entry(), c.Box, name, true)
	}
	return err
}

// Take removes the copy, and reports whether this call removed it.
func (c *Copy) Take(files durable.FileSystem) (bool, error) {
	c.Close()
	return files.Take(c.folder, c.Name.Entry())
}
