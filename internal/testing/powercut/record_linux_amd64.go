package powercut

import "golang.org/x/sys/unix"

// These calls have no folder. Newer architectures have only those with one.
func init() {
	signatures[unix.SYS_RENAME] = signature{moves, [][2]int{{-1, 0}, {-1, 1}}}
	signatures[unix.SYS_LINK] = signature{links, [][2]int{{-1, 0}, {-1, 1}}}
	signatures[unix.SYS_UNLINK] = signature{removes, [][2]int{{-1, 0}}}
	signatures[unix.SYS_RMDIR] = signature{removes, [][2]int{{-1, 0}}}
	signatures[unix.SYS_MKDIR] = signature{makesFolder, [][2]int{{-1, 0}}}
	signatures[unix.SYS_SYMLINK] = signature{opens, [][2]int{{-1, 1}}}
}
