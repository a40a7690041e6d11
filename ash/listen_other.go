//go:build !unix

package ash

import "net"

// listenPrivately listens on a new socket at path. Without Unix modes the folder's access list
// protects it.
func listenPrivately(path string) (net.Listener, error) {
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, err
	}
	listener.SetUnlinkOnClose(false) // Server.Close removes it, if it is still its own
	return listener, nil
}
