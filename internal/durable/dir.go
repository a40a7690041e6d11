// Package durable writes files so that a reader sees a complete file or none, and a crash leaves
// the old state or the new one.
//
// It relies on what every journaling file system guarantees: a rename is atomic, fsync of a file
// makes its bytes durable, and fsync of a folder makes the names in it durable.
package durable

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Dir is an open folder. All operations are on its own entries, and they stay with the folder if
// its path changes.
type Dir struct {
	path   string
	root   *os.Root
	handle *os.File
}

// Path returns the path of an entry of the folder, for messages to people.
func (d *Dir) Path(name string) string { return filepath.Join(d.path, name) }

// Close releases the folder. It does not write anything.
func (d *Dir) Close() error { return errors.Join(d.handle.Close(), d.root.Close()) }

// Create writes a new file and returns it open; Finish makes it durable. Create claims the file
// before it writes the first byte. If writing fails, Create removes the file.
//
// Create sets the modification time to just before the time that Changed returns. Any later write
// sets both to the same time, so a reader can tell that the file is complete.
func (d *Dir) Create(name string, data []byte) (*os.File, error) {
	file, err := d.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return nil, fmt.Errorf("creating %s: %w", d.Path(name), cause(err))
	}
	claim(file)
	d.share(file, 0o644)
	if err := write(file, data); err != nil {
		err = fmt.Errorf("writing %s: %w", d.Path(name), cause(err))
		return nil, errors.Join(err, file.Close(), d.Remove(name))
	}
	if info, err := file.Stat(); err == nil {
		// If this fails, readers wait a moment before they take the file for complete. Some FUSE programs
		// set both times or neither.
		modified := info.ModTime().Add(-1)
		_ = d.root.Chtimes(name, modified, modified)
	}
	return file, nil
}

func write(file *os.File, data []byte) error {
	if _, err := file.Write(data); err != nil {
		return err
	}
	info, err := file.Stat()
	if err == nil && info.Size() != int64(len(data)) {
		err = fmt.Errorf("%d bytes of %d were written: %w", info.Size(), len(data), io.ErrShortWrite)
	}
	return err
}

// Finish makes a file that Create returned durable, and closes it.
func Finish(file *os.File) error { return errors.Join(syncFile(file), file.Close()) }

func syncFile(file *os.File) error {
	if err := file.Sync(); err != nil {
		return fmt.Errorf("syncing %s: %w", filepath.Clean(file.Name()), cause(err))
	}
	return nil
}

// Sync makes the names in the folder durable.
func (d *Dir) Sync() error {
	if err := syncDir(d.handle); err != nil {
		return fmt.Errorf("syncing folder %s: %w", d.path, cause(err))
	}
	return nil
}

// Remove removes a file. It succeeds if there is no such file.
func (d *Dir) Remove(name string) error {
	_, err := d.Take(name)
	return err
}

// Take removes a file and reports whether this call removed it.
func (d *Dir) Take(name string) (bool, error) {
	switch err := d.root.Remove(name); {
	case err == nil:
		return true, nil
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	default:
		return false, fmt.Errorf("removing %s: %w", d.Path(name), cause(err))
	}
}

// ErrNotExclusive is returned by Publish on a file system without a rename that refuses to replace,
// such as FUSE and NFS.
var ErrNotExclusive = errors.New("the file system cannot rename a file without replacing another")

// hasExclusiveRename is false in tests of what happens without one, on any file system.
var hasExclusiveRename = true

// Publish moves a file or folder to another folder of the same file system, under a new name. It replaces
// nothing: it returns fs.ErrExist if the new name is taken, and fs.ErrNotExist if the file does not
// exist. Of any number of processes that publish one file, exactly one succeeds.
//
// A new name is unique if nobody else chooses it at this moment, such as one with a long random part. Without
// an exclusive rename, Publish checks that a unique name is free, and renames; for other names it returns
// ErrNotExclusive. A lock could not make this one step: mounts of one folder on several machines, and often
// on one, do not share their locks.
func (d *Dir) Publish(name string, to *Dir, newName string, unique bool) error {
	err := fs.ErrInvalid
	if isEntryName(name) && isEntryName(newName) {
		err = ErrNotExclusive
		if hasExclusiveRename {
			err = renameNoReplace(d, name, to, newName)
		}
		if unique && errors.Is(err, ErrNotExclusive) {
			err = renameIfFree(d, name, to, newName)
		}
	}
	if errors.Is(err, fs.ErrPermission) { // either folder may refuse
		return fmt.Errorf("moving %s to %s: %w", d.Path(name), to.Path(newName), cause(err))
	}
	if err != nil {
		return fmt.Errorf("publishing %s: %w", to.Path(newName), cause(err))
	}
	return nil
}

