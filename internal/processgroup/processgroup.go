// Package processgroup starts processes so that they can be ended together with their own children,
// and end when the process that started them dies. A system without process groups, or without such
// a tie to the parent, does as much of that as it can.
package processgroup

import (
	"os"
	"runtime"
	"syscall"
)

// Hold keeps the calling goroutine on its thread until release is called. Linux takes the end of
// the thread that started a process for the death of its parent. So the goroutine that starts a
// process must hold its thread until the process has ended.
func Hold() (release func()) {
	runtime.LockOSThread()
	return runtime.UnlockOSThread
}

// Kill ends the processes of the leader's group.
func Kill(leader *os.Process) { Signal(leader, syscall.SIGKILL) }
