package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/orphans"
	"github.com/oacp-go/oacp/internal/processgroup"
	"github.com/oacp-go/oacp/internal/visible"
)

// defaultGrace is how long an agent may take to end after SIGTERM.
const defaultGrace = 5 * time.Second

// execDriver runs a command for each turn: the prompt is its standard input, the answer its standard
// output. The command is a list of arguments and never passes through a shell. It may exit without
// reading its input. It runs in a process group of its own, which the driver stops as a whole; on
// Linux it also dies with the process that started it. When the command exits, the driver kills what
// is left in its group, after two seconds if that holds the output open.
//
// If the command exits with a status other than zero, or by a signal, the turn fails with an
// *ExitError.
type execDriver struct {
	options Options
	path    string
}

// NewExec returns the driver for the command of the options.
func NewExec(options Options) Driver {
	e := &execDriver{options: options}
	if e.options.Grace <= 0 {
		e.options.Grace = defaultGrace
	}
	return e
}

// ExitError reports that a command failed.
type ExitError struct {
	// Code is the exit status, -1 when a signal ended the command.
	Code int
	// Signal names the signal that ended the command, or is empty.
	Signal string
	// Err is what the operating system said.
	Err error
}

func (e *ExitError) Error() string {
	if e.Signal != "" {
		return "the command was ended by a signal: " + e.Signal
	}
	return fmt.Sprintf("the command ended with exit status %d", e.Code)
}

func (e *ExitError) Explain() (code, hint string) { return "turn_failed", "" }

func (e *ExitError) Unwrap() error { return e.Err }

// Start finds the program and starts nothing.
func (e *execDriver) Start(context.Context) (err error) {
	e.path, err = findProgram(e.options.Dir, e.options.Command)
	return err
}

// findProgram returns the absolute path of a command's program. It searches like a shell in dir, and
// returns an error if dir is missing.
func findProgram(dir string, command []string) (string, error) {
	if len(command) == 0 || command[0] == "" {
		return "", fmt.Errorf("%w: no command is given", ErrUnavailable)
	}
	name := command[0]
	if filepath.Base(name) != name && !filepath.IsAbs(name) {
		name = filepath.Join(dir, name)
		if filepath.Base(name) == name { // LookPath would search PATH
			name = "." + string(filepath.Separator) + name
		}
	}
	path, err := exec.LookPath(name)
	if err == nil {
		path, err = filepath.Abs(path)
	}
	if err == nil && dir != "" {
		var info os.FileInfo
		if info, err = os.Stat(dir); err == nil && !info.IsDir() {
			err = fmt.Errorf("%s is not a folder", dir)
		}
	}
	if err != nil {
		return "", missing(err)
	}
	return path, nil
}

// missing returns the error of a program that cannot be run.
func missing(err error) error {
	missing := fmt.Errorf("%w: %w", ErrUnavailable, err)
	program, ok := errors.AsType[*exec.Error](err)
	switch {
	case !ok:
		return missing
	case strings.ContainsAny(program.Name, "|&;<>$`*~( \t\n"):
		return failure.WithHint(missing, "the command is one program with its arguments as words; to use a shell: -- "+visible.ShellCommand("sh", "-c", program.Name))
	}
	return failure.WithHint(missing, "command -v "+program.Name+" shows whether it is installed and executable; no message was changed")
}

// Turn runs the command once. Its events are pieces of output, never cut within a character.
func (e *execDriver) Turn(ctx context.Context, request Request, observe func(Event)) (Result, error) {
	if e.path == "" {
		return Result{}, errNotStarted
	}
	if err := context.Cause(ctx); err != nil {
		return Result{}, err
	}
	out := newOutput(observe)
	begin := time.Now()
	err := e.run(ctx, request, out)
	result := out.result()
	result.Duration = time.Since(begin)
	return result, err
}

// run starts the command and waits until it and what it left behind have ended.
func (e *execDriver) run(ctx context.Context, request Request, out *output) error {
	p, err := processgroup.Start(&exec.Cmd{
		Path: e.path, Args: e.options.Command, Dir: e.options.Dir,
		Env:   e.options.environment(request.Env, orphans.Environ(ctx)),
		Stdin: strings.NewReader(request.Prompt), Stdout: out.stream(false), Stderr: out.stream(true),
	}, syscall.SIGKILL)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	select {
	case <-p.Done():
	case <-ctx.Done():
		if !p.EndsWithin(ctx, 0) { // if both happened at once, the turn is complete
			return errors.Join(context.Cause(ctx), p.Stop(context.WithoutCancel(ctx), e.options.Grace))
		}
	}
	return exitError(p.Err())
}

// signalOf names the signal that ended a process, if one did.
func signalOf(state *os.ProcessState) string {
	name, signaled := strings.CutPrefix(state.String(), "signal: ")
	if !signaled {
		return ""
	}
	return strings.TrimSuffix(name, " (core dumped)")
}

// exitError converts the error of waiting for a command.
func exitError(err error) error {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &exit):
		return &ExitError{Code: exit.ExitCode(), Signal: signalOf(exit.ProcessState), Err: err}
	}
	return fmt.Errorf("waiting for the command: %w", err)
}

// SessionID returns "": commands have no sessions.
func (e *execDriver) SessionID() string { return "" }

// Stop does nothing: no process outlives a turn.
func (e *execDriver) Stop(context.Context) error { return nil }
