//go:build unix && !linux

package agent

import "syscall"

// dieWithParent does nothing: there is no such thing on this system.
func dieWithParent(*syscall.SysProcAttr, syscall.Signal) {}
