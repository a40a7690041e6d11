package mirror

import (
	"errors"
	"fmt"

	"github.com/oacp-go/oacp/bridge"
)

// Report says what a Mirror, Append or Deliver did.
type Report struct {
	// Recorded counts the records that were appended to the log, and AlreadyRecorded those that were there.
	Recorded        int `json:"recorded"`
	AlreadyRecorded int `json:"already_recorded"`
	// LeftOut counts the messages that do not belong in the log: made before its run began, or born in
	// another log. See Mirror for how to have them recorded.
	LeftOut int `json:"left_out,omitempty"`
	// Delivered counts the messages that were delivered, and AlreadyDelivered the records whose message
	// was there.
	Delivered        int `json:"delivered"`
	AlreadyDelivered int `json:"already_delivered"`
	// DeadLetters are the records that could not be delivered and became dead letters now;
	// AlreadyDead counts those that had been before.
	DeadLetters []DeadLetter `json:"dead_letters,omitempty"`
	AlreadyDead int          `json:"already_dead"`
	// Skipped are the lines of the log that are no records.
	Skipped []SkippedLine `json:"skipped,omitempty"`
	// Warnings are what was odd but kept nothing from being done. At most maxWarnings are kept, and
	// MoreWarnings counts the others.
	Warnings     []string `json:"warnings,omitempty"`
	MoreWarnings int      `json:"more_warnings,omitempty"`
}

// DeadLetter is a record that could not be delivered.
type DeadLetter struct {
	// Line is the number of the record's line in the log, 0 where there is none.
	Line int `json:"line,omitempty"`
	// Path is where the letter stands, with its reason beside it.
	Path   string `json:"path"`
	Reason string `json:"reason"`
}

// SkippedLine is a line of a log that is no record.
type SkippedLine struct {
	Line   int    `json:"line"`
	Reason string `json:"reason"`
}

// maxWarnings bounds what a long log of odd records costs in memory.
const maxWarnings = 1000

// Quiet reports whether there is nothing to tell of but what had been done before.
func (r *Report) Quiet() bool {
	return r.Recorded == 0 && r.LeftOut == 0 && r.Delivered == 0 && len(r.DeadLetters) == 0 && len(r.Skipped) == 0 && len(r.Warnings) == 0
}

func (r *Report) warn(format string, args ...any) {
	if len(r.Warnings) == maxWarnings {
		r.MoreWarnings++
		return
	}
	r.Warnings = append(r.Warnings, fmt.Sprintf(format, args...))
}

// skip takes note of a skipped line, and reports whether the error is one.
func (r *Report) skip(err error) bool {
	var line *bridge.LineError
	if !errors.As(err, &line) {
		return false
	}
	r.Skipped = append(r.Skipped, SkippedLine{line.Line, line.Err.Error()})
	return true
}
