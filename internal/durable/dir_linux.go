package durable

import (
	"io/fs"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Changed returns when the bytes or the attributes of a file last changed. No program can set that
// time. It is zero if the system does not tell.
func Changed(info fs.FileInfo) time.Time {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return time.Unix(stat.Ctim.Unix())
	}
	return time.Time{}
}

func renameExclusively(from int, name string, to int, newName string) error {
	return unix.Renameat2(from, name, to, newName, unix.RENAME_NOREPLACE)
}

// startWriteback starts writing a file's bytes to the disk, and does not wait. If several files are
// started before the first is synced, one commit of the file system's journal covers all of them.
// Errors show when the file is synced.
func startWriteback(file *os.File) {
	_ = unix.SyncFileRange(int(file.Fd()), 0, 0, unix.SYNC_FILE_RANGE_WRITE)
}

// bootID returns the kernel's id of this boot, which is the same in all containers.
func bootID() string {
	id, _ := os.ReadFile("/proc/sys/kernel/random/boot_id") // without it, the origin is the process's own
	return string(id)
}
