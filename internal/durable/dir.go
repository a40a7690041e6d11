// Package durable puts files in place so that a reader sees a whole file or none, and a crash
// leaves the old state or the new one.
//
// It assumes of the file system what every journalling one gives: a rename is atomic, fsync of a
// file makes its bytes durable, and fsync of a folder makes the names in it durable.
package durable

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Dir is an open folder. Every operation is on names directly in it, and holds on to the folder
// itself, whatever happens to its path meanwhile.
type Dir struct {
	path   string
	root   *os.Root
	handle *os.File
}

// OpenDir opens a folder below the root. Symbolic links that lead out of the root are refused; path
// is what errors call the root.
func OpenDir(root *os.Root, path, name string) (*Dir, error) {
	full := filepath.Join(path, name)
	sub, err := root.OpenRoot(name)
	if err != nil {
		return nil, fmt.Errorf("opening folder %s: %w", full, cause(err))
	}
	handle, err := sub.Open(".")
	if err != nil {
		return nil, errors.Join(fmt.Errorf("opening folder %s: %w", full, cause(err)), sub.Close())
	}
	return &Dir{path: full, root: sub, handle: handle}, nil
}

// Path returns the path of an entry of the folder, for people to read.
func (d *Dir) Path(name string) string { return filepath.Join(d.path, name) }

// Close releases the folder. It is safe to defer: nothing is written by it.
func (d *Dir) Close() error { return errors.Join(d.handle.Close(), d.root.Close()) }

// Create makes a file that must not exist yet, and writes it whole. The file is returned open:
// Finish makes it durable. On an error nothing is left behind but what the file system refuses to
// remove.
func (d *Dir) Create(name string, data []byte) (*os.File, error) {
	file, err := d.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return nil, fmt.Errorf("creating %s: %w", d.Path(name), cause(err))
	}
	if err := write(file, data); err != nil {
		err = fmt.Errorf("writing %s: %w", d.Path(name), cause(err))
		return nil, errors.Join(err, file.Close(), d.Remove(name))
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
func Finish(file *os.File) error {
	err := file.Sync()
	if err != nil {
		err = fmt.Errorf("syncing %s: %w", file.Name(), cause(err))
	}
	return errors.Join(err, file.Close())
}

// Sync makes the names in the folder durable.
func (d *Dir) Sync() error {
	if err := syncDir(d.handle); err != nil {
		return fmt.Errorf("syncing folder %s: %w", d.path, cause(err))
	}
	return nil
}

// Remove removes a file; one that is already gone is no error.
func (d *Dir) Remove(name string) error {
	_, err := d.Take(name)
	return err
}

// Take removes a file and reports whether it was this call that removed it.
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

// Publish moves a file to another folder of the same file system under a new name. It never
// replaces: fs.ErrExist is returned when the new name is taken, and fs.ErrNotExist when the file
// has gone. Of any number of processes that publish one file, exactly one succeeds.
func (d *Dir) Publish(name string, to *Dir, newName string) error {
	err := fs.ErrInvalid
	if isEntryName(name) && isEntryName(newName) {
		err = renameNoReplace(d, name, to, newName)
	}
	if err != nil {
		return fmt.Errorf("publishing %s: %w", to.Path(newName), cause(err))
	}
	return nil
}

// isEntryName reports whether the name is one of an entry of a folder, and not a path that leads
// elsewhere. What does not go through the root asks.
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

// SetModified says when an entry of the folder was last written.
func (d *Dir) SetModified(name string, at time.Time) error {
	if err := d.root.Chtimes(name, at, at); err != nil {
		return fmt.Errorf("setting the time of %s: %w", d.Path(name), cause(err))
	}
	return nil
}

// Exists reports whether the folder has an entry of the name.
func (d *Dir) Exists(name string) (bool, error) {
	_, err := d.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// Names lists the folder's entries in no order.
func (d *Dir) Names() ([]string, error) {
	// A handle of its own: the shared one would remember where it stopped.
	handle, err := d.root.Open(".")
	if err != nil {
		return nil, fmt.Errorf("listing folder %s: %w", d.path, cause(err))
	}
	names, err := handle.Readdirnames(-1)
	if err = errors.Join(err, handle.Close()); err != nil {
		return nil, fmt.Errorf("listing folder %s: %w", d.path, cause(err))
	}
	return names, nil
}

// ErrNotRegular is returned for reading what is no regular file.
var ErrNotRegular = errors.New("not a regular file")

// ErrTooLarge is returned for reading a file over the given limit.
var ErrTooLarge = errors.New("the file is too large")

// ReadFile returns the bytes of a regular file of at most limit bytes. It refuses pipes and devices
// without waiting for them.
func (d *Dir) ReadFile(name string, limit int64) ([]byte, error) {
	data, _, err := d.AppendFile(nil, name, limit)
	return data, err
}

// AppendFile is ReadFile, but appends the bytes to the buffer, and also returns when the file was last
// written.
func (d *Dir) AppendFile(buffer []byte, name string, limit int64) (data []byte, modified time.Time, err error) {
	data, modified, err = d.read(buffer, name, limit)
	if err != nil {
		err = fmt.Errorf("reading %s: %w", d.Path(name), cause(err))
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

// SameFileSystem reports whether a file can be published from one folder to the other.
func (d *Dir) SameFileSystem(other *Dir) bool { return sameDevice(d.handle, other.handle) }

// Writable returns an error that names the folder when this process may not create entries in it.
func (d *Dir) Writable() error {
	if err := writable(d.handle); err != nil {
		return fmt.Errorf("folder %s: %w", d.path, cause(err))
	}
	return nil
}

// cause strips the operation and path that the os package adds: ours are the full path and a
// plainer operation.
func cause(err error) error {
	var pathError *fs.PathError
	if errors.As(err, &pathError) {
		return pathError.Err
	}
	var linkError *os.LinkError
	if errors.As(err, &linkError) {
		return linkError.Err
	}
	return err
}
