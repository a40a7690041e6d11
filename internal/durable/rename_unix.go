//go:build unix && !linux && !darwin

package durable

import (
	"io/fs"
	"time"

	"golang.org/x/sys/unix"
)

// Changed returns the zero time, because these systems name that time differently.
func Changed(fs.FileInfo) time.Time { return time.Time{} }

func renameExclusively(int, string, int, string) error { return unix.ENOSYS }

func bootID() string { return "" }
