package durable

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
)

// Replace writes a file of the folder, or replaces the existing one. Readers see the old file or the
// new one.
func (d *Dir) Replace(name string, data []byte, mode fs.FileMode) error {
	return d.replace(replacing{SyncFile, (*os.Root).Rename, (*Dir).Sync}, name, data, mode)
}

// replacing is what makes a replacement durable. Tests put faults behind it.
type replacing struct {
	syncFile func(*os.File) error
	rename   func(folder *os.Root, name, newName string) error
	syncDir  func(*Dir) error
}

func (d *Dir) replace(do replacing, name string, data []byte, mode fs.FileMode) error {
	temporary, err := d.createTemporary(name)
	if err != nil {
		return fmt.Errorf("writing %s: %w", d.Path(name), cause(err))
	}
	hidden := filepath.Base(temporary.Name())
	err = write(temporary, data)
	err = errors.Join(err, temporary.Chmod(mode))
	if err = errors.Join(err, do.syncFile(temporary), temporary.Close()); err == nil {
		err = do.rename(d.root, hidden, name)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("writing %s: %w", d.Path(name), cause(err)), d.Remove(hidden))
	}
	return do.syncDir(d)
}

// createTemporary makes a hidden file with a name of its own.
func (d *Dir) createTemporary(name string) (*os.File, error) {
	for {
		hidden := "." + name + ".tmp-" + strconv.FormatUint(rand.Uint64(), 36)
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
