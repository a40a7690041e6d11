// Package orphans finds and ends the processes that a process left behind
// when it was killed. It knows them by a mark in their environment, which they
// inherit however they detach themselves: a process group or a session is left
// more easily.
//
// Processes are found on Linux only; elsewhere there never are any.
package orphans

import (
	"context"
	"crypto/rand"
	"strings"
)

// Variable is the environment variable that holds the mark.
const Variable = "OACP_RUNNER"

// A Mark names a process and all that it starts, among all there ever were.
// The zero value names none.
type Mark string

// NewMark makes up a mark.
func NewMark() Mark { return Mark(strings.ToLower(rand.Text())) }

type contextKey struct{}

// WithMark returns a context in which processes are started with the mark.
func WithMark(ctx context.Context, mark Mark) context.Context {
	return context.WithValue(ctx, contextKey{}, mark)
}

// Environ returns the variables, of the form NAME=value, that a process
// started in the context must have in its environment.
func Environ(ctx context.Context) []string {
	mark, _ := ctx.Value(contextKey{}).(Mark)
	if mark == "" {
		return nil
	}
	return []string{Variable + "=" + string(mark)}
}

// valid reports whether a mark, which may have been read from a file, is one
// that NewMark makes.
func (m Mark) valid() bool {
	const digits = "abcdefghijklmnopqrstuvwxyz234567"
	return len(m) == len(rand.Text()) && strings.Trim(string(m), digits) == ""
}

// End kills every process that has the mark, but not the caller, until there
// are none, and returns how many there were. What belongs to other users can
// be neither found nor killed. The error is the context's, or says what could
// not be killed.
func End(ctx context.Context, mark Mark) (ended int, err error) {
	if !mark.valid() {
		return 0, nil
	}
	return end(ctx, []byte("\x00"+Variable+"="+string(mark)+"\x00"))
}
