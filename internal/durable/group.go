package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Several users can share a folder that its group may write to. Files that this package makes in such a
// folder are for the group, whatever the umask: the mode of the folder tells what the users want. Only
// files that nobody but their owner may read stay private.
const (
	groupRead  fs.FileMode = 0o040
	groupWrite fs.FileMode = 0o020
)

// shared returns the permissions of a new file in the folder that has these where nobody shares it.
func (d *Dir) shared(mode fs.FileMode) fs.FileMode {
	if mode&groupRead == 0 {
		return mode
	}
	if info, err := d.handle.Stat(); err == nil {
		mode |= info.Mode() & groupWrite
	}
	return mode
}

// share gives the group a new file of the folder. The file of another user keeps its permissions,
// which let this process open it.
func (d *Dir) share(file *os.File, mode fs.FileMode) {
	if mode = d.shared(mode); mode&groupWrite == 0 {
		return
	}
	if info, err := file.Stat(); err == nil && info.Mode()&(groupRead|groupWrite) != groupRead|groupWrite {
		_ = file.Chmod(info.Mode().Perm() | groupRead | groupWrite)
	}
}

// MakeDir makes a folder below the root. Its group may do there what the group of the folder around
// it may do there.
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

// MakeDirs is os.MkdirAll with MakeDir.
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
	}
	return errors.Join(err, root.Close())
}
