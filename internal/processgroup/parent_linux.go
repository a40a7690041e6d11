package processgroup

import (
	"runtime"
	"syscall"
)

func dieWithParent(attributes *syscall.SysProcAttr, signal syscall.Signal) {
	attributes.Pdeathsig = signal
}

func hold() func() {
	runtime.LockOSThread()
	return runtime.UnlockOSThread
}
