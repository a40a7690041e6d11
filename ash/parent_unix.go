//go:build unix && !linux

package ash

import "syscall"

// dieWithParent does nothing: there is no such thing on this system.
func dieWithParent(*syscall.SysProcAttr) {}
