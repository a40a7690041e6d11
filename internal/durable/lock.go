package durable

import "github.com/gofrs/flock"

// NewLock returns an unlocked lock on the file at the path. Locking creates a missing file,
// readable only by its owner, refuses a symbolic link, and does not wait for a pipe.
func NewLock(path string) *flock.Flock {
	return flock.New(path, flock.SetFlag(lockFlags), flock.SetPermissions(0o600))
}

// NewLock is the function of that name for a file of the folder.
func (d *Dir) NewLock(name string) *flock.Flock { return NewLock(d.Path(name)) }
