package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/machine"
	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/doctor"
)

type doctorOptions struct {
	workspace command.Workspace
	fix, json bool
}

func newDoctorCommand(s *command.Streams) *cli.Command {
	var o doctorOptions
	return &cli.Command{
		Name:      "doctor",
		Category:  command.CategoryWorkspace,
		Usage:     "find and repair problems of machine and workspace",
		ArgsUsage: "[PROJECT]",
		Description: `Checks the programs that agents need, the folders of the workspace, interrupted
deliveries, and messages that are bad, expired, pending for long, or dead. It
changes nothing without --fix, which repairs what is safe to repair: it delivers
sent messages, makes missing folders, and removes leftovers. Errors that remain
are a failure (status 1), warnings are not.`,
		Flags: append([]cli.Flag{
			&cli.BoolFlag{Name: "fix", Usage: "repair what is safe to repair", Destination: &o.fix},
			command.JSONFlag(&o.json),
		}, o.workspace.Flags()...),
		Action: func(c *cli.Context) error {
			if err := o.workspace.TakeProject(command.Positionals(c)); err != nil {
				return err
			}
			return runDoctor(c.Context, o, s)
		},
	}
}

// doctorAnswer is the JSON of the reference implementation's doctor.
type doctorAnswer struct {
	HasErrors  bool             `json:"has_errors"`
	Workspace  string           `json:"workspace,omitempty"`
	Fixed      []string         `json:"fixed"`
	Categories []doctorCategory `json:"categories"`
}

type doctorCategory struct {
	Name    string           `json:"name"`
	Worst   doctor.Severity  `json:"worst_severity"`
	Results []doctor.Finding `json:"results"`
}

// add files a finding under its category.
func (a *doctorAnswer) add(f doctor.Finding) {
	a.HasErrors = a.HasErrors || f.Severity == doctor.SeverityError
	last := len(a.Categories) - 1
	if last < 0 || a.Categories[last].Name != f.Category {
		a.Categories = append(a.Categories, doctorCategory{Name: f.Category, Worst: f.Severity})
		last++
	}
	c := &a.Categories[last]
	c.Results = append(c.Results, f)
	ascending := []doctor.Severity{doctor.SeveritySkipped, doctor.SeverityOK, doctor.SeverityWarning, doctor.SeverityError}
	c.Worst = ascending[max(slices.Index(ascending, c.Worst), slices.Index(ascending, f.Severity))]
}

func runDoctor(ctx context.Context, o doctorOptions, s *command.Streams) error {
	ctx, stop := command.UntilSignal(ctx)
	defer stop()
	answer := doctorAnswer{Fixed: []string{}}
	for _, check := range machine.Inspect(ctx) {
		answer.add(machineFinding(check))
	}
	if err := context.Cause(ctx); err != nil {
		return err
	}
	// The machine can be checked without a workspace.
	_, err := o.workspace.Place(s).Find()
	if errors.Is(err, mailbox.ErrNoWorkspace) {
		answer.add(doctor.Finding{
			Category: "Workspace", Name: "workspace", Severity: doctor.SeveritySkipped, Message: err.Error(), Hint: failure.Of(err).Hint,
		})
	} else {
		err = o.workspace.With(s, nil, func(w *mailbox.Workspace) error {
			answer.Workspace = w.Dir()
			return o.inspect(ctx, w, s.Now, &answer)
		})
		if err != nil {
			return err
		}
	}
	if err := answer.print(o, s); err != nil {
		return err
	}
	if answer.HasErrors {
		return failure.ErrReported
	}
	return nil
}

// machineFinding says what a check of the machine means for messages. Nothing that it checks is
// needed to send and read them, so it is never an error.
func machineFinding(c machine.Check) doctor.Finding {
	f := doctor.Finding{Category: "Environment", Name: c.Name, Severity: doctor.SeverityOK, Message: c.Detail, Hint: c.Hint}
	switch c.Status {
	case machine.Absent:
		f.Severity, f.Message = doctor.SeveritySkipped, c.Detail+"; optional, for "+c.For
	case machine.Poor:
		f.Severity, f.Message = doctor.SeverityWarning, c.Detail+"; for "+c.For
	}
	return f
}

// inspect inspects the workspace, and with --fix repairs it and inspects it again.
func (o doctorOptions) inspect(ctx context.Context, w *mailbox.Workspace, now func() time.Time, answer *doctorAnswer) error {
	findings, err := doctor.Inspect(ctx, w, now())
	if err != nil {
		return err
	}
	var failed []doctor.Finding
	if o.fix {
		for _, f := range findings {
			if f.Mend == nil {
				continue
			}
			done, err := f.Mend(ctx)
			answer.Fixed = append(answer.Fixed, done...)
			if err != nil {
				failed = append(failed, doctor.Finding{
					Category: "Not repaired", Name: f.Name, Severity: doctor.SeverityError, Message: failure.OneLine(err.Error()),
				})
			}
		}
		if findings, err = doctor.Inspect(ctx, w, now()); err != nil {
			return err
		}
	}
	for _, f := range append(findings, failed...) {
		answer.add(f)
	}
	return nil
}

func (a *doctorAnswer) print(o doctorOptions, s *command.Streams) error {
	if o.json {
		return command.WriteJSON(s.Out, a)
	}
	colors := map[doctor.Severity]text.Colors{
		doctor.SeverityOK: {text.FgGreen}, doctor.SeverityWarning: {text.FgYellow},
		doctor.SeverityError: {text.FgRed, text.Bold}, doctor.SeveritySkipped: {text.Faint},
	}
	for _, c := range a.Categories {
		fmt.Fprintln(s.Out, paint(s, text.Colors{text.Bold}, c.Name))
		for _, r := range c.Results {
			mark := paint(s, colors[r.Severity], fmt.Sprintf("%-5s", r.Severity))
			fmt.Fprintf(s.Out, "  %s  %s: %s\n", mark, visible.Line(r.Name), visible.Line(r.Message))
			if r.Hint != "" && r.Severity != doctor.SeverityOK {
				fmt.Fprintf(s.Out, "         hint: %s\n", visible.Line(r.Hint))
			}
		}
	}
	for _, done := range a.Fixed {
		fmt.Fprintf(s.Out, "fixed: %s\n", visible.Line(done))
	}
	return nil
}
