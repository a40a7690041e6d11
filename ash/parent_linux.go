package ash

import (
	"runtime"
	"syscall"
)

// dieWithParent has a bridge told to end when this process dies, whatever of, so that it can end its agent and remove
// its socket. The kernel takes the end of the thread that started the bridge for that, so the thread must be held
// meanwhile; see holdThread.
func dieWithParent(attributes *syscall.SysProcAttr) { attributes.Pdeathsig = syscall.SIGTERM }

// holdThread keeps the goroutine on its thread until the returned function is called.
func holdThread() func() {
	runtime.LockOSThread()
	return runtime.UnlockOSThread
}
