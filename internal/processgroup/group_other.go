//go:build !unix

package processgroup

import (
	"os"
	"os/exec"
	"syscall"
)

// Lead does nothing: there are no process groups.
func Lead(*exec.Cmd, syscall.Signal) {}

// Hold does nothing: only Linux ties processes to the threads that start them.
func Hold() (release func()) { return func() {} }

// Signal kills the leader: there are no process groups.
func Signal(leader *os.Process, _ syscall.Signal) { _ = leader.Kill() }
