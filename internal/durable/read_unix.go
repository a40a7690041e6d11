//go:build unix

package durable

import (
	"errors"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// read takes four system calls, where an os.File would take six: a full inbox has many thousands of
// files, and next to nothing else costs time.
func (d *Dir) read(buffer []byte, name string, limit int64) ([]byte, time.Time, error) {
	if fd, ok := d.openEntry(name); ok {
		defer unix.Close(fd) // opened for reading: closing cannot lose anything
		return readDescriptor(buffer, fd, limit)
	}
	file, err := d.root.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return buffer, time.Time{}, err
	}
	defer file.Close() // as above
	return readDescriptor(buffer, int(file.Fd()), limit)
}

// openEntry opens what stands in the folder itself. It leaves to the root what takes more care:
// links, other paths, and every error.
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
	data, err := readAll(buffer, stat.Size, limit, func(buffer []byte) (int, error) {
		n, err := readRetrying(fd, buffer)
		done += int64(n)
		if err == nil && (n == 0 || n < len(buffer) && done == stat.Size) {
			err = io.EOF
		}
		return n, err
	})
	return data, modified, err
}

// readRetrying reads again when a signal came first, as the os package does.
func readRetrying(fd int, buffer []byte) (int, error) {
	for {
		n, err := unix.Read(fd, buffer)
		if !errors.Is(err, unix.EINTR) {
			return max(n, 0), err
		}
	}
}
