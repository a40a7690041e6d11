//go:build !unix

package agent

import (
	"os"
	"os/exec"
)

// ownGroup does nothing: without process groups a command is ended by itself.
func ownGroup(*exec.Cmd) {}

// terminateGroup ends a process; there is no way to ask it to. That it has
// ended already is no error.
func terminateGroup(leader *os.Process) { _ = leader.Kill() }

// killGroup ends a process.
func killGroup(leader *os.Process) { _ = leader.Kill() }

// signalOf returns "": no signal ends a process here.
func signalOf(*os.ProcessState) string { return "" }
