//go:build !linux

package live

import (
	"time"

	"github.com/oacp-go/oacp/internal/process"
)

// codexIn returns nil: this system does not say in which folder a process is.
func codexIn(string) []process.Process { return nil }

// codexOf returns the program that rings a process.
func codexOf(process.Process) string { return string(Codex) }

// mayShow reports whether a session of a folder may be in a terminal. Here that is unknown.
func mayShow(string) bool { return true }

// hasSuccessor reports whether the process of the session has opened another one. Here that is unknown.
func (s *Session) hasSuccessor(time.Time) bool { return false }
