// Package failure asks errors for what people and programs see of them: a code, an exit status and a
// hint. All programs use it, so the same mistake has the same code everywhere.
//
// An error says its code and its hint with a method
//
//	Explain() (code, hint string)
//
// Either may be empty: then the errors that it wraps say it.
package failure

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"syscall"

	"github.com/oacp-go/oacp/internal/spelling"
)

// Exit statuses.
const (
	ExitDone   = 0
	ExitFailed = 1
	ExitUsage  = 2
	// ExitTimeout is the status of a command whose wait for a message timed out.
	ExitTimeout = 3
	// exitSignal plus its number is the status of a command that a signal stopped.
	exitSignal = 128
)

// CodeUsage is the code of a wrong command line or of wrong arguments.
const CodeUsage = "usage"

// A Failure is an error made ready for people and programs.
type Failure struct {
	// Code is part of the interface and stays the same from version to version. It is empty if
	// nothing is left to print.
	Code string
	// Exit is the exit status of the program.
	Exit int
	// Hint says what to do, if this is known.
	Hint string
	// Findings are the problems of an invalid message, or nil.
	Findings severalError

	err error
}

// Of returns the failure that the error means.
func Of(err error) Failure {
	f := Failure{Exit: ExitFailed, err: err}
	if status, isReported := errors.AsType[*StatusError](err); isReported {
		f.Exit = status.Status
		return f
	}
	if errors.Is(err, ErrOutputClosed) {
		f.Exit = exitSignal + int(syscall.SIGPIPE)
		return f
	}
	explained := outermost(err)
	signal, isSignal := errors.AsType[*SignalError](err)
	first, precedes := errors.AsType[preceding](err)
	switch {
	case explained.Code != "":
		f.Code = explained.Code
	case precedes:
		f.Code, f.Hint = classify(first)
	case isSignal:
		f.Code = "interrupted"
	default:
		f.Code, f.Hint = classify(err)
	}
	f.Hint = cmp.Or(explained.Hint, f.Hint)
	switch {
	case explained.Exit != 0:
		f.Exit = explained.Exit
	case f.Code == CodeUsage || f.Code == "no_sender":
		f.Exit = ExitUsage
	case isSignal:
		f.Exit = exitSignal + int(signal.Signal)
	}
	if several, ok := errors.AsType[severalError](err); ok && f.Code == "invalid_message" {
		f.Findings = several
	}
	return f
}

// outermost returns the outermost hint, code and exit status of the errors of this package in the chain.
func outermost(err error) (all Error) {
	for e, ok := errors.AsType[*Error](err); ok && all.Code == ""; e, ok = errors.AsType[*Error](e.Err) {
		all.Code, all.Hint, all.Exit = e.Code, cmp.Or(all.Hint, e.Hint), cmp.Or(all.Exit, e.Exit)
	}
	return all
}

// Message returns the error on one line.
func (f Failure) Message() string { return OneLine(f.err.Error()) }

// Lines returns the message, or one line for each finding if there are any.
func (f Failure) Lines() []string {
	if f.Findings == nil {
		return []string{f.Message()}
	}
	lines := f.Findings.Lines()
	prefix := strings.TrimSuffix(f.err.Error(), f.Findings.Error())
	for i := range lines {
		lines[i] = prefix + lines[i]
	}
	return lines
}

// OneLine returns the text of one or more errors on one line.
func OneLine(text string) string {
	return strings.ReplaceAll(strings.TrimSpace(spelling.PlainYAML(text)), "\n", "; ")
}

// An Error is an error that knows its code, its exit status or its hint.
type Error struct {
	// Code replaces the code of Err unless it is empty.
	Code string
	// Exit replaces the exit status unless it is 0.
	Exit int
	// Hint says what to do about the error.
	Hint string
	Err  error
}

func (e *Error) Error() string { return e.Err.Error() }

func (e *Error) Unwrap() error { return e.Err }

// Usagef returns an error for a wrong command line.
func Usagef(format string, args ...any) *Error {
	return &Error{Code: CodeUsage, Err: fmt.Errorf(format, args...)}
}

// WithHint sets the hint.
func (e *Error) WithHint(hint string) *Error {
	e.Hint = hint
	return e
}

// WithHint adds a hint to an error, which keeps its code.
func WithHint(err error, hint string) error { return &Error{Hint: hint, Err: err} }

// ErrReported is returned by a command whose output already says what is wrong.
var ErrReported error = &StatusError{ExitFailed}

// A StatusError is an exit status, of a command whose output already says why.
type StatusError struct{ Status int }

func (e *StatusError) Error() string { return fmt.Sprintf("exit status %d", e.Status) }

// ErrOutputClosed reports that the reader of the output is gone. The program exits silently, as a
// process killed by SIGPIPE.
var ErrOutputClosed = errors.New("the output is closed")

// A SignalError reports that a signal stopped the command.
type SignalError struct{ Signal syscall.Signal }

func (e *SignalError) Error() string { return "stopped by " + e.Signal.String() }
