//go:build unix && !linux

package processgroup

import (
	"os/exec"
	"syscall"
)

// Lead makes a command, which is not started yet, the leader of a process group of its own.
func Lead(command *exec.Cmd, _ syscall.Signal) { setGroup(command) }

// Hold does nothing: only Linux ties processes to the threads that start them.
func Hold() (release func()) { return func() {} }
