package agent

import (
	"runtime"
	"syscall"
)

// dieWithParent has a child sent a signal when this process dies, whatever of.
// The kernel takes the end of the thread that started the child for that, so
// the thread must be held meanwhile; see holdThread.
func dieWithParent(attributes *syscall.SysProcAttr, signal syscall.Signal) {
	attributes.Pdeathsig = signal
}

// holdThread keeps the goroutine on its thread until the returned function is
// called.
func holdThread() func() {
	runtime.LockOSThread()
	return runtime.UnlockOSThread
}
