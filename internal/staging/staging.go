// Package staging keeps the copies of a message that are not in their boxes yet: where such a copy
// is, what it is called, and which process made it.
package staging

import (
	"errors"
	"io/fs"
	"os"
	"strings"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/schema"
)

// Name identifies a staged copy: a message's copy for one box. No part of it can contain an @.
type Name struct {
	ID    schema.ID
	Agent schema.AgentName
	// Box is the name of a folder of the agent's mailbox.
	Box string
	// Origin is that of the process that staged the copy; see durable.Dir.Origin. Other programs and
	// older versions leave it out.
	Origin string
	// Beside reports whether the copy is staged in its box, because the box is on another mount. Its mark is
	// then in the staging folder.
	Beside bool
}

const (
	// markSuffix ends the name of a mark.
	markSuffix = "@beside"
	// HiddenPrefix begins the name of a copy that is staged in its box. The name does not end in .yaml,
	// because the reference implementation also lists hidden files.
	HiddenPrefix = ".oacp-"
)

// originLength is the length of an Origin.
const originLength = 16

// ParseName parses the name of an entry of the staging folder: a copy or a mark. It does not check
// the box.
func ParseName(entry string) (name Name, ok bool) {
	text, beside := strings.CutSuffix(entry, markSuffix)
	parts := append(strings.Split(text, "@"), "")
	if len(parts) < 4 || len(parts[3]) != 0 && len(parts[3]) != originLength {
		return Name{}, false
	}
	name = Name{schema.ID(parts[0]), schema.AgentName(parts[1]), parts[2], parts[3], beside}
	_, err := schema.ParseID(name.ID)
	return name, err == nil && name.Agent.Valid() && name.Entry() == entry
}

// Entry returns the name of the copy, or of its mark, in the staging folder.
func (n Name) Entry() string {
	if n.Beside {
		return n.text() + markSuffix
	}
	return n.text()
}

func (n Name) text() string {
	text := string(n.ID) + "@" + string(n.Agent) + "@" + n.Box
	if n.Origin != "" {
		text += "@" + n.Origin
	}
	return text
}

// Copy is a copy of a message that is staged until it is published in its box.
type Copy struct {
	Name Name
	Box  *durable.Dir
	// Dir is where the copy is staged, and File is its name there.
	Dir  *durable.Dir
	File string
	// NotExclusive reports whether Publish found no exclusive rename: other machines may share the folders.
	NotExclusive bool
	// marks is the folder of the mark, or nil if there is none.
	marks *durable.Dir
	// open is the file, and claim is the file in the staging folder, from Create to Close. The claim
	// shows others that this process is alive.
	open, claim *os.File
}

// New returns the copy of that name for a box. The folder is the staging folder.
func New(name Name, box, folder *durable.Dir) *Copy {
	c := &Copy{Name: name, Box: box, Dir: folder, File: name.text()}
	if name.Beside {
		c.GoBeside(folder)
	}
	return c
}

// GoBeside changes where the copy will be staged: in its box. The folder is the staging folder;
// without it, the copy gets no mark.
func (c *Copy) GoBeside(folder *durable.Dir) {
	c.Name.Beside = true
	c.Dir, c.File, c.marks = c.Box, HiddenPrefix+c.Name.text(), folder
}

// Create writes the copy, after its mark. Until Close, others see that this process is alive.
func (c *Copy) Create(files durable.FileSystem, data []byte) (err error) {
	if c.marks != nil {
		if c.claim, err = durable.WriteOpen(files, c.marks, c.Name.Entry(), []byte("staged in its box\n")); err != nil {
			return err
		}
	}
	c.open, err = files.Create(c.Dir, c.File, data)
	if err != nil {
		return errors.Join(err, c.DropMark(files))
	}
	if c.marks == nil {
		c.claim = c.open
	}
	return nil
}

// CreateBeside creates the copy in its box, durably, in place of one that a dead process left there.
// Without a staging folder, because someone removed it, the copy gets no mark.
func (c *Copy) CreateBeside(files durable.FileSystem, data []byte) error {
	c.GoBeside(c.Dir)
	_, err := c.Take(files)
	if err == nil {
		err = c.Create(files, data)
	}
	if errors.Is(err, fs.ErrNotExist) {
		c.GoBeside(nil)
		err = c.Create(files, data)
	}
	if err != nil {
		return err
	}
	if err := errors.Join(c.Sync(files), files.SyncDir(c.Box)); err != nil {
		_, takeErr := c.Take(files)
		return errors.Join(err, takeErr)
	}
	return nil
}

// Sync makes the bytes of a created copy durable, and not its name in Dir.
func (c *Copy) Sync(files durable.FileSystem) error { return files.SyncFile(c.open) }

// Claimed reports whether this process created the copy and has not closed it.
func (c *Copy) Claimed() bool { return c.claim != nil }

// Close ends the claim. Nothing is unwritten by then, so errors do not matter.
func (c *Copy) Close() {
	for _, file := range []*os.File{c.open, c.claim} {
		if file != nil {
			_ = file.Close()
		}
	}
	c.open, c.claim = nil, nil
}

// Publish moves the copy to its box under a file name; see durable.Dir.Publish and PublishUnique.
func (c *Copy) Publish(files durable.FileSystem, name string, unique bool) error {
	err := files.Publish(c.Dir, c.File, c.Box, name, false)
	if c.NotExclusive = errors.Is(err, durable.ErrNotExclusive); c.NotExclusive && unique {
		err = files.Publish(c.Dir, c.File, c.Box, name, true)
	}
	if err == nil {
		// The copy is published even if its mark cannot be removed; a recovery removes it later.
		_ = c.DropMark(files)
	}
	return err
}

// Take removes the copy and its mark, and reports whether this call removed the copy.
func (c *Copy) Take(files durable.FileSystem) (bool, error) {
	c.Close()
	took, err := files.Take(c.Dir, c.File)
	return took, errors.Join(err, c.DropMark(files))
}

// DropMark removes the mark.
func (c *Copy) DropMark(files durable.FileSystem) error {
	if c.marks == nil {
		return nil
	}
	_, err := files.Take(c.marks, c.Name.Entry())
	return err
}
