package command

import (
	"strconv"
	"time"
)

// Age returns how long ago something was: in minutes below an hour, in hours below two days, then in
// days, as the reference implementation does.
func Age(from, now time.Time) string {
	minutes := int64(max(0, now.Sub(from)) / time.Minute)
	switch {
	case minutes < 60:
		return strconv.FormatInt(minutes, 10) + "m"
	case minutes < 48*60:
		return strconv.FormatInt(minutes/60, 10) + "h"
	}
	return strconv.FormatInt(minutes/(24*60), 10) + "d"
}
