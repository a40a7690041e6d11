package failure

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"slices"
	"syscall"

	"github.com/oacp-go/oacp/internal/durable"
)

// known is an error that knows its code and its hint.
type known struct {
	error
	code, hint string
}

// New returns an error with a code, and with a hint unless that is empty.
func New(code, text, hint string) error { return Wrap(code, errors.New(text), hint) }

// Wrap is New for an error that has a cause.
func Wrap(code string, err error, hint string) error { return &known{err, code, hint} }

func (e *known) Unwrap() error { return e.error }

func (e *known) Explain() (code, hint string) { return e.code, e.hint }

// A preceding error decides the code and the hint, whatever it is joined with or wrapped in.
type preceding interface {
	error
	Precedes()
}

// A severalError has a line for each of its parts.
type severalError interface {
	error
	Lines() []string
}

// ask asks the errors in the chain, the outermost first, and returns the first code and the first hint.
func ask(err error) (code, hint string) {
	if e, ok := err.(interface{ Explain() (code, hint string) }); ok {
		code, hint = e.Explain()
	}
	var wrapped []error
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		wrapped = []error{e.Unwrap()}
	case interface{ Unwrap() []error }:
		wrapped = e.Unwrap()
	}
	for _, e := range wrapped {
		innerCode, innerHint := ask(e)
		code, hint = cmp.Or(code, innerCode), cmp.Or(hint, innerHint)
	}
	return code, hint
}

// system has the errors of the system, which do not know what they mean.
var system = []struct {
	code    string
	targets []error
	hint    string
}{
	{"timeout", []error{context.DeadlineExceeded}, ""},
	{"cancelled", []error{context.Canceled}, ""},
	{"permission", []error{fs.ErrPermission}, "ls -ld shows the owner and the mode of the path; the owner can give access with chmod"},
	{"read_only", []error{syscall.EROFS}, "make it writable; in a sandbox, commands can write only to the folder that the program was started in: " +
		"start it in the workspace, or use the tools of oacp mcp"},
	{"disk_full", []error{syscall.ENOSPC, syscall.EDQUOT}, "free disk space and try again"},
	{"bad_file", []error{durable.ErrLink, syscall.ELOOP}, "replace the link with its target, or remove it"},
	{"bad_file", []error{durable.ErrNotFolder, syscall.ENOTDIR}, "a folder belongs there: move the existing file away"},
	{"bad_file", []error{durable.ErrNotRegular, syscall.ENXIO, syscall.EISDIR}, "a plain file belongs there: move away what exists"},
}

// classify returns the code and the hint of an error.
func classify(err error) (code, hint string) {
	code, hint = ask(err)
	for _, s := range system {
		if hint == "" && slices.ContainsFunc(s.targets, func(target error) bool { return errors.Is(err, target) }) {
			code, hint = cmp.Or(code, s.code), s.hint
		}
	}
	return cmp.Or(code, "failed"), hint
}
