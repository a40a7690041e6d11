package live

import (
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
)

// A Process is that of a session. No other process has the same number and start time.
type Process struct {
	PID     int    `json:"pid"`
	Started string `json:"started,omitempty"`
}

// alive reports whether the process has not ended.
func (p Process) alive() bool {
	now, _, _ := readProcess(p.PID)
	return p.PID > 0 && now == p
}

// shells are programs between a hook and the process of its session.
var shells = []string{"sh", "bash", "dash", "zsh", "ash", "ksh", "fish", "env", "busybox"}

// SessionProcess returns the process of the session whose hook this process is: the one that claude
// names in the environment, or the nearest ancestor that is no shell.
func SessionProcess(getenv func(string) string) Process {
	if pid, err := strconv.Atoi(getenv("CLAUDE_PID")); err == nil && pid > 1 {
		if p, _, _ := readProcess(pid); p.PID > 0 {
			return p
		}
	}
	pid := os.Getppid()
	for range 8 {
		p, parent, name := readProcess(pid)
		if !slices.Contains(shells, strings.TrimPrefix(path.Base(name), "-")) || parent <= 1 {
			return p
		}
		pid = parent
	}
	return Process{}
}
