package doctor

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

// programs are executables that some commands use, with what for.
var programs = []struct{ name, use, hint string }{
	{"git", "carrying mailboxes between machines", "install git from your system's packages"},
	{"claude", "turns run by Claude Code", "install Claude Code, or use another agent"},
	{"codex", "turns run by Codex", "install the Codex CLI, or use another agent"},
	{"node", "agents and bridges written in JavaScript", "install Node.js from your system's packages"},
	{"tmux", "watching several agents in one terminal", "install tmux from your system's packages"},
}

// InspectMachine reports which programs are on the PATH, with their versions and paths as messages, and the limits of the
// system. Nothing of that is needed to send and read messages, so it is never an error. It starts each program once.
func InspectMachine(ctx context.Context) []Finding {
	findings := make([]Finding, len(programs))
	var asking sync.WaitGroup
	for n, p := range programs {
		asking.Go(func() {
			f := Finding{Category: categoryEnvironment, Name: p.name, Severity: SeverityOK}
			path, err := exec.LookPath(p.name)
			version := ""
			if err == nil {
				version, err = askVersion(ctx, path)
			}
			switch {
			case path == "":
				f.Severity, f.Message, f.Hint = SeveritySkipped, "not on the PATH; optional, for "+p.use, p.hint
			case err != nil:
				f.Severity, f.Message = SeverityWarning, fmt.Sprintf("%s --version: %v; for %s", path, err, p.use)
				f.Hint = "run it by hand to see what is wrong"
			default:
				f.Message = version + " (" + path + ")"
			}
			findings[n] = f
		})
	}
	asking.Wait()
	if runtime.GOOS == "linux" {
		findings = append(findings,
			watchLimit("inotify instances", "fs.inotify.max_user_instances", 64),
			watchLimit("inotify watches", "fs.inotify.max_user_watches", 4096))
	}
	return findings
}

// versionTimeout bounds how long a program may take to say its version.
const versionTimeout = 5 * time.Second

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

// watchLimit inspects a setting of Linux for watching folders.
func watchLimit(name, setting string, enough int) Finding {
	const use = "noticing messages the moment they arrive"
	f := Finding{Category: categoryEnvironment, Name: name, Severity: SeverityOK}
	data, err := os.ReadFile("/proc/sys/" + strings.ReplaceAll(setting, ".", "/"))
	if err != nil {
		f.Severity, f.Message, f.Hint = SeveritySkipped, err.Error()+"; optional, for "+use, "folders are read again and again instead"
		return f
	}
	f.Message = strings.TrimSpace(string(data))
	if value, err := strconv.Atoi(f.Message); err != nil || value < enough {
		f.Severity, f.Message, f.Hint = SeverityWarning, f.Message+"; for "+use, fmt.Sprintf("sudo sysctl %s=%d", setting, enough*2)
	}
	return f
}
