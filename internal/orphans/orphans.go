// Package orphans ends the processes that a killed process left behind. It finds them by a mark in
// their environment, which they inherit even if they leave their process group or session. It does not
// find a process that clears its environment. On systems other than Linux, it finds none.
package orphans

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Variable is the environment variable with the marks of a process, outer ones first, separated by
// colons.
const Variable = "OACP_RUNNER"

// A Mark is in the environment of every process that is started for one purpose. The zero Mark stands
// for none.
type Mark string

// An Owner starts processes for one purpose. It ends only those with its own marks, because a mark may come from a file that
// others can write.
type Owner string

// OwnerOf returns the owner for a folder, whatever links lead there, and a purpose in it.
func OwnerOf(folder string, purpose ...string) Owner {
	if real, err := filepath.EvalSymlinks(folder); err == nil {
		folder = real
	}
	sum := sha256.Sum256([]byte(strings.Join(append(purpose, folder), "\x00")))
	return Owner(strings.ToLower(base32.StdEncoding.EncodeToString(sum[:10])))
}

// NewMark returns a mark of the owner that no process has.
func (o Owner) NewMark() Mark { return Mark(string(o) + strings.ToLower(rand.Text())) }

type contextKey struct{}

// WithMark returns a context in which processes start with the mark and with the marks of ctx.
func WithMark(ctx context.Context, mark Mark) context.Context {
	if mark == "" {
		return ctx
	}
	marks, _ := ctx.Value(contextKey{}).([]Mark)
	return context.WithValue(ctx, contextKey{}, append(slices.Clip(marks), mark))
}

// Environ returns variables of the form NAME=value for a process that starts in the context. They
// include the marks of this process.
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

// Inside reports whether this process was started with one of the marks. On Linux it also asks the ancestors of the
// process, because some programs do not pass on their environment.
func Inside(marks ...Mark) bool {
	own := strings.Split(os.Getenv(Variable), ":")
	return slices.ContainsFunc(marks, func(m Mark) bool { return m.valid() && slices.Contains(own, string(m)) }) || descends(marks)
}

// valid reports whether a mark, which may come from a file, has the form of NewMark's.
func (m Mark) valid() bool {
	const digits = "abcdefghijklmnopqrstuvwxyz234567"
	return len(m) == len(OwnerOf("").NewMark()) && strings.Trim(string(m), digits) == ""
}

// End kills the processes with one of the marks of the owner until there are none, and returns them in the form
// "sleep (4711)". It spares the caller and its ancestors, so that a shell with a mark can start the
// caller. It does not find processes of other users. End returns an error if ctx ends or if a process
// cannot be killed.
func (o Owner) End(ctx context.Context, marks ...Mark) ([]string, error) {
	marks = slices.DeleteFunc(slices.Clone(marks), func(m Mark) bool { return !m.valid() || !strings.HasPrefix(string(m), string(o)) })
	if len(marks) == 0 {
		return nil, nil
	}
	return end(ctx, marks)
}
