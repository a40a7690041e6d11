//go:build unix

package durable

import (
	"os"

	"golang.org/x/sys/unix"
)

const lockFlags = os.O_CREATE | os.O_RDONLY | unix.O_NOFOLLOW | unix.O_NONBLOCK
