package process

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Read describes a process.
func Read(pid int) Info {
	const zombie = 5 // SZOMB of sys/proc.h
	info, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil || int(info.Proc.P_pid) != pid || info.Proc.P_stat == zombie {
		return Info{}
	}
	start := info.Proc.P_starttime
	arguments, _ := unix.SysctlRaw("kern.procargs2", pid) // it may have ended, or belong to another user
	return Info{
		Process: Process{PID: pid, Started: fmt.Sprintf("%d.%06d", start.Sec, start.Usec)},
		Parent:  int(info.Eproc.Ppid), Name: unix.ByteSliceToString(info.Proc.P_comm[:]),
		Arguments: parseProcargs2(arguments),
	}
}
