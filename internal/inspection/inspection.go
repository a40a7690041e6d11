// Package inspection inspects a workspace together with its machine, the repository around it and the settings of
// sessions, as oacp doctor reports it.
package inspection

import (
	"context"
	"errors"
	"strings"
	"time"

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
	report.Add(setup.Inspect(setup.Options{Workspace: w, Getenv: o.Getenv}, o.WorkingDir)...)
	sessions, err := setup.InspectErrors(w, o.Now)
	report.Add(sessions...)
	return err
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
