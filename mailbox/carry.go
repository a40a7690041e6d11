package mailbox

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/schema"
)

// copySuffix ends the hidden name of a copy that is carried to another file
// system, until it is published.
const copySuffix = ".copy"

// newCopyName returns a hidden name that nobody else has.
func newCopyName(name string) string {
	return hiddenPrefix + name + "." + rand.Text()[:10] + copySuffix
}

func isCopyName(name string) bool {
	return strings.HasPrefix(name, hiddenPrefix) && strings.HasSuffix(name, copySuffix)
}

// carry publishes a file in another folder, which may be on another file
// system. There it becomes a copy, and the original goes when the copy is
// durable: a crash between the two leaves both, rather than neither.
func (w *Workspace) carry(from *durable.Dir, name string, to *durable.Dir, newName string) error {
	if from.SameFileSystem(to) {
		return w.files.publish(from, name, to, newName)
	}
	// What others left behind is not this file's trouble: doctor reports what
	// cannot be swept.
	_, _ = w.sweepCopies(to)
	data, err := from.ReadFile(name, schema.MaxFileSize)
	if err != nil {
		return err
	}
	hidden := newCopyName(newName)
	if err := writeFile(w.files, to, hidden, data); err != nil {
		return err
	}
	switch err := w.files.publish(to, hidden, to, newName); {
	case errors.Is(err, fs.ErrNotExist):
		// It must not read as if the original had gone.
		return fmt.Errorf("%s was swept as left behind, %s stays where it was", to.Path(hidden), from.Path(name))
	case err != nil:
		_, takeErr := w.files.take(to, hidden)
		return errors.Join(err, takeErr)
	}
	if err := w.files.syncDir(to); err != nil {
		return err
	}
	took, err := w.files.take(from, name)
	if err == nil && !took {
		// Somebody else dealt with the original meanwhile.
		_, err = w.files.take(to, newName)
		err = errors.Join(fs.ErrNotExist, err)
	}
	return err
}

// LeftCopies returns the names of the unfinished copies that dead processes left in a box.
func (w *Workspace) LeftCopies(agent schema.AgentName, box Box) (left []string, err error) {
	dir, err := w.openBox(agent, box)
	if err != nil {
		return nil, ignoreMissing(err)
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	return w.leftCopies(dir)
}

// SweepCopies removes the files that LeftCopies names, and returns their paths.
func (w *Workspace) SweepCopies(agent schema.AgentName, box Box) (swept []string, err error) {
	dir, err := w.openBox(agent, box)
	if err != nil {
		return nil, ignoreMissing(err)
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	return w.sweepCopies(dir)
}

// sweepCopies removes the copies that died on their way into the folder, and
// returns their paths: those that are an hour old. Whoever is that slow and
// still lives finds its copy gone and leaves the original where it is.
func (w *Workspace) sweepCopies(dir *durable.Dir) (swept []string, err error) {
	left, err := w.leftCopies(dir)
	for _, name := range left {
		took, takeErr := w.files.take(dir, name)
		if took {
			swept = append(swept, dir.Path(name))
		}
		err = errors.Join(err, takeErr)
	}
	return swept, err
}

// leftCopies returns the names of the copies that died on their way into the
// folder.
func (w *Workspace) leftCopies(dir *durable.Dir) (left []string, err error) {
	names, err := dir.Names()
	for _, name := range names {
		if !isCopyName(name) {
			continue
		}
		old, oldErr := w.isOld(dir, name)
		if old {
			left = append(left, name)
		}
		err = errors.Join(err, oldErr)
	}
	return left, err
}
