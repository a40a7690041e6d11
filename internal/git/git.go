// Package git runs the git program without prompts and with time limits, in the repository that the
// caller names, whatever the environment says.
package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/processgroup"
)

var (
	// ErrMissing is returned if there is no git program.
	ErrMissing = failure.New("not_installed", "git is not installed", "install git")
	// ErrTooOld is returned if this module needs a later version of git.
	ErrTooOld = failure.New("git_too_old", "is too old", "install a newer git")
)

// oldest is the oldest version of git with which this module works.
var oldest = [2]int{2, 30}

// Error says that a git command failed.
type Error struct {
	// Args are the arguments, the command first.
	Args []string
	// Exit is the exit status, or -1 if a signal ended git.
	Exit int
	// Signal is the name of that signal, such as "killed".
	Signal string
	// Stderr is the end of what git printed to standard error, without surrounding white space.
	Stderr string
}

// Error names the command and includes what git printed, without lines in which git only guesses or
// repeats that something failed.
func (e *Error) Error() string {
	var lines, empty []string
	for line := range strings.Lines(e.Stderr) {
		switch line = strings.TrimSpace(line); {
		case line == "":
		case hasPrefix(line, "fatal: Could not read from remote repository.", "Please make sure you have the correct access rights",
			"and the repository exists.", "error: failed to push some refs to "):
			empty = append(empty, line)
		default:
			lines = append(lines, line)
		}
	}
	if len(lines) == 0 {
		lines = empty
	}
	switch {
	case e.Signal != "":
		lines = append(lines, "ended by a signal: "+e.Signal)
	case len(lines) == 0:
		lines = []string{"exit status " + strconv.Itoa(e.Exit)}
	}
	return fmt.Sprintf("git %s: %s", e.Args[0], strings.Join(lines, "; "))
}

// Is reports whether git failed because a disk of this machine is full, which is syscall.ENOSPC.
func (e *Error) Is(target error) bool {
	if target != syscall.ENOSPC {
		return false
	}
	for line := range strings.Lines(e.Stderr) {
		for _, full := range []string{"No space left on device", "Disk quota exceeded", "Out of diskspace", "couldn't write '"} {
			if strings.Contains(line, full) && !strings.HasPrefix(line, "remote: ") {
				return true
			}
		}
	}
	return false
}

func hasPrefix(text string, prefixes ...string) bool {
	return slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(text, prefix) })
}

// Exit returns the exit status of a git command that failed. It returns -1 for other errors, and for nil.
func Exit(err error) int {
	if failed, ok := errors.AsType[*Error](err); ok {
		return failed.Exit
	}
	return -1
}

const (
	// timeLimit bounds a command whose context has no deadline.
	timeLimit = 2 * time.Minute
	// outputLimit and stderrLimit bound what is kept of the output, in bytes.
	outputLimit = 512 << 20
	stderrLimit = 4 << 10
	// waitDelay is how long a command may take to end after SIGTERM, and how long its children may keep its output
	// open.
	waitDelay = 2 * time.Second
)

// Repository says in which repository commands run. The zero value is the one that git finds from
// the working folder of this process.
type Repository struct {
	// Dir is the folder in which git looks for its repository, if it is not empty.
	Dir string
	// GitDir is the repository itself, if it is not empty.
	GitDir string
	// Config are settings of the form name=value, which take precedence over those of files.
	Config []string
	// Env are variables of the form NAME=value. git gets them in addition to the environment of this process,
	// without variables that lead git to another repository or change what it does.
	Env []string
}

// Check returns an error that matches ErrMissing or ErrTooOld if there is no git that can be used.
func Check(ctx context.Context) error {
	out, err := new(Repository).Run(ctx, "version")
	if err != nil {
		return err
	}
	version := strings.TrimPrefix(strings.TrimSpace(string(out)), "git version ")
	version, _, _ = strings.Cut(version, " ") // Apple appends its own
	var major, minor int
	if _, err := fmt.Sscanf(version, "%d.%d", &major, &minor); err != nil {
		return fmt.Errorf("git version: cannot read %.100q", out)
	}
	if major < oldest[0] || major == oldest[0] && minor < oldest[1] {
		return fmt.Errorf("git %s %w: version %d.%d or later is needed", version, ErrTooOld, oldest[0], oldest[1])
	}
	return nil
}

// Run runs a command and returns what it printed to standard output. The error is an *Error if git
// failed, ErrMissing, or that of the context. A command without a deadline ends after two minutes. With an
// *Error, Run also returns the output.
func (r *Repository) Run(ctx context.Context, args ...string) ([]byte, error) {
	return r.RunInput(ctx, nil, args...)
}

