package convert

import (
	"io/fs"
	"syscall"
)

// detailsOf returns what a stamp holds besides what any system tells.
func detailsOf(info fs.FileInfo) (inode uint64, changed int64) {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return stat.Ino, stat.Ctim.Nano()
	}
	return 0, 0
}
