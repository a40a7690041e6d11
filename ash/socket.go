package ash

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/gofrs/flock"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/internal/failure"
)

var (
	// ErrSocketInUse is returned if a server answers on the socket.
	ErrSocketInUse = failure.New("socket_in_use", "ash: socket in use",
		"a bridge already listens there: oacp ash query --socket PATH PROMPT sends it a prompt, --socket names another path")
	// ErrSocketPath reports that a path is too long for a socket, or taken by another file.
	ErrSocketPath = failure.New("bad_socket", "ash: bad socket path", "name a socket, or a path that does not exist yet, with --socket")
)

// maxSocketPath is the longest path of a socket on this system, in bytes.
const maxSocketPath = len(syscall.RawSockaddrUnix{}.Path) - 1

const (
	// probeTimeout bounds the wait for an answer on a socket that may be stale.
	probeTimeout = time.Second
	// lockTimeout bounds the wait for other processes that set up or remove the same socket.
	lockTimeout = 5 * time.Second
	lockRetry   = 5 * time.Millisecond
)

// NewSocketPath returns a new path for a socket, /tmp/ash-<short-id>.sock.
func NewSocketPath() string {
	dir := "/tmp" // the protocol's folder; os.TempDir is often too deep for a socket
	if runtime.GOOS == "windows" {
		dir = os.TempDir()
	}
	return filepath.Join(dir, "ash-"+strings.ToLower(rand.Text()[:8])+".sock")
}

// checkSocketPath refuses a path that no socket can have.
func checkSocketPath(path string) error {
	switch {
	case path == "":
		return fmt.Errorf("%w: it is empty", ErrSocketPath)
	case strings.IndexByte(path, 0) >= 0:
		return fmt.Errorf("%w: %q: it holds a NUL", ErrSocketPath, path)
	case len(path) > maxSocketPath:
		return fmt.Errorf("%w: %s: %d bytes long, this system takes %d", ErrSocketPath, path, len(path), maxSocketPath)
	}
	return nil
}

// listenUnix listens on a new socket at path and returns its identity. It replaces a stale socket.
func listenUnix(path string) (listener net.Listener, identity os.FileInfo, err error) {
	if err := checkSocketPath(path); err != nil {
		return nil, nil, err
	}
	err = withSocketLock(path, func() error {
		if err := removeStaleSocket(path); err != nil {
			return err
		}
		if listener, err = listenPrivately(path); err != nil {
			return err
		}
		if identity, err = os.Lstat(path); err != nil {
			return errors.Join(err, listener.Close())
		}
		return nil
	})
	return listener, identity, err
}

// removeStaleSocket removes a socket on which no server answers. It returns an error if anything
// else is at path.
func removeStaleSocket(path string) error {
	found, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if found.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("%w: %s exists and is not a socket", ErrSocketPath, path)
	}
	answers, err := socketAnswers(path)
	switch {
	case err != nil:
		return err
	case answers:
		return fmt.Errorf("%w: %s", ErrSocketInUse, path)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// socketAnswers reports whether a server listens at path. A busy socket counts as an answer.
func socketAnswers(path string) (bool, error) {
	conn, err := net.DialTimeout("unix", path, probeTimeout)
	switch {
	case err == nil:
		return true, conn.Close()
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, fs.ErrNotExist):
		return false, nil
	case errors.Is(err, syscall.EAGAIN), errors.Is(err, os.ErrDeadlineExceeded):
		return true, nil // its queue of connections is full
	}
	return false, err
}

// withSocketLock runs work while no other process sets up or removes the socket at path. The lock is a
// file beside the socket, which withSocketLock removes at the end.
func withSocketLock(path string, work func() error) error {
	ctx, cancel := context.WithTimeout(context.Background(), lockTimeout)
	defer cancel()
	for {
		lock := durable.NewLock(path + ".lock")
		if _, err := lock.TryLockContext(ctx, lockRetry); err != nil {
			return fmt.Errorf("ash: lock %s: %w", lock.Path(), errors.Join(err, lock.Close()))
		}
		// If the previous holder has removed the file, another process can lock a new one.
		held, heldErr := lock.Stat()
		found, foundErr := os.Stat(lock.Path())
		if heldErr == nil && foundErr == nil && os.SameFile(held, found) {
			err := work()
			return errors.Join(err, removeLock(lock))
		}
		if err := lock.Close(); err != nil {
			return fmt.Errorf("ash: lock %s: %w", lock.Path(), err)
		}
	}
}

func removeLock(lock *flock.Flock) error {
	if runtime.GOOS == "windows" {
		return lock.Close() // an open file cannot be removed there: the lock file stays
	}
	return errors.Join(os.Remove(lock.Path()), lock.Close())
}
