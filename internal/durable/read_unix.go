//go:build unix

package durable

import (
	"errors"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// read makes four system calls; an os.File would make six. Listing a large inbox consists of little
// else.
func (d *Dir) read(buffer []byte, name string, limit int64) ([]byte, time.Time, error) {
	if fd, ok := d.openEntry(name); ok {
		defer unix.Close(fd) // nothing was written, so the error does not matter
		return readDescriptor(buffer, fd, limit)
	}
	file, err := d.root.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return buffer, time.Time{}, err
	}
	defer file.Close() // as above
	return readDescriptor(buffer, int(file.Fd()), limit)
}

// openEntry opens an entry of the folder. It leaves links, paths and all errors to the root.
func (d *Dir) openEntry(name string) (fd int, ok bool) {
	if !isEntryName(name) {
		return -1, false
	}
	const flags = unix.O_RDONLY | unix.O_NONBLOCK | unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd, err := unix.Openat(int(d.handle.Fd()), name, flags, 0)
	return fd, err == nil
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
