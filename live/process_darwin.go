package live

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// readProcess returns a process, its parent, and the name of its program. The process is the zero value
// if there is none.
func readProcess(pid int) (p Process, parent int, name string) {
	info, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil || int(info.Proc.P_pid) != pid || info.Proc.P_stat == zombie {
		return Process{}, 0, ""
	}
	start := info.Proc.P_starttime
	name = unix.ByteSliceToString(info.Proc.P_comm[:])
	return Process{PID: pid, Started: fmt.Sprintf("%d.%06d", start.Sec, start.Usec)}, int(info.Eproc.Ppid), name
}

// zombie is the state SZOMB of sys/proc.h.
const zombie = 5
