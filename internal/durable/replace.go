package durable

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Replace writes a file of the folder, or replaces the existing one. Readers see the old file or the
// new one.
func (d *Dir) Replace(name string, data []byte, mode fs.FileMode) error {
	return d.replace(replacing{syncFile, (*Replacement).Publish, (*Dir).Sync}, name, data, mode)
}

// Add is Replace for a new file. The name must be unique; see Publish. If it is taken, the error matches fs.ErrExist.
func (d *Dir) Add(name string, data []byte, mode fs.FileMode) error {
	add := func(r *Replacement) error { return d.Publish(r.hidden, d, name, true) }
	return d.replace(replacing{syncFile, add, (*Dir).Sync}, name, data, mode)
}

// replacing has the steps that make a replacement durable. Tests inject faults through it.
type replacing struct {
	syncFile func(*os.File) error
	publish  func(*Replacement) error
	syncDir  func(*Dir) error
}

func (d *Dir) replace(do replacing, name string, data []byte, mode fs.FileMode) error {
	r, err := d.prepare(do.syncFile, name, data, mode)
	if err != nil {
		return err
	}
	if err := do.publish(r); err != nil {
		return errors.Join(fmt.Errorf("writing %s: %w", d.Path(name), err), r.Discard())
	}
	return do.syncDir(d)
}

// A Replacement is a file that is written, and replaces another one when it is published.
type Replacement struct {
	dir          *Dir
	hidden, name string
}

// Prepare writes the replacement of a file of the folder, so that Publish needs no disk space. It does
// not sync: after a crash of the machine, the file may be damaged. The caller calls Publish or Discard.
func (d *Dir) Prepare(name string, data []byte, mode fs.FileMode) (*Replacement, error) {
	return d.prepare(func(*os.File) error { return nil }, name, data, mode)
}

func (d *Dir) prepare(syncFile func(*os.File) error, name string, data []byte, mode fs.FileMode) (*Replacement, error) {
	temporary, err := d.createTemporary(name)
	if err != nil {
		return nil, fmt.Errorf("writing %s: %w", d.Path(name), cause(err))
	}
	r := &Replacement{d, filepath.Base(temporary.Name()), name}
	err = errors.Join(write(temporary, data), temporary.Chmod(d.shared(mode)), syncFile(temporary), temporary.Close())
	if err != nil {
		return nil, errors.Join(fmt.Errorf("writing %s: %w", d.Path(name), cause(err)), r.Discard())
	}
	return r, nil
}

// Publish replaces the file, or creates it.
func (r *Replacement) Publish() error { return r.dir.SetAside(r.hidden, r.name) }

// Discard removes the replacement.
func (r *Replacement) Discard() error { return r.dir.Remove(r.hidden) }

// temporaryMark is in the names of temporary files, which are hidden and end in a random number.
const temporaryMark = ".tmp-"

// IsTemporary reports whether a name is that of a file which is being written. If its process was killed, the file stays.
func IsTemporary(name string) bool {
	return strings.HasPrefix(name, ".") && strings.Contains(name, temporaryMark)
}

// createTemporary creates a hidden file with a random name.
func (d *Dir) createTemporary(name string) (*os.File, error) {
	for {
		hidden := "." + name + temporaryMark + strconv.FormatUint(rand.Uint64(), 36)
		file, err := d.root.OpenFile(hidden, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		if !errors.Is(err, fs.ErrExist) {
			return file, err
		}
	}
}

// SetAside renames a file of the folder, and replaces what has the new name.
func (d *Dir) SetAside(name, newName string) error {
	if err := d.root.Rename(name, newName); err != nil {
		return fmt.Errorf("renaming %s: %w", d.Path(name), cause(err))
	}
	return nil
}

// Replace is Dir.Replace for the file at a path that a user named.
func Replace(path string, data []byte, mode fs.FileMode) error {
	dir, err := OpenPath(filepath.Dir(path))
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return errors.Join(dir.Replace(filepath.Base(path), data, mode), dir.Close())
}

// SyncFolder makes the names in a folder durable.
func SyncFolder(path string) error {
	dir, err := OpenPath(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
