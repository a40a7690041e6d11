package live

import (
	"bytes"
	"encoding/binary"
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

// valued are the options of codex that take the next argument as their value.
var valued = []string{
	"-c", "--config", "--enable", "--disable", "--remote", "--remote-auth-token-env", "-i", "--image", "-m", "--model", "--local-provider",
	"-p", "--profile", "-s", "--sandbox", "-C", "--cd", "--add-dir", "-a", "--ask-for-approval",
}

// scripted reports whether the process is a codex that works without a terminal: codex exec or codex review.
// Both always run their session themselves.
func (p *runningProcess) scripted() bool {
	arguments := strings.Split(p.arguments, "\x00")
	for i := 1; i < len(arguments); i++ {
		switch argument := arguments[i]; {
		case slices.Contains(valued, argument):
			i++
		case argument == "--" || !strings.HasPrefix(argument, "-"): // the subcommand or a prompt
			return slices.Contains([]string{"exec", "e", "review"}, argument)
		}
	}
	return false
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

// terminalOf returns the process of codex that shows a session of the folder. If there are several in the
// folder, that is the only one without a session; those in taken have one. It returns the zero Process if
// it cannot tell.
func terminalOf(dir string, taken map[Process]bool) Process {
	all := codexIn(dir)
	free := slices.DeleteFunc(slices.Clone(all), func(p Process) bool { return taken[p] })
	switch {
	case len(free) == 1:
		return free[0]
	case len(all) == 1:
		return all[0]
	}
	return Process{}
}

// argumentsIn returns the command line in what macOS says about a process: the number of arguments, the path
// of the program, NULs, the arguments and the environment.
func argumentsIn(description []byte) string {
	const numberSize = 4
	if len(description) < numberSize {
		return ""
	}
	_, rest, _ := bytes.Cut(description[numberSize:], []byte{0})
	rest = bytes.TrimLeft(rest, "\x00")
	end := 0
	for range binary.NativeEndian.Uint32(description) {
		length := bytes.IndexByte(rest[end:], 0)
		if length < 0 {
			break
		}
		end += length + 1
	}
	return string(rest[:end])
}
