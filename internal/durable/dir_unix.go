//go:build unix

package durable

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// syncDir ignores the errors of file systems that cannot sync folders.
func syncDir(handle *os.File) error {
	err := handle.Sync()
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOTSUP) {
		return nil
	}
	return err
}

func writable(handle *os.File) error {
	return unix.Faccessat(int(handle.Fd()), ".", unix.W_OK|unix.X_OK, unix.AT_EACCESS)
}

// open opens an entry of the folder. It follows no link, and does not wait for the other end of a
// pipe.
func (d *Dir) open(name string, flag int, mode os.FileMode) (*os.File, error) {
	if !isEntryName(name) {
		return nil, fs.ErrInvalid
	}
	flag |= unix.O_NONBLOCK | unix.O_NOFOLLOW | unix.O_CLOEXEC
	for {
		fd, err := unix.Openat(int(d.handle.Fd()), name, flag, uint32(mode.Perm()))
		switch {
		case err == nil:
			return os.NewFile(uintptr(fd), d.Path(name)), nil
		case !errors.Is(err, unix.EINTR):
			return nil, err
		}
	}
}

// A lock is a regular file opened for writing: NFS locks no other.
const lockFlags = os.O_CREATE | os.O_RDWR | unix.O_NOFOLLOW | unix.O_NONBLOCK

// renameNoReplace renames with the system's exclusive rename.
func renameNoReplace(d *Dir, name string, to *Dir, newName string) error {
	err := renameExclusively(int(d.handle.Fd()), name, int(to.handle.Fd()), newName)
	if lacksExclusiveRename(err) {
		return ErrNotExclusive
	}
	return err
}

// lacksExclusiveRename reports whether the error means that the kernel or the file system has no exclusive
// rename.
func lacksExclusiveRename(err error) bool {
	return errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.ENOTSUP)
}

func renameIfFree(d *Dir, name string, to *Dir, newName string) error {
	taken, err := to.Exists(newName)
	if err != nil {
		return err
	}
	if taken {
		return fs.ErrExist
	}
	return unix.Renameat(int(d.handle.Fd()), name, int(to.handle.Fd()), newName)
}

// lock locks a file that is open for writing, and reports whether it could: another open file may
// hold the lock. NFS passes flock on to the server, and so does bindfs with
// --enable-lock-forwarding.
func lock(file *os.File) (bool, error) {
	err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}

func device(handle *os.File) (uint64, error) {
	var stat unix.Stat_t
	err := unix.Fstat(int(handle.Fd()), &stat)
	return uint64(stat.Dev), err
}
