//go:build unix

package durable

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Changed returns when the bytes or the attributes of a file last changed. No program can set that
// time. It is zero if info does not come from the system.
func Changed(info fs.FileInfo) time.Time {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return time.Time{}
	}
	changed := changeTime(stat)
	return time.Unix(changed.Unix())
}

// FolderID identifies a folder, wherever it is moved on its file system. It is empty if the system does not tell.
func FolderID(path string) string {
	info, err := os.Stat(path)
	if err != nil {
		return ""
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return ""
	}
	return fmt.Sprintf("%d:%d", stat.Dev, stat.Ino)
}

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

func (d *Dir) open(name string, flag int, mode os.FileMode) (*os.File, error) {
	fd, err := d.openDescriptor(name, flag, mode)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), d.Path(name)), nil
}

// openDescriptor follows no link, and does not wait for the other end of a pipe.
func (d *Dir) openDescriptor(name string, flag int, mode os.FileMode) (fd int, err error) {
	if !isEntryName(name) {
		return -1, fs.ErrInvalid
	}
	flag |= unix.O_NONBLOCK | unix.O_NOFOLLOW | unix.O_CLOEXEC
	for {
		fd, err = unix.Openat(int(d.handle.Fd()), name, flag, uint32(mode.Perm()))
		if !errors.Is(err, unix.EINTR) {
			return fd, err
		}
	}
}

// read makes four system calls; an os.File would make six. Listing a large inbox consists of little
// else. If that fails, the root opens the file: it follows links inside the folder.
func (d *Dir) read(buffer []byte, name string, limit int64) ([]byte, time.Time, error) {
	if fd, err := d.openDescriptor(name, os.O_RDONLY, 0); err == nil {
		defer unix.Close(fd) // nothing was written, so the error does not matter
		return readDescriptor(buffer, fd, limit)
	}
	file, err := d.root.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return buffer, time.Time{}, err
	}
	defer file.Close() // nothing was written here either
	return readDescriptor(buffer, int(file.Fd()), limit)
}

func readDescriptor(buffer []byte, fd int, limit int64) ([]byte, time.Time, error) {
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return buffer, time.Time{}, err
	}
	modified := time.Unix(stat.Mtim.Unix())
	if stat.Mode&unix.S_IFMT != unix.S_IFREG {
		return buffer, modified, ErrNotRegular
	}
	done := int64(0)
	data, err := readAll(buffer, stat.Size, limit, func(buffer []byte) (n int, err error) {
		for {
			if n, err = unix.Read(fd, buffer); !errors.Is(err, unix.EINTR) {
				break
			}
		}
		n = max(n, 0)
		done += int64(n)
		if err == nil && (n == 0 || n < len(buffer) && done == stat.Size) {
			err = io.EOF
		}
		return n, err
	})
	return data, modified, err
}

// A lock is a regular file opened for writing: NFS locks no other.
const lockFlags = os.O_CREATE | os.O_RDWR | unix.O_NOFOLLOW | unix.O_NONBLOCK

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

// renameIfFree takes two steps. A folder replaces at most an empty one, even if that is made in between: the system refuses the rest.
func renameIfFree(d *Dir, name string, to *Dir, newName string) error {
	if taken, err := to.Exists(newName); err != nil {
		return err
	} else if taken {
		_, err := d.Lstat(name) // what is missing is said first, as by an exclusive rename
		return cmp.Or(err, fs.ErrExist)
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
