package live

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// readProcess describes a process.
func readProcess(pid int) runningProcess {
	const zombie = 5 // SZOMB of sys/proc.h
	info, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil || int(info.Proc.P_pid) != pid || info.Proc.P_stat == zombie {
		return runningProcess{}
	}
	start := info.Proc.P_starttime
	arguments, _ := unix.SysctlRaw("kern.procargs2", pid) // it may have ended, or belong to another user
	return runningProcess{
		Process: Process{PID: pid, Started: fmt.Sprintf("%d.%06d", start.Sec, start.Usec)},
		parent:  int(info.Eproc.Ppid), name: unix.ByteSliceToString(info.Proc.P_comm[:]),
		// The number of arguments and the path of the program are before them, and the environment is behind them.
		arguments: string(arguments),
	}
}
