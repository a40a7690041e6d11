//go:build unix

package agent

import (
	"os"
	"os/exec"
	"syscall"
)

// ownGroup gives a command a process group of its own, so that it can be
// stopped together with its children.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	dieWithParent(cmd.SysProcAttr)
}

// terminateGroup asks a process and its children to end. That there are none
// left is no error.
func terminateGroup(leader *os.Process) { _ = syscall.Kill(-leader.Pid, syscall.SIGTERM) }

// killGroup ends a process and its children.
func killGroup(leader *os.Process) { _ = syscall.Kill(-leader.Pid, syscall.SIGKILL) }

// signalOf names the signal that ended a process, if one did.
func signalOf(state *os.ProcessState) string {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return status.Signal().String()
	}
	return ""
}
