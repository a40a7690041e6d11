// Package processgroup starts processes so that they can be ended together
// with those that they start, and end when the process that started them dies.
// Systems without process groups, or without such a tie, do as much of that as
// they can.
package processgroup

import (
	"os"
	"os/exec"
	"syscall"
)

// Lead makes a command, which is yet to be started, the leader of a process
// group of its own. Where the system can (Linux), it is sent the signal when
// this process dies, whatever of: the thread must be held for that, see Hold.
func Lead(command *exec.Cmd, death syscall.Signal) { lead(command, death) }

// Hold keeps the calling goroutine on its thread until the returned function
// is called. The kernel takes the end of the thread that started a process for
// the death of its parent, so the goroutine that starts a process is to wait
// for its end, and to hold its thread meanwhile.
func Hold() (release func()) { return hold() }

// Signal sends a signal to the processes of the leader's group. That there are
// none left is no error. Without groups, the leader is killed.
func Signal(leader *os.Process, signal syscall.Signal) { signalGroup(leader, signal) }

// Kill ends the processes of the leader's group.
func Kill(leader *os.Process) { signalGroup(leader, syscall.SIGKILL) }
