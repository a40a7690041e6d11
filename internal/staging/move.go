package staging

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/schema"
)

// Move moves a file to the box of the copy, under a new name. If no rename leads there, because the
// folders are on different mounts, Move stages and publishes the copy, and removes the original once
// the copy is durable: a crash between the two leaves both.
func (c *Copy) Move(files durable.FileSystem, from *durable.Dir, entry, name string) error {
	if err := files.Publish(from, entry, c.Box, name, true); !errors.Is(err, syscall.EXDEV) {
		return err
	}
	data, err := from.ReadFile(entry, schema.MaxFileSize)
	if err != nil {
		return err
	}
	if err := c.Put(files, data, name); err != nil {
		return fmt.Errorf("moving %s: %w", from.Path(entry), err)
	}
	took, err := files.Take(from, entry)
	if err == nil && !took {
		// Another process removed the original.
		_, err = files.Take(c.Box, name)
		err = errors.Join(fs.ErrNotExist, err)
	}
	return err
}

// Put stages the copy with these bytes and publishes it durably under a name, which must be unique.
func (c *Copy) Put(files durable.FileSystem, data []byte, name string) error {
	err := c.Create(files, data)
	if err != nil {
		return err
	}
	if err = c.Sync(files); err == nil {
		err = files.SyncDir(c.Dir)
	}
	if err == nil {
		err = c.Publish(files, name, true)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		// The caller must not take this for a missing original.
		return fmt.Errorf("%s was swept as stale", c.Dir.Path(c.File))
	case err != nil:
		_, takeErr := c.Take(files)
		return errors.Join(err, takeErr)
	}
	return files.SyncDir(c.Box)
}
