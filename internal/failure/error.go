package failure

import (
	"errors"
	"fmt"
	"syscall"
)

// An Error is an error that knows its code, its hint, or both.
type Error struct {
	// Code replaces the code of Err unless it is empty.
	Code string
	// Hint says what to do about the error.
	Hint string
	Err  error
}

func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// Usagef returns an error that says that the command line is wrong.
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
var ErrReported = errors.New("the output says what is wrong")

// ErrOutputClosed says that the reader of the output is gone. The program exits silently, as a
// process killed by SIGPIPE.
var ErrOutputClosed = errors.New("the output is closed")

// A SignalError says that a signal stopped the command.
type SignalError struct{ Signal syscall.Signal }

func (e *SignalError) Error() string { return "stopped by " + e.Signal.String() }
