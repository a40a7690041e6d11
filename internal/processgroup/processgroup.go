// Package processgroup starts programs so that they can be ended together with their own children,
// and so that they end when the process that started them dies. The first needs a system with process
// groups, the second needs Linux.
package processgroup

import (
	"os"
	"runtime"
	"syscall"
)

// Hold keeps the calling goroutine on its thread until release is called. The goroutine that starts a
// process must hold its thread until the process has ended, because Linux treats the end of the thread
// that started a process as the death of its parent.
func Hold() (release func()) {
	runtime.LockOSThread()
	return runtime.UnlockOSThread
}

// Kill kills the processes of the leader's group.
func Kill(leader *os.Process) { Signal(leader, syscall.SIGKILL) }
