package processgroup

import (
	"os/exec"
	"runtime"
	"syscall"
)

// Lead makes a command, which is not started yet, the leader of a process group of its own. On
// Linux it gets the signal when this process dies, or when the thread that starts it ends: see
// Hold.
func Lead(command *exec.Cmd, death syscall.Signal) {
	setGroup(command)
	command.SysProcAttr.Pdeathsig = death
}

// Hold keeps the calling goroutine on its thread until release is called. The kernel takes the end
// of the thread that started a process for the death of its parent. So the goroutine that starts a
// process must hold its thread until the process has ended.
func Hold() (release func()) {
	runtime.LockOSThread()
	return runtime.UnlockOSThread
}
