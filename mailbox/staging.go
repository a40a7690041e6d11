package mailbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/gofrs/flock"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/schema"
)

// stagedName identifies a staged copy: a message's copy for one box. No part of it can contain an
// @.
type stagedName struct {
	id    schema.ID
	agent schema.AgentName
	box   Box
}

func (n stagedName) String() string {
	return string(n.id) + "@" + string(n.agent) + "@" + string(n.box)
}

const (
	// markSuffix ends the name of the mark in state/outgoing of a copy that is staged in its box.
	markSuffix = "@beside"
	// hiddenPrefix begins the name of a copy that is staged in its box. The name does not end in
	// .yaml, because the reference implementation lists hidden files too.
	hiddenPrefix = ".oacp-"
)

// parseStagedName parses the name of an entry of state/outgoing: a staged copy or a mark.
func parseStagedName(name string) (parsed stagedName, ok bool) {
	parts := strings.Split(strings.TrimSuffix(name, markSuffix), "@")
	if len(parts) != 3 {
		return stagedName{}, false
	}
	parsed = stagedName{schema.ID(parts[0]), schema.AgentName(parts[1]), Box(parts[2])}
	_, err := schema.ParseID(parsed.id)
	return parsed, err == nil && parsed.agent.Valid() && slices.Contains(boxes, parsed.box)
}

// stagedCopy is a copy of a message that is staged until it is published in its box. If the box is
// on another mount than state/outgoing, the copy is staged in the box itself, and has a mark.
type stagedCopy struct {
	name stagedName
	box  *durable.Dir
	// dir is where the copy is staged, and entry is its name there.
	dir   *durable.Dir
	entry string
	// marks is the folder of the mark, or nil if there is none.
	marks *durable.Dir
	mark  string
	// file is open from create to finish.
	file *os.File
	// err is the error of syncing the copy.
	err error
}

// create writes the copy. The caller finishes the file.
func (c *stagedCopy) create(files fileSystem, data []byte) (err error) {
	if c.marks != nil {
		if err := writeFile(files, c.marks, c.mark, nil); err != nil {
			return err
		}
	}
	c.file, err = files.create(c.dir, c.entry, data)
	if err != nil && c.marks != nil {
		_, takeErr := files.take(c.marks, c.mark)
		err = errors.Join(err, takeErr)
	}
	return err
}

// publish moves the copy to its box under a file name; see durable.Dir.Publish.
func (c *stagedCopy) publish(files fileSystem, name string) error {
	err := files.publish(c.dir, c.entry, c.box, name)
	if err == nil && c.marks != nil {
		// The copy is published even if its mark cannot be removed; Recover removes it later.
		_, _ = files.take(c.marks, c.mark)
	}
	return err
}

// take removes the copy and its mark, and reports whether this call removed the copy.
func (c *stagedCopy) take(files fileSystem) (bool, error) {
	took, err := files.take(c.dir, c.entry)
	if c.marks != nil {
		_, markErr := files.take(c.marks, c.mark)
		err = errors.Join(err, markErr)
	}
	return took, err
}

// lockRetry is the pause between attempts to take the lock, which a delivery holds for about a
// millisecond.
const lockRetry = 2 * time.Millisecond

// batch holds the folders that a delivery or recovery needs open, and the workspace's lock if it is
// needed.
type batch struct {
	w       *Workspace
	options *SendOptions
	staging *durable.Dir
	boxes   map[string]*durable.Dir
	lock    *flock.Flock
	// claimed are the short names, and started the ids, that this round uses.
	claimed map[string]bool
	started map[schema.ID]bool
}

func (w *Workspace) openBatch(options *SendOptions) (*batch, error) {
	staging, err := durable.OpenDir(w.root, w.dir, outgoingName)
	if errors.Is(err, fs.ErrNotExist) {
		if err := w.makeState(); err != nil {
			return nil, err
		}
		staging, err = durable.OpenDir(w.root, w.dir, outgoingName)
	}
	if err != nil {
		return nil, err
	}
	return &batch{w: w, options: options, staging: staging, boxes: make(map[string]*durable.Dir)}, nil
}

func (b *batch) close() error {
	err := b.staging.Close()
	for _, dir := range b.boxes {
		err = errors.Join(err, dir.Close())
	}
	if b.lock != nil {
		err = errors.Join(err, b.lock.Unlock())
	}
	return err
}

// takeLock takes the workspace's lock until the batch is closed, if try gets it.
func (b *batch) takeLock(try func(*flock.Flock) (bool, error)) (bool, error) {
	lock := durable.NewLock(b.staging.Path("../deliver.lock"))
	locked, err := try(lock)
	if err != nil {
		return false, fmt.Errorf("locking %s: %w", lock.Path(), err)
	}
	if locked {
		b.lock = lock
	}
	return locked, nil
}

// newCopy opens the box of a copy, and checks that it can be written to, so that most boxes that
// refuse a copy do so before anything is staged. With such an error, newCopy also returns the copy.
func (b *batch) newCopy(name stagedName) (*stagedCopy, error) {
	key := BoxName(name.agent, name.box)
	box, ok := b.boxes[key]
	if !ok {
		var err error
		if box, err = b.w.makeBox(name.agent, name.box); err != nil {
			return nil, err
		}
		b.boxes[key] = box
	}
	c := &stagedCopy{name: name, box: box, dir: b.staging, entry: name.String()}
	if !b.staging.SameFileSystem(box) {
		c.dir, c.entry = box, hiddenPrefix+name.String()
		c.marks, c.mark = b.staging, name.String()+markSuffix
	}
	return c, box.Writable()
}

// fileSystem is what delivery does to files, and nothing else. Tests put faults behind it.
type fileSystem interface {
	// create writes a new file whole; finish makes it durable.
	create(dir *durable.Dir, name string, data []byte) (*os.File, error)
	finish(file *os.File) error
	syncDir(dir *durable.Dir) error
	// publish consumes a name; see durable.Dir.Publish.
	publish(from *durable.Dir, name string, to *durable.Dir, newName string) error
	// take removes a file and reports whether this call removed it.
	take(dir *durable.Dir, name string) (bool, error)
}

// disk is the file system itself.
type disk struct{ sync bool }

func (d disk) create(dir *durable.Dir, name string, data []byte) (*os.File, error) {
	file, err := dir.Create(name, data)
	if err == nil && d.sync {
		durable.StartWriteback(file)
	}
	return file, err
}

func (d disk) finish(file *os.File) error {
	if !d.sync {
		return file.Close()
	}
	return durable.Finish(file)
}

func (d disk) syncDir(dir *durable.Dir) error {
	if !d.sync {
		return nil
	}
	return dir.Sync()
}

func (d disk) publish(from *durable.Dir, name string, to *durable.Dir, newName string) error {
	return from.Publish(name, to, newName)
}

func (d disk) take(dir *durable.Dir, name string) (bool, error) { return dir.Take(name) }

// writeFile writes a new file and makes it and its name durable. A file that it cannot make durable
// is taken back.
func writeFile(files fileSystem, dir *durable.Dir, name string, data []byte) error {
	file, err := files.create(dir, name, data)
	if err != nil {
		return err
	}
	if err = files.finish(file); err == nil {
		err = files.syncDir(dir)
	}
	if err != nil {
		_, takeErr := files.take(dir, name)
		err = errors.Join(err, takeErr)
	}
	return err
}
