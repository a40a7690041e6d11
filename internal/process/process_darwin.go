package process

import (
	"fmt"
	"time"

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
	session, _ := unix.Getsid(pid)
	arguments, _ := unix.SysctlRaw("kern.procargs2", pid) // it may have ended, or belong to another user
	return Info{
		Process: Process{PID: pid, Started: fmt.Sprintf("%d.%06d", start.Sec, start.Usec)},
		Parent:  int(info.Eproc.Ppid), Leader: session == pid, Name: unix.ByteSliceToString(info.Proc.P_comm[:]),
		Arguments: parseProcargs2(arguments),
	}
}

// Boot returns the id of this start of the system; empty if it has none.
func Boot() string {
	id, _ := unix.Sysctl("kern.bootsessionuuid")
	return id
}

// SinceBoot returns the time since the system started, with the time that it slept.
func SinceBoot() time.Duration {
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) // every system has it
	return time.Duration(now.Nano())
}

func host() string {
	id, _ := unix.Sysctl("kern.uuid")
	return id
}

// LockHolder knows nothing about locks here.
func LockHolder(string) Info { return Info{} }
