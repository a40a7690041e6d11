//go:build unix

package processgroup

import (
	"os"
	"os/exec"
	"syscall"
)

func lead(command *exec.Cmd, death syscall.Signal) {
	if command.SysProcAttr == nil {
		command.SysProcAttr = &syscall.SysProcAttr{}
	}
	command.SysProcAttr.Setpgid = true
	dieWithParent(command.SysProcAttr, death)
}

func signalGroup(leader *os.Process, signal syscall.Signal) { _ = syscall.Kill(-leader.Pid, signal) }
