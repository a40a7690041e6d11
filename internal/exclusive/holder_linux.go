package exclusive

import (
	"os"
	"strconv"
	"strings"
	"syscall"
)

// holderOf describes the process that holds a lock on a file. It compares only the inode, because some
// file systems show processes another device.
func holderOf(path string) string {
	info, err := os.Stat(path)
	locks, readErr := os.ReadFile("/proc/locks")
	if err != nil || readErr != nil {
		return unknownHolder
	}
	inode := ":" + strconv.FormatUint(info.Sys().(*syscall.Stat_t).Ino, 10)
	for line := range strings.Lines(string(locks)) {
		fields := strings.Fields(line) // 1: FLOCK ADVISORY WRITE 4711 08:02:131 0 EOF
		if len(fields) > 5 && fields[1] == "FLOCK" && strings.HasSuffix(fields[5], inode) {
			stat, _ := os.ReadFile("/proc/" + fields[4] + "/stat") // 4711 (oacp) T 1 …
			process, state, _ := strings.Cut(string(stat), ") ")
			if strings.HasPrefix(state, "T") {
				return "process " + process + "), which is stopped,"
			}
			return "process " + fields[4]
		}
	}
	return unknownHolder
}
