// Package orphans finds and ends the processes that a killed process left behind. It knows them by
// a mark in their environment, which they inherit even if they leave their process group or
// session. It does not find a process that clears its environment.
//
// It finds processes on Linux only.
package orphans

import (
	"context"
	"crypto/rand"
	"os"
	"slices"
	"strings"
)

// Variable is the environment variable with the marks of a process, outer ones first, separated by
// colons.
const Variable = "OACP_RUNNER"

// A Mark is in the environment of every process that is started for one purpose. The zero value is
// no mark.
type Mark string

// NewMark returns a mark that no process has.
func NewMark() Mark { return Mark(strings.ToLower(rand.Text())) }

type contextKey struct{}

// WithMark returns a context in which processes are started with the mark, and those of the
// context.
func WithMark(ctx context.Context, mark Mark) context.Context {
	if mark == "" {
		return ctx
	}
	marks, _ := ctx.Value(contextKey{}).([]Mark)
	return context.WithValue(ctx, contextKey{}, append(slices.Clip(marks), mark))
}

// Environ returns the variables, of the form NAME=value, for the environment of a process that is
// started in the context. They include the marks of this process.
func Environ(ctx context.Context) []string {
	marks, _ := ctx.Value(contextKey{}).([]Mark)
	if len(marks) == 0 {
		return nil
	}
	var all []string
	if own := os.Getenv(Variable); own != "" {
		all = strings.Split(own, ":")
	}
	for _, mark := range marks {
		all = append(all, string(mark))
	}
	return []string{Variable + "=" + strings.Join(all, ":")}
}

// valid reports whether a mark, which may come from a file, is one that NewMark makes.
func (m Mark) valid() bool {
	const digits = "abcdefghijklmnopqrstuvwxyz234567"
	return len(m) == len(rand.Text()) && strings.Trim(string(m), digits) == ""
}

// End kills the processes with one of the marks until there are none, and returns them in the form
// "sleep (4711)". It spares the caller and its ancestors, so that a shell with a mark can start the
// caller. It finds no processes of other users. The error is the context's, or says what could not
// be killed.
func End(ctx context.Context, marks ...Mark) ([]string, error) {
	marks = slices.DeleteFunc(slices.Clone(marks), func(m Mark) bool { return !m.valid() })
	if len(marks) == 0 {
		return nil, nil
	}
	return end(ctx, marks)
}
