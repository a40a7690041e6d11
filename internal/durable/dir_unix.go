//go:build unix

package durable

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// syncDir tolerates file systems that cannot sync folders at all.
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

// renameUnderLock replaces the atomic rename on file systems that know none which refuses to
// replace: all our processes take the lock, so between the look and the rename only a foreign
// writer of the very same name could come. A link and an unlink would need no lock, but a crash
// between the two leaves a file that looks unpublished after its reader has dealt with it.
func renameUnderLock(d *Dir, name string, to *Dir, newName string) error {
	// A handle of its own: those who share one share its lock.
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

// knowsNoReplace reports whether the error of a rename that refuses to replace is about the files
// and not about the kernel or the file system lacking the operation.
func knowsNoReplace(err error) bool {
	return !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOSYS) && !errors.Is(err, unix.ENOTSUP)
}
