package durable

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

func changeTime(stat *syscall.Stat_t) syscall.Timespec { return stat.Ctim }

func renameExclusively(from int, name string, to int, newName string) error {
	return unix.Renameat2(from, name, to, newName, unix.RENAME_NOREPLACE)
}

// startWriteback starts writing a file's bytes to the disk, and does not wait. If several files are
// started before the first is synced, one commit of the file system's journal covers all of them.
// Errors show when the file is synced.
func startWriteback(file *os.File) {
	_ = unix.SyncFileRange(int(file.Fd()), 0, 0, unix.SYNC_FILE_RANGE_WRITE)
}