// RunInput is Run with a standard input, which is empty if it is nil.
func (r *Repository) RunInput(ctx context.Context, stdin io.Reader, args ...string) ([]byte, error) {
	return r.run(ctx, stdin, &bounded{limit: stderrLimit, last: true}, args...)
}

func (r *Repository) run(ctx context.Context, stdin io.Reader, stderr *bounded, args ...string) ([]byte, error) {
	if _, limited := ctx.Deadline(); !limited {
		why := fmt.Errorf("git %s did not end within %v: %w", args[0], timeLimit, context.DeadlineExceeded)
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, timeLimit, why)
		defer cancel()
	}
	command := r.command(ctx, args...)
	out := bounded{limit: outputLimit}
	command.Stdin, command.Stdout, command.Stderr = stdin, &out, stderr
	err := command.Run()
	if ctx.Err() != nil && command.Process != nil {
		processgroup.Kill(command.Process) // some of its processes may have ignored SIGTERM
	}
	if err := errorOf(ctx, err, args, stderr.kept.Bytes()); err != nil {
		return out.kept.Bytes(), err
	}
	if out.over {
		return nil, fmt.Errorf("git %s: the output exceeds %d bytes", args[0], outputLimit)
	}
	return out.kept.Bytes(), nil
}

// errorOf turns the error of a command into one of Run.
func errorOf(ctx context.Context, err error, args []string, stderr []byte) error {
	exit, failed := errors.AsType[*exec.ExitError](err)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("git %s: %w", args[0], context.Cause(ctx))
	case errors.Is(err, exec.ErrNotFound):
		return ErrMissing
	case failed:
		signal, _ := strings.CutPrefix(exit.String(), "signal: ")
		if exit.ExitCode() >= 0 {
			signal = ""
		}
		return &Error{Args: args, Exit: exit.ExitCode(), Signal: signal, Stderr: strings.TrimSpace(string(stderr))}
	}
	return fmt.Errorf("git %s: %w", args[0], err)
}

// command returns a command. When the context ends, the command and its children get SIGTERM, so that git can remove its
// locks. If that takes long, they are killed.
func (r *Repository) command(ctx context.Context, args ...string) *exec.Cmd {
	// A folder that looks like a bare repository may be one that somebody committed, with settings that start programs.
	all := []string{"-c", "safe.bareRepository=explicit"}
	if r.Dir != "" {
		all = append(all, "-C", r.Dir)
	}
	if r.GitDir != "" {
		all = append(all, "--git-dir="+r.GitDir)
	}
	for _, setting := range r.Config {
		all = append(all, "-c", setting)
	}
	command := exec.CommandContext(ctx, "git", append(all, args...)...)
	command.Env = slices.Concat(environment(), r.Env)
	processgroup.LeadSession(command)
	command.Cancel = func() error {
		processgroup.Signal(command.Process, syscall.SIGTERM)
		return nil
	}
	command.WaitDelay = waitDelay
	return command
}

// kept are prefixes of the variables for git that say how to reach remotes, where the settings of the user
// and the system are, and who commits.
var kept = [...]string{
	"GIT_SSH", "GIT_SSL_", "GIT_HTTP_", "GIT_PROXY_", "GIT_EXEC_PATH=", "GIT_ALLOW_PROTOCOL=",
	"GIT_CONFIG_GLOBAL=", "GIT_CONFIG_SYSTEM=", "GIT_CONFIG_NOSYSTEM=",
	"GIT_CEILING_DIRECTORIES=", "GIT_DISCOVERY_ACROSS_FILESYSTEM=",
	"GIT_AUTHOR_NAME=", "GIT_AUTHOR_EMAIL=", "GIT_COMMITTER_NAME=", "GIT_COMMITTER_EMAIL=",
}

// environment returns the environment of git. No program may ask for a password: not git on the
// terminal, no helper with a window, and no ssh, which has no terminal in a session of its own.
func environment() []string {
	env := slices.DeleteFunc(os.Environ(), func(variable string) bool {
		return strings.HasPrefix(variable, "GIT_") && !hasPrefix(variable, kept[:]...)
	})
	return append(env, "GIT_TERMINAL_PROMPT=0", "GIT_ASKPASS=", "SSH_ASKPASS_REQUIRE=never",
		"GIT_OPTIONAL_LOCKS=0", "LC_ALL=C")
}

// bounded keeps the first or last bytes that are written to it.
type bounded struct {
	kept  bytes.Buffer
	limit int
	last  bool // keep the last bytes
	over  bool // some bytes were lost
}

// Write never fails, so that git does not end early.
func (b *bounded) Write(data []byte) (int, error) {
	b.kept.Write(data)
	if extra := b.kept.Len() - b.limit; extra > 0 {
		b.over = true
		if b.last {
			b.kept.Next(extra)
		} else {
			b.kept.Truncate(b.limit)
		}
	}
	return len(data), nil
}
