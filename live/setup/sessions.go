package setup

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/oacp-go/oacp/live"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/doctor"
)

// tested are the versions of the programs with which oacp was tried, and what works there.
var tested = map[live.Program]struct{ version, works string }{
	live.Claude: {"2.1.329", "mail comes at the start, with a prompt, after a tool and at the end of a turn, and wakes an idle session"},
	live.Codex:  {"0.169.0", "mail comes with a prompt, after a tool and at the end of a turn, and wakes an idle session"},
}

// InspectVersions compares the versions that the installed programs print with those that were tested.
func InspectVersions(versions map[live.Program]string) []doctor.Finding {
	var findings []doctor.Finding
	for _, program := range live.Programs() {
		text, installed := versions[program]
		if !installed {
			continue
		}
		f := doctor.Finding{Category: Category, Name: string(program) + " version", Severity: doctor.SeverityOK}
		version, want := regexp.MustCompile(`\d+(\.\d+)+`).FindString(text), tested[program]
		f.Message = version + " is tested: " + want.works
		if version != want.version {
			f.Message = fmt.Sprintf("%s is not tested; with %s, %s", version, want.version, want.works)
		}
		findings = append(findings, f)
	}
	return findings
}

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
		findings = append(findings, doctor.Finding{Category: Category, Name: name, Severity: severity, Message: fmt.Sprintf(format, args...), Hint: hint})
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
