//go:build !linux

package live

import "time"

// codexIn returns nothing: this system does not say in which folder a process is.
func codexIn(string) []Process { return nil }

// codex returns the program to ring the process with.
func (p Process) codex() string { return string(Codex) }

// mayShow reports whether a session of a folder may be in a terminal, which nothing says here.
func mayShow(string) bool { return true }

// hasSuccessor reports whether the process of the session has opened another one, which nothing says here.
func (s *Session) hasSuccessor(time.Time) bool { return false }
