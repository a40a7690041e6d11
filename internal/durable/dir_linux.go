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

// sameDevice compares mounts, not devices, because a rename does not cross mounts even within one
// file system. Kernels before 5.8 do not number mounts, and there it compares devices.
func sameDevice(a, b *os.File) bool {
	var statA, statB unix.Statx_t
	for handle, stat := range map[*os.File]*unix.Statx_t{a: &statA, b: &statB} {
		if unix.Statx(int(handle.Fd()), "", unix.AT_EMPTY_PATH, unix.STATX_MNT_ID, stat) != nil {
			return false
		}
	}
	return statA.Dev_major == statB.Dev_major && statA.Dev_minor == statB.Dev_minor && statA.Mnt_id == statB.Mnt_id
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
