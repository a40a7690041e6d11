package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/fatih/color"
	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/inspection"
	"github.com/oacp-go/oacp/internal/sibling"
	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/doctor"
	"github.com/oacp-go/oacp/mailbox/project"
)

// A doctorCall is a call of doctor.
type doctorCall struct {
	*call
	fix bool
}

func newDoctorCommand(s *command.Streams) *cli.Command {
	c := &doctorCall{call: newCall(s)}
	return &cli.Command{
		Name:      "doctor",
		Category:  command.CategoryWorkspace,
		Usage:     "find and fix problems",
		ArgsUsage: "[PROJECT]",
		Description: `doctor checks the programs that agents need, the folders of the workspace, interrupted
deliveries, messages that are invalid, old or dead, keys, schemas for bodies, the
settings of agents, how git treats messages, and whether mail reaches sessions of claude
and codex. Without --fix it changes nothing. With --fix it completes interrupted
deliveries: it delivers sent messages and removes leftovers.
The exit status is 1 if errors remain; warnings do not count.`,
		Flags:  c.flagsWith(&cli.BoolFlag{Name: "fix", Usage: "complete interrupted deliveries", Destination: &c.fix}),
		Action: c.ofProject(c.run),
	}
}

func (c *doctorCall) run() error {
	defer c.catchSignals()()
	report := doctor.Report{Fixed: []string{}}
	report.Add(doctor.InspectMachine()...)
	if err := c.inspect(&report); err != nil {
		return err
	}
	if err := context.Cause(c.ctx); err != nil {
		return err
	}
	if err := c.answer(&report, func() { writeReport(&report, c.Streams) }); err != nil {
		return err
	}
	if report.HasErrors {
		return failure.ErrReported
	}
	return nil
}

// inspect inspects the workspace, after repairing it with --fix. Without a workspace, doctor still checks the
// machine.
func (c *doctorCall) inspect(report *doctor.Report) error {
	place := c.place.Place(c.Streams)
	_, err := place.Find()
	missing := doctor.Finding{Category: doctor.Categories[0]}
	_, isUnknown := errors.AsType[*project.UnknownProjectError](err)
	switch {
	case errors.Is(err, mailbox.ErrNoWorkspace):
		missing.Name, missing.Severity = "workspace", doctor.SeveritySkipped
	case isUnknown:
		missing.Name, missing.Severity = "project-dir", doctor.SeverityError
	default:
		return c.with(nil, func(w *mailbox.Workspace) error {
			return inspection.Workspace(c.ctx, w, report, inspection.Options{
				WorkingDir: c.Dir, Getenv: c.Getenv, Contract: sibling.Find("contract"), Now: c.Now(), Repair: c.fix,
			})
		})
	}
	missing.Message, missing.Hint = err.Error(), failure.Of(err).Hint
	report.Add(missing)
	return nil
}

func writeReport(r *doctor.Report, s *command.Streams) {
	marks := map[doctor.Severity]colors{
		doctor.SeverityOK: green, doctor.SeverityWarning: yellow,
		doctor.SeverityError: urgent, doctor.SeveritySkipped: {color.Faint},
	}
	for _, c := range r.Categories {
		if len(c.Results) == 0 {
			continue
		}
		s.Printf("%s\n", paint(s, bold, c.Name))
		for _, f := range c.Results {
			mark := paint(s, marks[f.Severity], fmt.Sprintf("%-5s", f.Severity))
			s.Printf("  %s  %s: %s\n", mark, visible.Line(f.Name), visible.Line(f.Message))
			if f.Hint != "" && f.Severity != doctor.SeverityOK {
				s.Printf("         hint: %s\n", visible.Line(f.Hint))
			}
		}
	}
	for _, done := range r.Fixed {
		s.Printf("fixed: %s\n", visible.Line(done))
	}
}
