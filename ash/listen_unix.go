//go:build unix

package ash

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
)

// listenPrivately listens on a new socket at path with mode 0600. It is made in a folder only its owner may enter and
// moved to path when it is private and listens, so nobody else can connect to it at any moment, whatever the umask, and
// nobody finds it before it answers.
func listenPrivately(path string) (net.Listener, error) {
	dir, err := makePrivateFolder(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	listener, err := listenWithin(dir, path)
	return listener, errors.Join(err, os.RemoveAll(dir))
}

func listenWithin(dir, path string) (net.Listener, error) {
	hidden := filepath.Join(dir, "s")
	if len(hidden) > maxSocketPath {
		return nil, fmt.Errorf("%w: %s: its folder leaves no room for a socket (%d bytes, this system takes %d)",
			ErrSocketPath, path, len(hidden), maxSocketPath)
	}
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: hidden, Net: "unix"})
	if err != nil {
		return nil, err
	}
	listener.SetUnlinkOnClose(false) // it would look for the name the socket was made under
	if err = os.Chmod(hidden, 0o600); err == nil {
		err = os.Rename(hidden, path)
	}
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	return listener, nil
}

// makePrivateFolder makes a folder with a short name: it takes away from the length a socket path may have.
func makePrivateFolder(parent string) (string, error) {
	for attempt := 0; ; attempt++ {
		dir := filepath.Join(parent, "."+shortID(4))
		err := os.Mkdir(dir, 0o700)
		if err == nil || !errors.Is(err, fs.ErrExist) || attempt == 100 {
			return dir, err
		}
	}
}
