package durable

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Errors for a file that is of another kind than it must be. Opening or reading it could block the
// program forever: a pipe waits for its other end, and a device may never end.
var (
	// ErrLink is returned for a symbolic link that must not be followed.
	ErrLink = errors.New("the symbolic link is not followed")
	// ErrNotFolder is returned for opening something other than a folder as one.
	ErrNotFolder = errors.New("not a folder")
	// ErrNotRegular is returned for opening something other than a regular file as one.
	ErrNotRegular = errors.New("not a regular file")
)

// here ends the path of a folder: the system opens what precedes it only if that is a folder.
const here = string(filepath.Separator) + "."

// OpenRoot opens the folder at a path that a user named. The path may lead through symbolic links.
func OpenRoot(path string) (*os.Root, error) {
	root, err := os.OpenRoot(filepath.Clean(path) + here)
	if err != nil {
		if info, statErr := os.Stat(path); statErr == nil && !info.IsDir() {
			err = ErrNotFolder
		}
		return nil, fmt.Errorf("opening folder %s: %w", path, cause(err))
	}
	return root, nil
}

// OpenPath opens the folder at a path that a user named, as OpenRoot does.
func OpenPath(path string) (*Dir, error) {
	root, err := OpenRoot(path)
	if err != nil {
		return nil, err
	}
	return newDir(root, path)
}

// OpenDir opens a folder below the root; path is what errors call the root. No part of the name may
// be a symbolic link: it could lead out of the root, or to a folder inside it that has another
// purpose.
func OpenDir(root *os.Root, path, name string) (*Dir, error) {
	at := root
	for part := range strings.SplitSeq(filepath.ToSlash(filepath.Clean(name)), "/") {
		path = filepath.Join(path, part)
		below, err := enter(at, part)
		if at != root {
			err = errors.Join(err, at.Close())
		}
		if err != nil {
			return nil, fmt.Errorf("opening folder %s: %w", path, cause(err))
		}
		at = below
	}
	return newDir(at, path)
}

// StatFolder describes a folder below the root. It returns an error for anything else, including a
// symbolic link; path is what errors call the root.
func StatFolder(root *os.Root, path, name string) (fs.FileInfo, error) {
	found, err := findFolder(root, name)
	if err != nil {
		return nil, fmt.Errorf("folder %s: %w", filepath.Join(path, name), cause(err))
	}
	return found, nil
}

func findFolder(root *os.Root, name string) (fs.FileInfo, error) {
	found, err := root.Lstat(name)
	switch {
	case err != nil:
		return nil, err
	case found.Mode()&fs.ModeSymlink != 0:
		return nil, ErrLink
	case !found.IsDir():
		return nil, ErrNotFolder
	}
	return found, nil
}

// enter opens an entry of a folder if it is a folder itself.
func enter(folder *os.Root, name string) (*os.Root, error) {
	found, err := findFolder(folder, name)
	if err != nil {
		return nil, err
	}
	below, err := folder.OpenRoot(name + here)
	if err != nil {
		return nil, err
	}
	opened, err := below.Stat(".")
	if err == nil && !os.SameFile(found, opened) {
		err = fs.ErrNotExist // it was replaced a moment ago
	}
	if err != nil {
		return nil, errors.Join(err, below.Close())
	}
	return below, nil
}

// newDir takes over the root, and closes it after an error.
func newDir(root *os.Root, path string) (*Dir, error) {
	handle, err := root.Open(".")
	if err != nil {
		return nil, errors.Join(fmt.Errorf("opening folder %s: %w", path, cause(err)), root.Close())
	}
	return &Dir{path: path, root: root, handle: handle}, nil
}

// OpenFile opens a regular file of the folder; with os.O_CREATE, it makes a missing one. It refuses
// symbolic links.
func (d *Dir) OpenFile(name string, flag int, mode fs.FileMode) (*os.File, error) {
	file, err := d.open(name, flag, mode)
	if err == nil {
		err = checkRegular(file)
	}
	if err != nil {
		return nil, fmt.Errorf("opening %s: %w", d.Path(name), cause(d.explain(name, err)))
	}
	if flag&os.O_CREATE != 0 {
		d.share(file, mode)
	}
	return file, nil
}

// explain returns ErrLink or ErrNotRegular, which say more than the errors of the system, if the entry
// is not a regular file. It returns other errors unchanged.
func (d *Dir) explain(name string, err error) error {
	switch info, lookErr := d.root.Lstat(name); {
	case lookErr != nil, info.Mode().IsRegular(), errors.Is(err, fs.ErrExist), errors.Is(err, ErrTooLarge):
		return err
	case info.Mode()&fs.ModeSymlink != 0:
		return ErrLink
	}
	return ErrNotRegular
}

// ListFolder returns the names in a folder below the root, in no order; see OpenDir.
func ListFolder(root *os.Root, path, name string) ([]string, error) {
	dir, err := OpenDir(root, path, name)
	if err != nil {
		return nil, err
	}
	names, err := dir.Names()
	return names, errors.Join(err, dir.Close())
}

// ReadFile returns the bytes of a file below the root; see OpenDir and Dir.ReadFile.
func ReadFile(root *os.Root, path, name string, limit int64) ([]byte, error) {
	dir, err := OpenDir(root, path, filepath.Dir(name))
	if err != nil {
		return nil, err
	}
	data, err := dir.ReadFile(filepath.Base(name), limit)
	return data, errors.Join(err, dir.Close())
}

// ReplaceFile writes or replaces a file below the root; see OpenDir and Dir.Replace.
func ReplaceFile(root *os.Root, path, name string, data []byte, mode fs.FileMode) error {
	dir, err := OpenDir(root, path, filepath.Dir(name))
	if err != nil {
		return err
	}
	return errors.Join(dir.Replace(filepath.Base(name), data, mode), dir.Close())
}

// OpenRegular opens the regular file at a path that a user named, which may be a symbolic link;
// with os.O_CREATE, it makes a missing one.
func OpenRegular(path string, flag int, mode fs.FileMode) (*os.File, error) {
	file, err := os.OpenFile(path, flag|syscall.O_NONBLOCK, mode)
	if err == nil {
		err = checkRegular(file)
	} else if info, statErr := os.Stat(path); statErr == nil && !info.Mode().IsRegular() {
		err = ErrNotRegular
	}
	if err != nil {
		return nil, fmt.Errorf("opening %s: %w", path, cause(err))
	}
	return file, nil
}

// ReadPath returns the bytes of the regular file at a path that a user named, of at most limit bytes.
func ReadPath(path string, limit int64) ([]byte, error) {
	file, err := OpenRegular(path, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close() // nothing was written
	var data []byte
	info, err := file.Stat()
	if err == nil {
		data, err = readAll(nil, info.Size(), limit, file.Read)
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, cause(err))
	}
	return data, nil
}

// checkRegular closes a file that is not regular.
func checkRegular(file *os.File) error {
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = ErrNotRegular
	}
	if err != nil {
		return errors.Join(err, file.Close())
	}
	return nil
}

// SettledTime returns the time of a folder or file in nanoseconds, or 0 if it may change again without a new time: file systems
// round times, to 2 seconds or to what their clocks show, which move every few milliseconds.
func SettledTime(info fs.FileInfo) int64 {
	at, settles := info.ModTime(), 2*time.Second
	if at.Nanosecond()%int(time.Millisecond) != 0 {
		settles = 20 * time.Millisecond
	}
	if time.Since(at) < settles {
		return 0
	}
	return at.UnixNano()
}
