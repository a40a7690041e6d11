//go:build unix

package processgroup

import (
	"os"
	"os/exec"
	"syscall"
)

func setGroup(command *exec.Cmd) {
	if command.SysProcAttr == nil {
		command.SysProcAttr = &syscall.SysProcAttr{}
	}
	command.SysProcAttr.Setpgid = true
}

// Signal sends a signal to the processes of the leader's group, if there are any. Without process
// groups, it kills the leader.
func Signal(leader *os.Process, signal syscall.Signal) { _ = syscall.Kill(-leader.Pid, signal) }
