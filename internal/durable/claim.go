package durable

import (
	"crypto/rand"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"sync"

	"github.com/oacp-go/oacp/internal/process"
)

// claim locks a file until it is closed. The system closes it if the process dies, so others can
// tell whether its writer is alive; see Claimed. On a system or file system without such locks,
// claim does nothing.
func claim(file *os.File) { _, _ = lock(file) }

// Claimed reports whether a process holds a claim on a file. It may miss the claims of processes
// with another Origin. Claimed returns errors.ErrUnsupported, or an error of the system, if it
// cannot tell.
func (d *Dir) Claimed(name string) (bool, error) {
	file, err := d.open(name, os.O_RDWR, 0)
	if err != nil {
		return false, fmt.Errorf("looking at %s: %w", d.Path(name), cause(err))
	}
	free, err := lock(file)
	if err = errors.Join(err, file.Close()); err != nil {
		return false, fmt.Errorf("locking %s: %w", d.Path(name), cause(err))
	}
	return !free, nil
}

// Origin names the running system and the mount through which this process sees the folder, in 16
// hexadecimal digits. Processes of one origin see each other's locks, even across containers.
func (d *Dir) Origin() (string, error) {
	id, err := device(d.handle)
	if err != nil {
		return "", fmt.Errorf("looking at folder %s: %w", d.path, cause(err))
	}
	hash := fnv.New64a()
	fmt.Fprintf(hash, "%s %d", boot(), id)
	return fmt.Sprintf("%016x", hash.Sum64()), nil
}

// boot returns the id of this start of the system. If the system has none, boot returns an id of
// this process, so that no other process has the same origin.
var boot = sync.OnceValue(func() string {
	if id := process.Boot(); id != "" {
		return id
	}
	return rand.Text()
})
