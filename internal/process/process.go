// Package process identifies processes of the system, and the program that called this one.
package process

import (
	"cmp"
	"crypto/rand"
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

// IsWithin reports whether the process is the one of that number, or was started by it, however indirectly.
func (p Process) IsWithin(pid int) bool {
	at := p.PID
	for range 32 {
		if at == pid || at <= 1 {
			return at == pid
		}
		at = Read(at).Parent
	}
	return false
}

// System identifies this start of the machine, as far as its processes are seen from here: if two processes have the same one, each can
// tell whether the other is alive. A copy of a disk and a virtual machine made from a template have another one.
func System() string {
	name, _ := os.Hostname()
	return strings.Join([]string{host(), name, Boot()}, "\x00")
}

// Mark returns the process and a random number as a text, which Ended reads.
func Mark() string {
	p := Read(os.Getpid())
	return strings.Join([]string{strconv.Itoa(p.PID), p.Started, rand.Text()}, "/")
}

// Ended reports whether the process of a mark that was made in this System has ended. It is false if that is not known.
func Ended(mark string) bool {
	parts := strings.Split(mark, "/")
	pid, err := strconv.Atoi(parts[0])
	return err == nil && len(parts) == 3 && Boot() != "" && !Process{pid, parts[1]}.IsAlive()
}

// Info is what the system says about a process. The zero value means that there is no such process.
type Info struct {
	Process
	Parent int
	// Leader reports whether it leads a session, as the shell of a terminal does, or a service.
	Leader bool
	// Name is what the system calls the program; for a script that names its interpreter, it is the script. Arguments is its
	// command line, separated by NUL.
	Name, Arguments string
}

// program returns the name of the program that runs: for a script, that of its interpreter.
func (p Info) program() string {
	first, _, _ := strings.Cut(p.Arguments, "\x00")
	return path.Base(strings.TrimPrefix(cmp.Or(first, p.Name), "-"))
}

// shells are programs that may be between a program and the commands that it runs.
var shells = []string{"sh", "bash", "dash", "zsh", "ash", "ksh", "fish", "env", "busybox"}

func (p Info) isShell() bool {
	return slices.Contains(shells, p.program())
}

// wrappers are programs that run another command and end with it, and interpreters are those of scripts.
var (
	wrappers     = []string{"timeout", "gtimeout", "nice", "nohup", "stdbuf", "time", "xargs", "watch", "script", "make", "sudo", "setsid", "flock"}
	interpreters = []string{"python", "node", "ruby", "perl", "php", "deno", "bun"}
	// programs are those of sessions that are scripts of an interpreter.
	programs = []string{"claude", "codex", "gemini", "opencode", "qwen"}
)

// isBetween reports whether the process stands between a program and the commands that it runs: a shell that runs a text or a
// script, an interpreter, or a program that wraps a command.
func (p Info) isBetween() bool {
	name := p.program()
	arguments := strings.Split(strings.TrimSuffix(p.Arguments, "\x00"), "\x00")
	switch {
	case slices.Contains(wrappers, name):
		return true
	case p.isShell(): // a shell with arguments other than --options is not interactive
		return slices.ContainsFunc(arguments[1:], func(a string) bool {
			return !strings.HasPrefix(a, "-") || !strings.HasPrefix(a, "--") && strings.Contains(a, "c")
		})
	}
	return slices.ContainsFunc(interpreters, func(i string) bool { return strings.HasPrefix(name, i) }) &&
		!slices.ContainsFunc(arguments[1:], func(a string) bool {
			return slices.ContainsFunc(programs, func(program string) bool { return strings.HasPrefix(path.Base(a), program) })
		})
}

// Caller returns the program that called this process, which outlives it: the one that claude names in the environment, or the
// nearest ancestor that does not only stand between, or leads a session. So the shell of a terminal is a program, and a script
// that was started in it is none.
func Caller(getenv func(string) string) Info {
	if pid, err := strconv.Atoi(getenv("CLAUDE_PID")); err == nil && pid > 1 {
		if p := Read(pid); p.PID > 0 {
			return p
		}
	}
	return ancestor(func(p, parent Info) bool {
		return !p.Leader && (p.isBetween() || p.isShell() && p.Arguments == parent.Arguments) // a subshell
	})
}

// Ancestor returns the nearest ancestor of this process that is not a shell.
func Ancestor() Info {
	return ancestor(func(p, _ Info) bool { return p.isShell() })
}

// ancestor returns the nearest ancestor of this process that skip does not return true for. Skip also gets its parent.
// The script npm/oacp.js, which may have started this program, is none: it names itself in the environment.
func ancestor(skip func(p, parent Info) bool) Info {
	p, launcher := Read(os.Getppid()), os.Getenv("OACP_LAUNCHER")
	for range 16 {
		if p.Parent <= 1 {
			return p
		}
		parent := Read(p.Parent)
		if !skip(p, parent) && strconv.Itoa(p.PID) != launcher {
			return p
		}
		p = parent
	}
	return Info{}
}
