//go:build unix && !linux && !darwin

package durable

import "golang.org/x/sys/unix"

func renameExclusively(int, string, int, string) error { return unix.ENOSYS }

func bootID() string { return "" }
