//go:build unix

package agent

import (
	"os"
	"os/exec"
	"syscall"
)

// ownGroup gives a command a process group of its own, so that it can be
// stopped together with its children. Where the system can, the command is sent
// the signal when this process dies.
func ownGroup(cmd *exec.Cmd, death syscall.Signal) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	dieWithParent(cmd.SysProcAttr, death)
}

// signalGroup sends a signal to a process and its children. That there are
// none left is no error.
func signalGroup(leader *os.Process, signal syscall.Signal) { _ = syscall.Kill(-leader.Pid, signal) }

// killGroup ends a process and its children.
func killGroup(leader *os.Process) { signalGroup(leader, syscall.SIGKILL) }

// signalOf names the signal that ended a process, if one did.
func signalOf(state *os.ProcessState) string {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return status.Signal().String()
	}
	return ""
}
