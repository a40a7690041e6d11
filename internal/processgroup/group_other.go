//go:build !unix

package processgroup

import (
	"os"
	"os/exec"
	"syscall"
)

// Lead does nothing: there are no process groups.
func Lead(*exec.Cmd, syscall.Signal) {}

// LeadSession does nothing: there are no sessions.
func LeadSession(*exec.Cmd) {}

// Signal kills the leader: there are no process groups.
func Signal(leader *os.Process, _ syscall.Signal) { _ = leader.Kill() }
