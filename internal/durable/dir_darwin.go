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
		return time.Unix(stat.Ctimespec.Unix())
	}
	return time.Time{}
}

func renameExclusively(from int, name string, to int, newName string) error {
	return unix.RenameatxNp(from, name, to, newName, unix.RENAME_EXCL)
}

func bootID() string {
	id, _ := unix.Sysctl("kern.bootsessionuuid") // without it, the origin is the process's own
	return id
}

// startWriteback does nothing: only Linux can start writing without waiting.
func startWriteback(*os.File) {}
