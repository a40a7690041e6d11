//go:build unix

package ash

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
)

// listenPrivately listens on a new socket at path with mode 0600. It makes the socket in a folder that
// only its owner may enter, and moves it to path once it is private and listens. So no other user can
// connect at any moment, whatever the umask, and no process finds a socket that does not answer.
func listenPrivately(path string) (listener net.Listener, err error) {
	dir, err := os.MkdirTemp(filepath.Dir(path), ".")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	hidden := filepath.Join(dir, "s")
	if len(hidden) > maxSocketPath {
		return nil, fmt.Errorf("%w: %s: its folder leaves no room for a socket (%d bytes, this system takes %d)",
			ErrSocketPath, path, len(hidden), maxSocketPath)
	}
	socket, err := net.ListenUnix("unix", &net.UnixAddr{Name: hidden, Net: "unix"})
	if err != nil {
		return nil, err
	}
	socket.SetUnlinkOnClose(false) // it would remove the name under which the socket was made
	if err = os.Chmod(hidden, 0o600); err == nil {
		err = os.Rename(hidden, path)
	}
	if err != nil {
		return nil, errors.Join(err, socket.Close())
	}
	return socket, nil
}
