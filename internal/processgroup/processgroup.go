// Package processgroup starts processes so that they can be ended together with their own children,
// and end when the process that started them dies. A system without process groups, or without such
// a tie to the parent, does as much of that as it can.
package processgroup

import (
	"os"
	"syscall"
)

// Kill ends the processes of the leader's group.
func Kill(leader *os.Process) { Signal(leader, syscall.SIGKILL) }
