package mirror

import (
	"errors"
	"fmt"

	"github.com/oacp-go/oacp/bridge"
)

// Report says what a Mirror, Append or Deliver did.
type Report struct {
	// Recorded counts the records that were appended to the log, and AlreadyRecorded those that it
	// had before.
	Recorded        int `json:"recorded"`
	AlreadyRecorded int `json:"already_recorded"`
	// LeftOut counts the messages that do not belong in the log; see Mirror.Since and Mirror.All.
	LeftOut int `json:"left_out,omitempty"`
	// Delivered counts the messages that were delivered, and AlreadyDelivered the records whose
	// message had been delivered before.
	Delivered        int `json:"delivered"`
	AlreadyDelivered int `json:"already_delivered"`
	// DeadLetters are the records that could not be delivered and became dead letters now.
	// AlreadyDead counts those that had become dead letters before.
	DeadLetters []DeadLetter `json:"dead_letters,omitempty"`
	AlreadyDead int          `json:"already_dead"`
	// Skipped are the lines of the log that are not records.
	Skipped []SkippedLine `json:"skipped,omitempty"`
	// Warnings are at most maxWarnings texts, and MoreWarnings counts the others.
	Warnings     []string `json:"warnings,omitempty"`
	MoreWarnings int      `json:"more_warnings,omitempty"`
}

// DeadLetter is a record that could not be delivered.
type DeadLetter struct {
	// Line is the number of the record's line in the log, 0 if it has none.
	Line int `json:"line,omitempty"`
	// Path is the letter's file; a file with the reason is beside it.
	Path   string `json:"path"`
	Reason string `json:"reason"`
}

// SkippedLine is a line of a log that is not a record.
type SkippedLine struct {
	Line   int    `json:"line"`
	Reason string `json:"reason"`
}

// maxWarnings bounds the memory that a long log of odd records takes.
const maxWarnings = 1000

// Quiet reports whether nothing was done, and nothing is to be reported.
func (r *Report) Quiet() bool {
	return r.Recorded+r.LeftOut+r.Delivered+len(r.DeadLetters)+len(r.Skipped)+len(r.Warnings) == 0
}

func (r *Report) warn(format string, args ...any) {
	if len(r.Warnings) == maxWarnings {
		r.MoreWarnings++
		return
	}
	r.Warnings = append(r.Warnings, fmt.Sprintf(format, args...))
}

// skip reports whether the error is a skipped line, and counts it.
func (r *Report) skip(err error) bool {
	var line *bridge.LineError
	if !errors.As(err, &line) {
		return false
	}
	r.Skipped = append(r.Skipped, SkippedLine{line.Line, line.Err.Error()})
	return true
}
