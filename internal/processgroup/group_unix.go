//go:build unix

package processgroup

import (
	"os"
	"os/exec"
	"syscall"
)

// Lead makes a command, which is not started yet, the leader of a process group of its own. On
// Linux it gets the signal when this process dies, or when the thread that starts it ends: see
// Hold.
func Lead(command *exec.Cmd, death syscall.Signal) {
	if command.SysProcAttr == nil {
		command.SysProcAttr = &syscall.SysProcAttr{}
	}
	command.SysProcAttr.Setpgid = true
	setDeathSignal(command.SysProcAttr, death)
}

// LeadSession makes a command, which is not started yet, the leader of a session of its own, and so of
// a process group: it has no terminal that it could ask for a password.
func LeadSession(command *exec.Cmd) { command.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }

// Signal sends a signal to the processes of the leader's group, if there are any. Without process
// groups, it kills the leader.
func Signal(leader *os.Process, signal syscall.Signal) { _ = syscall.Kill(-leader.Pid, signal) }
