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
func (p Process) alive() bool { return p.PID > 0 && readProcess(p.PID).Process == p }

// A runningProcess is what the system says about a process. It is the zero value if there is none.
type runningProcess struct {
	Process
	parent int
	// name is that of the program, and arguments its command line, separated by NUL.
	name, arguments string
}

// shared reports whether the process is the one that runs the hooks of all sessions of codex: its parents
// say nothing about the session.
func (p *runningProcess) shared() bool {
	return slices.Contains(strings.Split(p.arguments, "\x00"), "app-server")
}

// scripted reports whether the process is a codex that works without a terminal: codex exec or codex review.
func (p *runningProcess) scripted() bool {
	return slices.ContainsFunc(strings.Split(p.arguments, "\x00"), func(argument string) bool {
		return slices.Contains([]string{"exec", "e", "review"}, argument)
	})
}

// IsScripted reports whether a script runs the session that called this hook: nobody watches a session of
// claude -p or codex exec.
func IsScripted(program Program, getenv func(string) string) bool {
	if program == Claude {
		return getenv("CLAUDE_CODE_SESSION_ATTENDED") == "0"
	}
	p := caller(program, getenv)
	return p.scripted()
}

// shells are programs between a hook and the process of its session.
var shells = []string{"sh", "bash", "dash", "zsh", "ash", "ksh", "fish", "env", "busybox"}

// caller returns the process that called the hook that this process is: the one that claude names in the
// environment, or the nearest ancestor that is not a shell.
func caller(program Program, getenv func(string) string) runningProcess {
	if pid, err := strconv.Atoi(getenv("CLAUDE_PID")); err == nil && pid > 1 && program == Claude {
		if p := readProcess(pid); p.PID > 0 {
			return p
		}
	}
	pid := os.Getppid()
	for range 8 {
		p := readProcess(pid)
		if !slices.Contains(shells, strings.TrimPrefix(path.Base(p.name), "-")) || p.parent <= 1 {
			return p
		}
		pid = p.parent
	}
	return runningProcess{}
}
