//go:build !unix

package agent

import (
	"os"
	"os/exec"
	"syscall"
)

// ownGroup does nothing: without process groups a command is ended by itself.
func ownGroup(*exec.Cmd, syscall.Signal) {}

// signalGroup ends a process; there is no way to ask it to. That it has ended
// already is no error.
func signalGroup(leader *os.Process, _ syscall.Signal) { _ = leader.Kill() }

// killGroup ends a process.
func killGroup(leader *os.Process) { _ = leader.Kill() }

// signalOf returns "": no signal ends a process here.
func signalOf(*os.ProcessState) string { return "" }
