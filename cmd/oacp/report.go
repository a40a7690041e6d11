package main

import (
	"fmt"
	"strings"

	"github.com/oacp-go/oacp/convert"
	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/visible"
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
func (a reportAnswer) print(asJSON bool, s *command.Streams) error {
	for _, line := range a.Skipped {
		s.Warn(fmt.Sprintf("%s:%d: skipped: %s", a.Bridge, line.Line, line.Reason))
	}
	for _, text := range a.Warnings {
		s.Warn(text)
	}
	if a.MoreWarnings > 0 {
		s.Warn(fmt.Sprintf("and %d more", a.MoreWarnings))
	}
	for _, letter := range a.DeadLetters {
		s.Warn(fmt.Sprintf("undeliverable: %s (now %s)", letter.Reason, letter.Path))
	}
	for _, text := range a.Invalid {
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
	return strings.Join(parts, ", ") + ": " + visible.Line(a.Bridge)
}
