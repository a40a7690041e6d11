//go:build !unix

package processgroup

import (
	"os"
	"os/exec"
	"syscall"
)

func lead(*exec.Cmd, syscall.Signal) {}

func signalGroup(leader *os.Process, _ syscall.Signal) { _ = leader.Kill() }
