//go:build unix

package durable

import (
	"os"

	"golang.org/x/sys/unix"
)

// LockFlags is how to open a lock file: it is made where there is none, not
// looked for behind a link, which may lead anywhere, and a pipe in its place
// is not waited for.
const LockFlags = os.O_CREATE | os.O_RDONLY | unix.O_NOFOLLOW | unix.O_NONBLOCK
