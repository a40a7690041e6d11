//go:build unix && !linux

package processgroup

import "syscall"

func setDeathSignal(*syscall.SysProcAttr, syscall.Signal) {}
