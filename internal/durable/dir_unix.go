//go:build unix

package durable

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// syncDir ignores that some file systems cannot sync folders.
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

const lockFlags = os.O_CREATE | os.O_RDONLY | unix.O_NOFOLLOW | unix.O_NONBLOCK

// renameNoReplace renames with the system's exclusive rename, or under a lock if the kernel or the
// file system does not have one.
func renameNoReplace(d *Dir, name string, to *Dir, newName string) error {
	err := renameExclusively(int(d.handle.Fd()), name, int(to.handle.Fd()), newName)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.ENOTSUP) {
		return renameUnderLock(d, name, to, newName)
	}
	return err
}

// renameUnderLock checks that the new name is free and renames, while it holds a lock that all our
// processes take. Linking and unlinking would not need the lock, but a crash between the two would
// leave a file that looks unpublished.
func renameUnderLock(d *Dir, name string, to *Dir, newName string) error {
	// The shared handle would share the lock too.
	lock, err := to.root.Open(".")
	if err != nil {
		return err
	}
	if err = unix.Flock(int(lock.Fd()), unix.LOCK_EX); err == nil {
		err = renameIfFree(d, name, to, newName)
	}
	return errors.Join(err, lock.Close()) // closing it unlocks
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
