package main

import (
	"fmt"
	"strings"

	"github.com/oacp-go/oacp/convert/mirror"
	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/visible"
)

// reportAnswer is what mirror and convert did, as JSON.
type reportAnswer struct {
	Bridge string `json:"bridge_path,omitempty"`
	mirror.Report
	// Invalid are the message files that could not be converted.
	Invalid []string `json:"invalid,omitempty"`
	// Error is what stopped the work; it will be tried again.
	Error string `json:"error,omitempty"`
}

// print says what was done and, on standard error, what was not. It returns failure.ErrReported if
// something is undeliverable or invalid.
func (a reportAnswer) print(asJSON bool, s *command.Streams) error {
	var warnings []string
	for _, line := range a.Skipped {
		warnings = append(warnings, fmt.Sprintf("%s:%d: skipped: %s", a.Bridge, line.Line, line.Reason))
	}
	warnings = append(warnings, a.Warnings...)
	if a.MoreWarnings > 0 {
		warnings = append(warnings, fmt.Sprintf("and %d more", a.MoreWarnings))
	}
	for _, letter := range a.DeadLetters {
		warnings = append(warnings, fmt.Sprintf("undeliverable: %s (now %s)", letter.Reason, letter.Path))
	}
	for _, text := range append(warnings, a.Invalid...) {
		s.Warn(text)
	}
	var err error
	if asJSON {
		err = command.WriteJSONLine(s.Out, a)
	} else {
		_, err = fmt.Fprintln(s.Out, a.summary())
	}
	if err == nil && len(a.DeadLetters)+len(a.Invalid) > 0 {
		err = failure.ErrReported
	}
	return err
}

// summary says in one line what was done.
func (a reportAnswer) summary() string {
	parts := []string{fmt.Sprintf("%d recorded", a.Recorded), fmt.Sprintf("%d delivered", a.Delivered)}
	already := a.AlreadyRecorded + a.AlreadyDelivered
	if a.Recorded+a.Delivered > 0 {
		already = 0 // the second direction also finds what the first one just did
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
	return strings.Join(parts, ", ") + ": " + visible.Line(a.Bridge)
}
