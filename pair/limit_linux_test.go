package pair

import (
	"os/signal"
	"strconv"

	"golang.org/x/sys/unix"
)

const canLimitFiles = true

// limitFiles simulates a full disk: writes beyond the limit fail.
func limitFiles(limit string) error {
	if limit == "" {
		return nil
	}
	most, err := strconv.ParseUint(limit, 10, 64)
	if err != nil {
		return err
	}
	signal.Ignore(unix.SIGXFSZ)
	return unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: most, Max: most})
}
