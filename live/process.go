package live

import (
	"slices"
	"strings"

	"github.com/oacp-go/oacp/internal/process"
)

// isShared reports whether the process runs the hooks of all sessions of codex, so that its parents say nothing about
// the session.
func isShared(p process.Info) bool {
	return slices.Contains(strings.Split(p.Arguments, "\x00"), "app-server")
}

// isScripted reports whether the process is a codex that works without a terminal: codex exec or codex review.
func isScripted(p process.Info) bool {
	return slices.ContainsFunc(strings.Split(p.Arguments, "\x00"), func(argument string) bool {
		return slices.Contains([]string{"exec", "e", "review"}, argument)
	})
}

// IsScripted reports whether the session that called this hook runs without a user, as with claude -p and codex exec.
func IsScripted(program Program, getenv func(string) string) bool {
	if program == Claude {
		return getenv("CLAUDE_CODE_SESSION_ATTENDED") == "0"
	}
	return isScripted(caller(program, getenv))
}

// caller returns the process that called this hook. For codex it ignores the environment, which may name a claude that
// started codex.
func caller(program Program, getenv func(string) string) process.Info {
	if program == Claude && getenv("CLAUDE_PID") != "" {
		return process.Caller(getenv)
	}
	return process.Ancestor()
}
