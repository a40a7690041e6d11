//go:build unix

package processgroup

import (
	"os"
	"os/exec"
	"syscall"
)

// Lead makes a command, which is not started yet, the leader of a process group of its own. On Linux
// the command gets the signal death when this process dies; see Hold.
func Lead(command *exec.Cmd, death syscall.Signal) {
	if command.SysProcAttr == nil {
		command.SysProcAttr = &syscall.SysProcAttr{}
	}
	command.SysProcAttr.Setpgid = true
	setDeathSignal(command.SysProcAttr, death)
}

// LeadSession makes a command, which is not started yet, the leader of a session and so of a process
// group of its own. The command has no terminal on which it could ask for a password.
func LeadSession(command *exec.Cmd) { command.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }

// Signal sends a signal to the processes of the leader's group, if any are left.
func Signal(leader *os.Process, signal syscall.Signal) { _ = syscall.Kill(-leader.Pid, signal) }
