package live

import (
	"fmt"
	"time"

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
		arguments: argumentsIn(arguments),
	}
}

// codexIn returns nothing: this system does not say in which folder a process is.
func codexIn(string) []Process { return nil }

// codex returns the program to ring the process with.
func (p Process) codex() string { return string(Codex) }

// mayShow reports whether a session of a folder may be in a terminal, which nothing says here.
func mayShow(string) bool { return true }

// hasSuccessor reports whether the process of the session has opened another one, which nothing says here.
func (s *Session) hasSuccessor(time.Time) bool { return false }
