// Package command is the command line that the oacp programs share: order of arguments, streams,
// errors with exit statuses, help, completion, signals, and the flags that name a workspace or a
// bridge log.
package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/validate"
)

// A Program is a set of commands, called as "oacp NAME".
type Program struct {
	// Commands are the commands in the order of the help text.
	Commands []Entry
	// Separate are commands that are programs of their own, which are installed with this one.
	Separate []Separate
	// Reference are the commands that only the reference implementation has. Its users try them here.
	Reference []string
	// Complete completes the values of placeholders in help texts that this package does not know.
	Complete func(c *Completion, placeholder, current string) []Candidate
	// Exec replaces the process by another program.
	Exec func(path string, args []string) error
}

// An Entry makes a command. A command is only made when it is called or explained.
type Entry struct {
	Name string
	New  func(*Streams) *cli.Command
	// Silent commands exit with ExitDone after an error, which is printed: other programs call them and take
	// a failure for an answer.
	Silent bool
}

// Categories of commands in the help text.
const (
	CategoryMessages  = "Every day"
	CategoryTurns     = "Agents at work"
	CategoryFiles     = "More about messages"
	CategoryWorkspace = "Workspace"
	CategorySigning   = "Signing"
	CategoryBridge    = "AgentPair and Ash"
	CategoryProgram   = "This program"
)

// Main runs the command line of the process and exits.
func (p *Program) Main() {
	os.Exit(p.Run(context.Background(), os.Args[1:], ProcessStreams()))
}

// MainOf runs a program that is one command, such as oacp-mcp for "oacp mcp", and exits. Its errors
// and help texts are those of "oacp NAME".
func MainOf(name string, newCommand func(*Streams) *cli.Command) {
	p := &Program{Commands: []Entry{{Name: name, New: newCommand}, {Name: "version", New: NewVersionCommand}}}
	os.Exit(p.Run(context.Background(), argumentsOf(name, os.Args[1:]), ProcessStreams()))
}

// argumentsOf returns the arguments of a program that is one command, as "oacp" would take them.
func argumentsOf(name string, args []string) []string {
	if len(args) > 0 {
		switch args[0] {
		case completeCommand:
			return slices.Insert(slices.Clone(args), 1, name)
		case "-V", "--version":
			return args
		}
	}
	return append([]string{name}, args...)
}

// Run carries out a command line and returns the exit status. Every error of every command ends
// here.
func (p *Program) Run(ctx context.Context, args []string, s *Streams) int {
	if s.AsPerson = len(args) > 0 && args[0] == "--as-person"; s.AsPerson {
		args = args[1:]
	}
	err := p.execute(ctx, args, s)
	if flushErr := s.Out.Flush(); err == nil {
		err = flushErr
	}
	if err == nil {
		return failure.ExitDone
	}
	f := failure.Of(explainEnvironment(err, args, s))
	status := report(f, s, wantsJSON(args))
	if f.Code != "" && len(args) > 0 && slices.ContainsFunc(p.Commands, func(e Entry) bool { return e.Silent && e.Name == args[0] }) {
		return failure.ExitDone
	}
	return status
}

// explainEnvironment adds to the error of an unknown agent or workspace which variable names it.
func explainEnvironment(err error, args []string, s *Streams) error {
	if folder := s.Getenv("OACP_WORKSPACE"); folder != "" && errors.Is(err, mailbox.ErrNoWorkspace) && strings.Contains(err.Error(), folder) {
		return failure.WithHint(err, "OACP_WORKSPACE names this folder; without it, commands use the workspace of the current folder")
	}
	unknown, ok := errors.AsType[*mailbox.UnknownAgentError](err)
	for _, variable := range []string{"OACP_AGENT", "AGENT_NAME"} {
		if ok && s.Getenv(variable) == string(unknown.Agent) && !slices.Contains(args, string(unknown.Agent)) {
			return failure.WithHint(err, variable+" names this agent: set it to one of the workspace, or name one with a flag")
		}
	}
	return err
}

