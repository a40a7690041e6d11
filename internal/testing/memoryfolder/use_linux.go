package memoryfolder

import (
	"os"

	"golang.org/x/sys/unix"
)

const (
	folder = "/dev/shm"
	// leastRoom is the free space that tests need, in bytes. A container often has less.
	leastRoom = 1 << 30
)

// Use makes this process, and those that it starts, put temporary files into a folder in memory. It does
// nothing if TMPDIR is set, or if there is no suitable folder.
func Use() error {
	if os.Getenv("TMPDIR") != "" || !suits() {
		return nil
	}
	return os.Setenv("TMPDIR", folder)
}

// suits reports whether the folder is in memory, has enough room and lets programs run.
func suits() bool {
	var s unix.Statfs_t
	return unix.Statfs(folder, &s) == nil && s.Type == unix.TMPFS_MAGIC && s.Flags&unix.ST_NOEXEC == 0 &&
		s.Bavail >= leastRoom/uint64(s.Bsize) && unix.Access(folder, unix.W_OK|unix.X_OK) == nil
}
