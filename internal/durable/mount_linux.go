package durable

import (
	"os"

	"golang.org/x/sys/unix"
)

// sameDevice compares mounts, not devices: a rename does not cross from one mount of a file system
// to another one. Kernels before 5.8 know no numbers of mounts, and there the devices have to do.
func sameDevice(a, b *os.File) bool {
	mountA, okA := mountOf(a)
	mountB, okB := mountOf(b)
	return okA && okB && mountA == mountB
}

type mountPoint struct {
	major, minor uint32
	mount        uint64
}

func mountOf(handle *os.File) (mountPoint, bool) {
	var stat unix.Statx_t
	err := unix.Statx(int(handle.Fd()), "", unix.AT_EMPTY_PATH, unix.STATX_MNT_ID, &stat)
	return mountPoint{stat.Dev_major, stat.Dev_minor, stat.Mnt_id}, err == nil
}
