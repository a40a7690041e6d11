//go:build unix

package ash

import (
	"os"
	"os/exec"
	"syscall"
)

// ownGroup gives a command a process group of its own, so that it can be ended together with its children.
func ownGroup(command *exec.Cmd) {
	if command.SysProcAttr == nil {
		command.SysProcAttr = &syscall.SysProcAttr{}
	}
	command.SysProcAttr.Setpgid = true
	dieWithParent(command.SysProcAttr)
}

// terminateGroup asks a process and its children to end. That there are none left is no error.
func terminateGroup(leader *os.Process) { _ = syscall.Kill(-leader.Pid, syscall.SIGTERM) }

// killGroup ends a process and its children.
func killGroup(leader *os.Process) { _ = syscall.Kill(-leader.Pid, syscall.SIGKILL) }
