// Package orphans finds and ends the processes that a process left behind
// when it was killed. It knows them by a mark in their environment, which they
// inherit however they detach themselves: a process group or a session is left
// more easily. A process that clears its environment is not found.
//
// Processes are found on Linux only; elsewhere there never are any.
package orphans

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"slices"
	"strings"
)

// Variable is the environment variable that holds the marks of a process,
// those of what started it first, with a colon between them.
const Variable = "OACP_RUNNER"

// maxMarks is how many marks a process has at most: the last ones.
const maxMarks = 16

// A Mark names something that is done, among all that ever was, and is borne by
// every process that is started for it. The zero value names nothing.
type Mark string

// NewMark makes up a mark.
func NewMark() Mark { return Mark(strings.ToLower(rand.Text())) }

type contextKey struct{}

// WithMark returns a context in which processes are started with the mark,
// besides those that the context has.
func WithMark(ctx context.Context, mark Mark) context.Context {
	if mark == "" {
		return ctx
	}
	marks, _ := ctx.Value(contextKey{}).([]Mark)
	return context.WithValue(ctx, contextKey{}, append(slices.Clip(marks), mark))
}

// Environ returns the variables, of the form NAME=value, that a process
// started in the context must have in its environment. It bears the marks of
// this process, too.
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
	return []string{Variable + "=" + strings.Join(all[max(0, len(all)-maxMarks):], ":")}
}

// valid reports whether a mark, which may have been read from a file, is one
// that NewMark makes.
func (m Mark) valid() bool {
	const digits = "abcdefghijklmnopqrstuvwxyz234567"
	return len(m) == len(rand.Text()) && strings.Trim(string(m), digits) == ""
}

// Process is a process that was ended.
type Process struct {
	ID int
	// Name is the name of its program, cut by the system.
	Name string
}

// End kills every process that bears one of the marks until there are none,
// and returns them. The caller and what it was started by are spared: whoever
// works in a session that was begun by what is to be ended goes on. What
// belongs to other users can be neither found nor killed. The error is the
// context's, or says what could not be killed.
func End(ctx context.Context, marks ...Mark) ([]Process, error) {
	marks = slices.DeleteFunc(slices.Clone(marks), func(m Mark) bool { return !m.valid() })
	if len(marks) == 0 {
		return nil, nil
	}
	return end(ctx, marks)
}

// List names processes for people, a few at most.
func List(processes []Process) string {
	const most = 5
	var names []string
	for i, p := range processes {
		if i == most {
			names = append(names, fmt.Sprintf("and %d more", len(processes)-most))
			break
		}
		names = append(names, fmt.Sprintf("%s (%d)", p.Name, p.ID))
	}
	return strings.Join(names, ", ")
}
