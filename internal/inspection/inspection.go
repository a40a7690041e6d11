// Package inspection inspects a workspace together with its machine, the repository around it and the settings of
// sessions, as oacp doctor reports it.
package inspection

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/oacp-go/oacp/agent"
	"github.com/oacp-go/oacp/live/setup"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/doctor"
	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/mailbox/settings"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn"
	"github.com/oacp-go/oacp/turn/notify"
)

// Options say where and when an inspection takes place.
type Options struct {
	// WorkingDir is the folder in which sessions would start.
	WorkingDir string
	Getenv     func(string) string
	// Contract is the program that checks schemas; see func() string { return sibling.Find("contract") }.
	Contract string
	Now      time.Time
	// Repair completes interrupted deliveries first. Otherwise an inspection changes nothing.
	Repair bool
}

// Workspace adds to the report what an inspection of the workspace finds. With an error, it has added what it could find.
func Workspace(ctx context.Context, w *mailbox.Workspace, report *doctor.Report, o Options) error {
	report.Workspace = w.Dir()
	enclosing, err := project.Enclosing(o.WorkingDir, w.Dir())
	if err != nil {
		return err
	}
	options := doctor.Options{Now: o.Now, Autonomy: autonomyOf, Notify: notify.Check, Contract: o.Contract, Enclosing: enclosing}
	var findings []doctor.Finding
	if o.Repair {
		report.Fixed, findings, err = doctor.Repair(ctx, w, options)
	} else {
		findings, err = doctor.Inspect(ctx, w, options)
	}
	for _, category := range doctor.Categories {
		report.Group(category)
	}
	report.Add(findings...)
	if err != nil {
		return err
	}
	waiting, _, _ := settings.Waiting(w) // the findings have its errors
	for n, f := range waiting {
		e := settings.NewNotAllowedError(f)
		_, hint := e.Explain()
		if n < len(waiting)-1 { // once
			hint = ""
		}
		report.Add(doctor.Finding{Category: doctor.Categories[0], Name: f.Path, Severity: doctor.SeverityWarning, Message: strings.TrimPrefix(e.Error(), f.Path+": "), Hint: hint})
	}
	live := setup.Inspect(setup.Options{Workspace: w, Getenv: o.Getenv}, o.WorkingDir)
	report.Add(append(live, versions(live)...)...)
	sessions, err := setup.InspectErrors(w, o.Now)
	report.Add(sessions...)
	return err
}

// versions compares the programs that are set up, by the findings, with the releases that were tested.
func versions(live []doctor.Finding) (findings []doctor.Finding) {
	for _, p := range agent.KnownPrograms() {
		isSetUp := slices.ContainsFunc(live, func(f doctor.Finding) bool { return strings.HasPrefix(f.Name, p.Name+" (") })
		if there := p.Installed(); isSetUp && there != "" {
			message := there + " is installed, which was tested"
			if there != p.Version {
				message = there + " is installed; tested with " + p.Version
			}
			findings = append(findings, doctor.Finding{Category: live[0].Category, Name: p.Name, Severity: doctor.SeverityOK, Message: message})
		}
	}
	return findings
}

// autonomyOf returns the mode of an agent under oacp run, or why oacp run does not start: the settings are invalid or, with
// a *settings.NotAllowedError, not allowed. A command line can replace the second, and give what is missing.
func autonomyOf(w *mailbox.Workspace, name schema.AgentName) (project.Autonomy, error) {
	loaded, err := turn.LoadSettings(w, name)
	if err == nil {
		_, driverErr := loaded.NewDriver()
		if refused, ok := errors.AsType[*settings.NotAllowedError](driverErr); ok {
			err = refused
		}
	}
	return loaded.Autonomy, err
}
