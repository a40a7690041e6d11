//go:build unix

package machine

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// fewFiles is how many open files a large batch of messages needs.
const fewFiles = 512

func openFiles() []Check {
	check := Check{Name: "open files", For: "sending many messages at once", Status: Good}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		check.Status, check.Detail = Absent, err.Error()
		return []Check{check}
	}
	check.Detail = fmt.Sprintf("at most %d", limit.Cur)
	if limit.Cur < fewFiles {
		check.Status, check.Hint = Poor, fmt.Sprintf("ulimit -n %d", fewFiles)
	}
	return []Check{check}
}
