package durable

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/gofrs/flock"
)

// lockMode makes lock files readable only by their owner: whoever can open one can hold it.
const lockMode = 0o600

// NewLock returns an unlocked lock on the file at the path. Locking creates a missing file,
// readable only by its owner, refuses a symbolic link, and does not wait for a pipe.
func NewLock(path string) *flock.Flock {
	return flock.New(path, flock.SetFlag(lockFlags), flock.SetPermissions(lockMode))
}

// NewLock returns an unlocked lock on a file of the folder, and creates the file if it is missing. A
// group that shares the folder shares the lock. Locking does not create the file, because by then the
// path may lead elsewhere.
func (d *Dir) NewLock(name string) (*flock.Flock, error) {
	file, err := d.OpenFile(name, os.O_RDWR|os.O_CREATE, lockMode)
	if err != nil {
		return nil, err
	}
	d.share(file, groupRead)
	_ = file.Close() // nothing was written
	return flock.New(d.Path(name), flock.SetFlag(lockFlags&^os.O_CREATE), flock.SetPermissions(lockMode)), nil
}

// Locked calls do while it holds a lock of the folder; see NewLock. It waits for the lock until the context ends.
func (d *Dir) Locked(ctx context.Context, name string, do func() error) (err error) {
	const retry = 5 * time.Millisecond
	lock, err := d.NewLock(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	if _, err := lock.TryLockContext(ctx, retry); err != nil {
		return fmt.Errorf("locking %s: %w", lock.Path(), err)
	}
	return do()
}
