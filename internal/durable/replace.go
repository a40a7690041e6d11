package durable

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Replace writes a file, or replaces the existing one. Readers see the old file or the new one.
func Replace(path string, data []byte, mode os.FileMode) error {
	folder := filepath.Dir(path)
	temporary, err := os.CreateTemp(folder, "."+filepath.Base(path)+".tmp-*")
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, cause(err))
	}
	err = write(temporary, data)
	err = errors.Join(err, temporary.Chmod(mode))
	if err = errors.Join(err, Finish(temporary)); err == nil {
		err = os.Rename(temporary.Name(), path)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("writing %s: %w", path, cause(err)), os.Remove(temporary.Name()))
	}
	return SyncFolder(folder)
}

// SyncFolder makes the names in a folder durable.
func SyncFolder(path string) error {
	handle, err := os.Open(path)
	if err == nil {
		err = errors.Join(syncDir(handle), handle.Close())
	}
	if err != nil {
		return fmt.Errorf("syncing folder %s: %w", path, cause(err))
	}
	return nil
}
