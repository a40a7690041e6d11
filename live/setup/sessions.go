package setup

import (
	"fmt"
	"strings"
	"time"

	"github.com/oacp-go/oacp/live"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/doctor"
)

// lastErrors is how many of the last errors of hooks are reported, and errorsAge for how long.
const (
	lastErrors = 3
	errorsAge  = 24 * time.Hour
)

// InspectSessions reports the sessions of a workspace, which events their hooks have seen, and the
// last errors of hooks.
func InspectSessions(w *mailbox.Workspace, now time.Time) ([]doctor.Finding, error) {
	sessions, err := live.Sessions(w)
	if err != nil {
		return nil, err
	}
	var findings []doctor.Finding
	add := func(name string, severity doctor.Severity, hint, format string, args ...any) {
		findings = append(findings, doctor.Finding{Category: category, Name: name, Severity: severity, Message: fmt.Sprintf(format, args...), Hint: hint})
	}
	for _, s := range sessions {
		var seen []string
		for _, event := range events[s.Program] {
			if !s.Events[event].IsZero() {
				seen = append(seen, event)
			}
		}
		folder := ""
		if s.Dir != "" {
			folder = " in " + s.Dir
		}
		add("session "+s.ID, doctor.SeverityOK, "", "%s for agent %s%s, since %s; seen: %s",
			s.Program, s.Agent, folder, s.Began.UTC().Format(time.RFC3339), strings.Join(seen, ", "))
	}
	lines, err := live.Errors(w, now.Add(-errorsAge))
	for _, line := range lines[max(0, len(lines)-lastErrors):] {
		add("hook", doctor.SeverityWarning, live.ErrorsFile+" has them all", "%s", line)
	}
	return findings, err
}
