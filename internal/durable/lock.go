package durable

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/gofrs/flock"

	"github.com/oacp-go/oacp/internal/process"
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

// Patience is how long a command waits for a lock.
const Patience = 30 * time.Second

// TakeLock takes a lock. It waits at most for the time; then the error says which process holds the lock, where the system tells.
func TakeLock(ctx context.Context, lock *flock.Flock, patience time.Duration) error {
	const retry = 5 * time.Millisecond
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	_, err := lock.TryLockContext(limited, retry)
	switch {
	case err == nil:
		return nil
	case ctx.Err() == nil && limited.Err() != nil:
		holder := "another process"
		if p := process.LockHolder(lock.Path()); p.PID > 0 {
			holder = fmt.Sprintf("process %d (%q)", p.PID, p.Name)
		}
		return fmt.Errorf("%s has held %s for more than %v; end it, or try again later", holder, lock.Path(), patience)
	}
	return fmt.Errorf("locking %s: %w", lock.Path(), err)
}

// Locked calls do while it holds a lock of the folder; see NewLock. It waits for the lock until the context ends, at most for Patience.
func (d *Dir) Locked(ctx context.Context, name string, do func() error) (err error) {
	lock, err := d.NewLock(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	if err := TakeLock(ctx, lock, Patience); err != nil {
		return err
	}
	return do()
}
