package ash

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/gofrs/flock"

	"github.com/oacp-go/oacp/internal/durable"
)

// reservedSuffix follows the path of a socket in the name of the file that reserves it.
const reservedSuffix = ".host"

// Reservation is the path of a socket for a bridge that this process is to spawn. It lasts until it is released, or the
// process ends, whatever of; the socket that was left there then is removed by the next one that reserves a path.
type Reservation struct {
	path string
	lock *flock.Flock
}

// ReserveSocket reserves a path that [NewSocketPath] makes up, and first removes the sockets of processes that have
// ended, but no socket on which somebody answers.
func ReserveSocket() (*Reservation, error) {
	path := NewSocketPath()
	if err := removeAbandoned(filepath.Dir(path)); err != nil {
		return nil, fmt.Errorf("ash: reserve a socket: %w", err)
	}
	for range 10 {
		lock, err := lockFile(path + reservedSuffix)
		if err != nil {
			return nil, fmt.Errorf("ash: reserve a socket: %w", err)
		}
		if lock != nil {
			return &Reservation{path, lock}, nil
		}
		path = NewSocketPath() // somebody took the file for an abandoned one, before it was locked
	}
	return nil, fmt.Errorf("ash: reserve a socket: others take every path from %s", path)
}

// Path returns the path.
func (r *Reservation) Path() string { return r.path }

// Release gives the path back. The bridge has removed its socket by then.
func (r *Reservation) Release() error { return removeLock(r.lock) }

// lockFile locks a file that it makes where there is none. It returns nil if another process has it, or has removed it.
func lockFile(path string) (*flock.Flock, error) {
	lock := durable.NewLock(path)
	locked, err := lock.TryLock()
	if err == nil && locked {
		held, heldErr := lock.Stat()
		found, foundErr := os.Stat(path)
		if heldErr == nil && foundErr == nil && os.SameFile(held, found) {
			return lock, nil
		}
	}
	return nil, errors.Join(err, lock.Close())
}

// removeAbandoned removes sockets in the folder that were reserved by processes that have ended. What belongs to others
// is left to them.
func removeAbandoned(folder string) error {
	names, err := filepath.Glob(filepath.Join(folder, "ash-*.sock"+reservedSuffix))
	if err != nil {
		return err
	}
	for _, name := range names {
		lock, _ := lockFile(name) // what cannot be locked is no file of ours
		if lock == nil {
			continue
		}
		path := strings.TrimSuffix(name, reservedSuffix)
		err = withSocketLock(path, func() error { return removeStaleSocket(path) })
		if errors.Is(err, ErrSocketInUse) { // its bridge lives on; look again the next time
			err = lock.Close()
		} else {
			err = errors.Join(err, removeLock(lock))
		}
		if err != nil {
			return err
		}
	}
	return nil
}
