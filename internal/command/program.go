// Package command is the command line that the oacp programs share: order of arguments, streams,
// errors with exit statuses, help, completion, signals, and the flags that name a workspace or a
// bridge log.
package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/sibling"
	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/validate"
)

// A Program is a set of commands, called as "oacp NAME".
type Program struct {
	// Commands are the commands in the order of the help text.
	Commands []Entry
	// Separate are commands that are programs of their own, which are installed with this one.
	Separate []Separate
}

// An Entry makes a command. A command is only made when it is called or explained.
type Entry struct {
	Name string
	New  func(*Streams) *cli.Command
	// Silent commands print errors but exit with ExitDone, because the programs that call them would take another
	// status for an answer.
	Silent bool
	// Reads reports that the command changes nothing that could be repeated.
	Reads bool
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
	p := &Program{Commands: []Entry{{Name: name, New: newCommand, Reads: true}, {Name: "version", New: NewVersionCommand, Reads: true}}}
	os.Exit(p.Run(context.Background(), argumentsOf(name, os.Args[1:]), ProcessStreams()))
}

// argumentsOf returns the arguments of a program that is one command, as "oacp" would take them.
func argumentsOf(name string, args []string) []string {
	if len(args) > 0 && (args[0] == "-V" || args[0] == "--version" || args[0] == manualCommand) {
		return args
	}
	if len(args) > 0 && args[0] == asPerson {
		return append([]string{asPerson, name}, args[1:]...)
	}
	return append([]string{name}, args...)
}

// asPerson is the word before a command by which a person acts in a live session; see ActingAgent.
const asPerson = "--as-person"

// Run carries out a command line and returns the exit status. Every error of every command ends
// here.
func (p *Program) Run(ctx context.Context, args []string, s *Streams) int {
	s.AsPerson = len(args) > 0 && args[0] == asPerson
	if s.AsPerson {
		args = args[1:]
	}
	err := s.checkAsPerson()
	if err == nil {
		err = p.execute(ctx, args, s)
	}
	if flushErr := s.Out.Flush(); err == nil {
		err = flushErr
	}
	if err == nil {
		return failure.ExitDone
	}
	f := failure.Of(err)
	status := report(f, s, wantsJSON(args))
	if f.Code != "" && len(args) > 0 && slices.ContainsFunc(p.Commands, func(e Entry) bool { return e.Silent && e.Name == args[0] }) {
		return failure.ExitDone
	}
	return status
}

// checkAsPerson refuses --as-person in a turn, which no person can see or stop. In a session, its program asks the user.
func (s *Streams) checkAsPerson() error {
	if s.AsPerson && s.inTurn() {
		return failure.New("in_session", "a turn of an agent does not act for a person", "she does that in a terminal of her own")
	}
	return nil
}

func (p *Program) execute(ctx context.Context, args []string, s *Streams) error {
	switch {
	case len(args) == 0:
		return p.help(ctx, nil, s)
	case args[0] == completeCommand:
		p.printCandidates(ctx, args[1:], s)
		return nil
	case args[0] == manualCommand:
		return p.writeManual(args[1:], s)
	case args[0] == "help":
		return p.help(ctx, args[1:], s)
	}
	call, err := p.parse(args, s)
	switch {
	case err != nil:
		return err
	case call.separate != "" && call.help: // it precedes the command
		return runSeparate(call.separate, append(call.words, "--help"))
	case call.separate != "" && s.AsPerson:
		return runSeparate(call.separate, append([]string{asPerson}, call.words...))
	case call.separate != "":
		return runSeparate(call.separate, call.words)
	case call.help && call.command == nil:
		return p.help(ctx, nil, s)
	case call.help:
		writeCommandHelp(s.Out, call.command, call.all)
		return nil
	case call.command == nil:
		return errNoCommand()
	}
	err = call.run(ctx)
	if printErr := s.Out.Flush(); printErr != nil && (err == nil || errors.As(err, new(*failure.StatusError))) {
		err = p.notPrinted(call, OutputError(printErr))
	}
	if err != nil {
		return fmt.Errorf("%s: %w", call.name(), err)
	}
	return nil
}

// notPrinted returns the error of a command that is done, but whose output failed.
func (p *Program) notPrinted(call *call, err error) error {
	name, _, _ := strings.Cut(call.name(), " ")
	if slices.ContainsFunc(p.Commands, func(e Entry) bool { return e.Name == name && e.Reads }) {
		return fmt.Errorf("printing failed: %w", err)
	}
	return failure.WithHint(fmt.Errorf("it is done, but printing the result failed: %w", err), "do not repeat it")
}

// report prints a failure and returns the exit status.
func report(f failure.Failure, s *Streams, asJSON bool) int {
	if f.Code == "" {
		return f.Exit
	}
	if asJSON {
		var findings validate.Diagnostics
		if invalid, ok := f.Findings.(*validate.InvalidError); ok {
			findings = invalid.Diagnostics
		}
		// If standard output fails, the text on standard error remains.
		_ = WriteJSONLine(s.Out, struct {
			Error    string               `json:"error"`
			Code     string               `json:"code"`
			Hint     string               `json:"hint,omitempty"`
			Findings validate.Diagnostics `json:"diagnostics,omitempty"`
		}{f.Message(), f.Code, f.Hint, findings})
		_ = s.Out.Flush()
	}
	var text strings.Builder
	for _, line := range f.Lines() {
		fmt.Fprintf(&text, "oacp: %s\n", visible.Line(line))
	}
	if f.Hint != "" {
		fmt.Fprintf(&text, "hint: %s\n", visible.Line(f.Hint))
	}
	s.Tell("%s", text.String())
	return f.Exit
}

// Separate is a command that is a program of its own: "oacp NAME" runs the program oacp-NAME.
type Separate struct {
	Name     string
	Category string
	// Usage is empty for a program that other commands call. Help does not list it.
	Usage string
}

// runSeparate replaces this process by the program, which then receives the signals and sets the exit
// status.
func runSeparate(name string, args []string) error {
	path := sibling.Find(name)
	if path == "" {
		return &failure.Error{
			Code: "not_installed",
			Hint: "go install ./cmd/... in a clone of the repository installs it",
			Err:  fmt.Errorf("%s: the program %s is neither next to oacp nor on the PATH", name, sibling.Prefix+name),
		}
	}
	return replaceProcess(path, append([]string{path}, args...))
}
