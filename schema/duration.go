package schema

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// maxDuration bounds durations, so that adding one to a time cannot overflow.
const maxDuration = 100 * 365 * day

const day = 24 * time.Hour

// ParseDuration parses a length of time as people write it on a command line: a number and a unit,
// s, m (minutes), h or d, such as "90s", "2h" and "1d", or a sequence of them that
// time.ParseDuration accepts, such as "1h30m". Upper case and a space before the unit are accepted.
// ParseDuration returns an error for negative durations and for those over 100 years.
func ParseDuration(text string) (time.Duration, error) {
	compact := strings.ToLower(strings.ReplaceAll(strings.TrimSpace(text), " ", ""))
	if days, ok := strings.CutSuffix(compact, "d"); ok && isDigits(days) {
		n, err := strconv.ParseUint(days, 10, 32)
		if err != nil || n > uint64(maxDuration/day) {
			return 0, fmt.Errorf("%.40q is longer than 100 years", text)
		}
		return time.Duration(n) * day, nil
	}
	d, err := time.ParseDuration(compact)
	switch {
	case err != nil:
		return 0, fmt.Errorf("%.40q is not a duration such as 90s, 30m, 2h or 7d", text)
	case d < 0:
		return 0, fmt.Errorf("%.40q is negative", text)
	case d > maxDuration:
		return 0, fmt.Errorf("%.40q is longer than 100 years", text)
	}
	return d, nil
}
