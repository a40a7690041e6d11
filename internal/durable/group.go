package durable

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Several users can share a folder if its group may write to it. In such a folder, the group may also
// write to new files, whatever the umask, unless a file is for its owner only.
const (
	groupRead  fs.FileMode = 0o040
	groupWrite fs.FileMode = 0o020
)

// shared returns the permissions of a new file: the mode, and those that a shared folder adds.
func (d *Dir) shared(mode fs.FileMode) fs.FileMode {
	if mode&groupRead == 0 {
		return mode
	}
	if info, err := d.handle.Stat(); err == nil {
		mode |= info.Mode() & groupWrite
	}
	return mode
}

// share lets the group read and write a new file of a shared folder. It changes no file of another
// user, which this process could open as it is.
func (d *Dir) share(file *os.File, mode fs.FileMode) {
	if mode = d.shared(mode); mode&groupWrite == 0 {
		return
	}
	if info, err := file.Stat(); err == nil && info.Mode()&(groupRead|groupWrite) != groupRead|groupWrite {
		_ = file.Chmod(info.Mode().Perm() | groupRead | groupWrite)
	}
}

// MakeDir makes a folder below the root. If the folder around it is shared, the new one gets its
// permissions for the group.
func MakeDir(root *os.Root, name string) error {
	if err := root.Mkdir(name, 0o755); err != nil {
		return err
	}
	around, err := root.Lstat(filepath.Dir(name))
	if err != nil || around.Mode()&groupWrite == 0 {
		return err
	}
	made, err := root.Lstat(name)
	if err != nil || made.Mode()&groupWrite != 0 {
		return err
	}
	return root.Chmod(name, made.Mode()&fs.ModePerm|around.Mode()&(0o070|fs.ModeSetgid))
}

// MakeDirs is os.MkdirAll with MakeDir, and makes the names of the folders durable.
func MakeDirs(path string) error {
	_, err := os.Stat(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := MakeDirs(filepath.Dir(path)); err != nil {
		return err
	}
	root, err := OpenRoot(filepath.Dir(path))
	if err != nil {
		return err
	}
	err = MakeDir(root, filepath.Base(path))
	if errors.Is(err, fs.ErrExist) {
		err = nil
	} else if err != nil {
		err = fmt.Errorf("making folder %s: %w", path, cause(err))
	}
	return errors.Join(err, root.Close(), SyncFolder(filepath.Dir(path)))
}
