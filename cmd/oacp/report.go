package main

import (
	"fmt"
	"strings"

	"github.com/oacp-go/oacp/convert"
)

// reportAnswer is what mirror and convert did, as JSON.
type reportAnswer struct {
	Bridge string `json:"bridge_path,omitempty"`
	convert.Report
	// Invalid are the message files that could not be converted.
	Invalid []string `json:"invalid,omitempty"`
	// Error is what made the work stop, to be tried again.
	Error string `json:"error,omitempty"`
}

// print says what was done, and on standard error what could not be. Where
// something is undeliverable or invalid, the command has failed.
func (a reportAnswer) print(asJSON bool, s *streams) error {
	for _, line := range a.Skipped {
		warn(s, fmt.Sprintf("%s:%d: skipped: %s", a.Bridge, line.Line, line.Reason))
	}
	for _, text := range a.Warnings {
		warn(s, text)
	}
	if a.MoreWarnings > 0 {
		warn(s, fmt.Sprintf("and %d more", a.MoreWarnings))
	}
	for _, letter := range a.DeadLetters {
		warn(s, fmt.Sprintf("undeliverable: %s (now %s)", letter.Reason, letter.Path))
	}
	for _, text := range a.Invalid {
		warn(s, text)
	}
	var err error
	if asJSON {
		err = writeJSONLine(s.out, a)
	} else {
		_, err = fmt.Fprintln(s.out, a.summary())
	}
	if err == nil && len(a.DeadLetters)+len(a.Invalid) > 0 {
		err = errTold
	}
	return err
}

// summary says in one line what was done.
func (a reportAnswer) summary() string {
	parts := []string{fmt.Sprintf("%d recorded", a.Recorded), fmt.Sprintf("%d delivered", a.Delivered)}
	already := a.AlreadyRecorded + a.AlreadyDelivered
	if a.Recorded+a.Delivered > 0 {
		already = 0 // also what was just done is there when the other way is looked at
	}
	for _, more := range []struct {
		count int
		what  string
	}{
		{already, "there already"},
		{len(a.DeadLetters), "undeliverable"},
		{len(a.Invalid), "invalid"},
		{a.LeftOut, "left out"},
		{len(a.Skipped), "skipped"},
	} {
		if more.count > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", more.count, more.what))
		}
	}
	return strings.Join(parts, ", ") + ": " + escapeLine(a.Bridge)
}
