// Package machine checks what the machine offers to a workspace: its programs, and the limits of
// the system.
package machine

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Status is the outcome of a Check.
type Status string

// The outcomes of checks. Absent may not matter; Poor is something that does not work, or is not
// enough.
const (
	Good   Status = "good"
	Absent Status = "absent"
	Poor   Status = "poor"
)

// A Check is the check of one program or limit.
type Check struct {
	Name string
	// For says what needs it.
	For    string
	Status Status
	// Detail is the version and path, the value, or what is wrong. Hint says what to do about the
	// latter.
	Detail, Hint string
}

// versionTimeout bounds how long a program may take to say its version.
const versionTimeout = 5 * time.Second

// A program is an executable that some command can use. Sending and reading messages needs none.
type program struct{ name, use, hint string }

var programs = []program{
	{"git", "carrying mailboxes between machines", "install git from your system's packages"},
	{"claude", "turns run by Claude Code", "install Claude Code, or use another agent"},
	{"codex", "turns run by Codex", "install the Codex CLI, or use another agent"},
	{"node", "agents and bridges written in JavaScript", "install Node.js from your system's packages"},
	{"tmux", "watching several agents in one terminal", "install tmux from your system's packages"},
}

// Inspect checks the programs on the PATH and the limits of the system. It starts each program
// once, with --version.
func Inspect(ctx context.Context) []Check {
	return inspector{lookPath: exec.LookPath, version: askVersion, readFile: os.ReadFile}.inspect(ctx)
}

// An inspector reads the machine through these functions.
type inspector struct {
	lookPath func(name string) (string, error)
	version  func(ctx context.Context, path string) (string, error)
	readFile func(path string) ([]byte, error)
}

func (i inspector) inspect(ctx context.Context) []Check {
	checks := make([]Check, len(programs), len(programs)+len(watchLimits))
	var asking sync.WaitGroup
	for n, p := range programs {
		asking.Go(func() { checks[n] = i.program(ctx, p) })
	}
	asking.Wait()
	if runtime.GOOS == "linux" {
		for _, limit := range watchLimits {
			checks = append(checks, i.watchLimit(limit))
		}
	}
	return checks
}

func (i inspector) program(ctx context.Context, p program) Check {
	check := Check{Name: p.name, For: p.use, Status: Good}
	path, err := i.lookPath(p.name)
	if err != nil {
		check.Status, check.Detail, check.Hint = Absent, "not on the PATH", p.hint
		return check
	}
	version, err := i.version(ctx, path)
	if err != nil {
		check.Status, check.Detail = Poor, fmt.Sprintf("%s --version: %v", path, err)
		check.Hint = "run it by hand to see what is wrong"
		return check
	}
	check.Detail = version + " (" + path + ")"
	return check
}

// askVersion returns the first line that the program prints for --version.
func askVersion(ctx context.Context, path string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, versionTimeout)
	defer cancel()
	command := exec.CommandContext(ctx, path, "--version")
	if filepath.Base(path) == "tmux" {
		command.Args[1] = "-V"
	}
	command.WaitDelay = time.Second // for children of the program that hold its output open
	output, err := command.Output()
	if ctx.Err() != nil {
		return "", fmt.Errorf("no answer within %s", versionTimeout)
	}
	if err != nil {
		return "", err
	}
	line, _, _ := strings.Cut(strings.TrimSpace(string(output)), "\n")
	return fmt.Sprintf("%.100s", line), nil
}

// A watchLimit is a setting of Linux for watching folders.
type watchLimit struct {
	name, setting string
	enough        int
}

var watchLimits = []watchLimit{
	{"inotify instances", "fs.inotify.max_user_instances", 64},
	{"inotify watches", "fs.inotify.max_user_watches", 4096},
}

func (i inspector) watchLimit(limit watchLimit) Check {
	check := Check{Name: limit.name, For: "noticing messages the moment they arrive", Status: Good}
	path := "/proc/sys/" + strings.ReplaceAll(limit.setting, ".", "/")
	data, err := i.readFile(path)
	if err != nil {
		check.Status, check.Detail = Absent, err.Error()
		check.Hint = "folders are read again and again instead"
		return check
	}
	check.Detail = strings.TrimSpace(string(data))
	if value, err := strconv.Atoi(check.Detail); err != nil || value < limit.enough {
		check.Status = Poor
		check.Hint = fmt.Sprintf("sudo sysctl %s=%d", limit.setting, limit.enough*2)
	}
	return check
}
