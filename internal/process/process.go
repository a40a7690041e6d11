// Package process identifies processes of the system, and the program that called this one.
package process

import (
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
)

// A Process identifies a process of the system: no other one has the same number and start time.
type Process struct {
	PID     int    `json:"pid"`
	Started string `json:"started,omitempty"`
}

// IsAlive reports whether the process has not ended.
func (p Process) IsAlive() bool { return p.PID > 0 && Read(p.PID).Process == p }

// Info is what the system says about a process. The zero value means that there is no such process.
type Info struct {
	Process
	Parent int
	// Name is the name of the program, and Arguments its command line, separated by NUL.
	Name, Arguments string
}

// shells are programs that may be between a program and the commands that it runs.
var shells = []string{"sh", "bash", "dash", "zsh", "ash", "ksh", "fish", "env", "busybox"}

// Caller returns the program that called this process: the one that claude names in the environment, or the nearest
// ancestor that is not a shell.
func Caller(getenv func(string) string) Info {
	if pid, err := strconv.Atoi(getenv("CLAUDE_PID")); err == nil && pid > 1 {
		if p := Read(pid); p.PID > 0 {
			return p
		}
	}
	return Ancestor()
}

// Ancestor returns the nearest ancestor of this process that is not a shell.
func Ancestor() Info {
	pid := os.Getppid()
	for range 8 {
		p := Read(pid)
		if !slices.Contains(shells, strings.TrimPrefix(path.Base(p.Name), "-")) || p.Parent <= 1 {
			return p
		}
		pid = p.Parent
	}
	return Info{}
}