func (p *Program) execute(ctx context.Context, args []string, s *Streams) error {
	if len(args) > 0 && args[0] == completeCommand {
		return p.printCandidates(ctx, args[1:], s)
	}
	call, err := p.parse(args, s)
	switch {
	case err != nil:
		return err
	case call.separate != "":
		return p.runSeparate(call)
	case call.help:
		p.showHelp(s, call)
		return nil
	case call.command == nil:
		return errNoCommand()
	}
	if err := call.run(ctx); err != nil {
		return fmt.Errorf("%s: %w", call.name(), err)
	}
	return nil
}

// report prints a failure and returns the exit status.
func report(f failure.Failure, s *Streams, asJSON bool) int {
	if f.Code == "" {
		return f.Exit
	}
	if asJSON {
		// If standard output fails, the text on standard error remains.
		_ = WriteJSONLine(s.Out, struct {
			Error    string               `json:"error"`
			Code     string               `json:"code"`
			Hint     string               `json:"hint,omitempty"`
			Findings validate.Diagnostics `json:"diagnostics,omitempty"`
		}{f.Message(), f.Code, f.Hint, f.Findings})
		_ = s.Out.Flush()
	}
	var text strings.Builder
	for _, line := range f.Lines() {
		fmt.Fprintf(&text, "oacp: %s\n", visible.Line(line))
	}
	if f.Hint != "" {
		fmt.Fprintf(&text, "hint: %s\n", visible.Line(f.Hint))
	}
	_, _ = fmt.Fprint(s.Err, text.String()) // an error of standard error cannot be reported
	return f.Exit
}

// Separate is a command that is a program of its own: "oacp NAME" runs the program oacp-NAME.
type Separate struct {
	Name     string
	Category string
	// Usage is empty for a program that other commands call. Help does not list it.
	Usage string
}

const separatePrefix = "oacp-"

// isSeparate reports whether "oacp NAME" runs a program of its own.
func (p *Program) isSeparate(name string) bool {
	return p.ships(name) || p.Exec != nil && FindSeparate(name) != ""
}

func (p *Program) ships(name string) bool {
	return slices.ContainsFunc(p.Separate, func(s Separate) bool { return s.Name == name })
}

// runSeparate replaces this process by the program, which so gets the signals and sets the exit
// status itself.
func (p *Program) runSeparate(c *call) error {
	path := FindSeparate(c.separate)
	if path == "" {
		return &failure.Error{
			Code: "not_installed",
			Hint: "go install ./cmd/... in a clone of the repository installs it",
			Err: fmt.Errorf("%s: the program %s is neither next to oacp nor on the PATH",
				c.separate, separatePrefix+c.separate),
		}
	}
	return p.Exec(path, append([]string{path}, c.words...))
}

// FindSeparate returns the path of the program oacp-NAME: beside this program, or on the PATH. It
// is empty if there is none.
func FindSeparate(name string) string {
	if !regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]*$`).MatchString(name) {
		return ""
	}
	path, err := exec.LookPath(filepath.Join(ownFolder(), separatePrefix+name))
	if err != nil {
		path, err = exec.LookPath(separatePrefix + name)
	}
	if err != nil {
		return ""
	}
	return path
}

// ownFolder returns the folder of this program, or nothing if it is unknown.
func ownFolder() string {
	path, err := os.Executable()
	if err != nil {
		return ""
	}
	if resolved, err := filepath.EvalSymlinks(path); err == nil {
		path = resolved
	}
	return filepath.Dir(path)
}

// separateNames returns the names of all programs that "oacp NAME" runs: those that are installed
// with this one, and those that are found.
func (p *Program) separateNames() []string {
	var names []string
	for _, s := range p.Separate {
		names = append(names, s.Name)
	}
	if p.Exec == nil {
		return names
	}
	for _, folder := range append(filepath.SplitList(os.Getenv("PATH")), ownFolder()) {
		entries, _ := os.ReadDir(folder) // folders of the PATH need not exist
		for _, entry := range entries {
			name, ok := strings.CutPrefix(entry.Name(), separatePrefix)
			if runtime.GOOS == "windows" {
				name = strings.TrimSuffix(name, ".exe")
			}
			if ok && !slices.Contains(names, name) && FindSeparate(name) != "" {
				names = append(names, name)
			}
		}
	}
	return names
}
