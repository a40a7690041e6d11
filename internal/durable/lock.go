package durable

import "github.com/gofrs/flock"

// NewLock prepares a lock of the file at the path, which is made where there is none, for its owner
// alone. A link in its place, which may lead anywhere, is refused, and a pipe in its place is not
// waited for.
func NewLock(path string) *flock.Flock {
	return flock.New(path, flock.SetFlag(lockFlags), flock.SetPermissions(0o600))
}