// isEntryName reports whether the name is that of an entry of a folder, not a path. Operations that
// do not go through the root check their names with it.
func isEntryName(name string) bool {
	return name != "" && name != "." && name != ".." && !strings.ContainsAny(name, `/\`)
}

// Lstat describes an entry of the folder.
func (d *Dir) Lstat(name string) (fs.FileInfo, error) {
	info, err := d.root.Lstat(name)
	if err != nil {
		return nil, fmt.Errorf("looking at %s: %w", d.Path(name), cause(err))
	}
	return info, nil
}

// Exists reports whether the folder has the entry.
func (d *Dir) Exists(name string) (bool, error) {
	_, err := d.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// Names returns the names of the entries, in no order.
func (d *Dir) Names() (names []string, err error) {
	for name, err := range d.All() {
		if err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	return names, nil
}

// All yields the names of the entries, in no order, and an error if it cannot list all. It keeps none of them: a mailbox may have
// hundreds of thousands.
func (d *Dir) All() iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		// The shared handle would remember where the last listing ended.
		handle, err := d.root.Open(".")
		if err == nil {
			defer func() { _ = handle.Close() }() // nothing was written
		}
		for err == nil {
			var names []string
			names, err = handle.Readdirnames(1024)
			for _, name := range names {
				if !yield(name, nil) {
					return
				}
			}
		}
		if err != io.EOF {
			yield("", fmt.Errorf("listing folder %s: %w", d.path, cause(err)))
		}
	}
}

// ErrTooLarge is returned for reading a file that exceeds the limit.
var ErrTooLarge = errors.New("the file is too large")

// ReadFile returns the bytes of a regular file of at most limit bytes. It refuses pipes and devices
// without waiting for them. It follows a symbolic link to a file of the same folder.
func (d *Dir) ReadFile(name string, limit int64) ([]byte, error) {
	data, _, err := d.AppendFile(nil, name, limit)
	return data, err
}

// AppendFile is ReadFile, but appends the bytes to the buffer and also returns the modification
// time of the file.
func (d *Dir) AppendFile(buffer []byte, name string, limit int64) (data []byte, modified time.Time, err error) {
	data, modified, err = d.read(buffer, name, limit)
	if err != nil {
		err = fmt.Errorf("reading %s: %w", d.Path(name), cause(d.explain(name, err)))
	}
	return data, modified, err
}

// readAll appends a file of the given size to the buffer; read returns io.EOF at the end. If the
// file grows meanwhile, readAll reads up to the limit.
func readAll(buffer []byte, size, limit int64, read func([]byte) (int, error)) ([]byte, error) {
	if size > limit {
		return buffer, fmt.Errorf("%w: %d bytes of at most %d", ErrTooLarge, size, limit)
	}
	data := slices.Grow(buffer, int(size)+1)
	for {
		n, err := read(data[len(data):cap(data)])
		data = data[:len(data)+n]
		switch {
		case err == io.EOF:
			return data, nil
		case err != nil:
			return buffer, err
		case int64(len(data)-len(buffer)) > limit:
			return buffer, fmt.Errorf("%w: it grew past %d bytes while it was read", ErrTooLarge, limit)
		case len(data) == cap(data):
			data = slices.Grow(data, len(data)+1)
		}
	}
}

// Writable returns an error that names the folder if this process may not create entries in it.
func (d *Dir) Writable() error {
	if err := writable(d.handle); err != nil {
		return fmt.Errorf("folder %s: %w", d.path, cause(err))
	}
	return nil
}

// cause strips the operation and path that the os package adds; the callers add the full path.
func cause(err error) error {
	if pathError, ok := errors.AsType[*fs.PathError](err); ok {
		return pathError.Err
	}
	if linkError, ok := errors.AsType[*os.LinkError](err); ok {
		return linkError.Err
	}
	return err
}
