package durable

import (
	"os"

	"golang.org/x/sys/unix"
)

// StartWriteback starts writing a file's bytes to the disk, and does not wait. If several files are
// started before the first is synced, one commit of the file system's journal covers all of them.
// Errors show when the file is synced.
func StartWriteback(file *os.File) {
	_ = unix.SyncFileRange(int(file.Fd()), 0, 0, unix.SYNC_FILE_RANGE_WRITE)
}
