package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/fatih/color"
	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/live/setup"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/doctor"
	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn"
)

type doctorOptions struct {
	workspace command.Workspace
	fix, json bool
	output    string
}

func newDoctorCommand(s *command.Streams) *cli.Command {
	var o doctorOptions
	return &cli.Command{
		Name:      "doctor",
		Category:  command.CategoryWorkspace,
		Usage:     "find and fix problems",
		ArgsUsage: "[PROJECT]",
		Description: `doctor checks the programs that agents need, the folders of the workspace, interrupted
deliveries, messages that are invalid, expired, old or dead, keys, schemas for bodies,
the files of agents, how git treats messages, and whether mail reaches sessions of claude
and codex. Without --fix it changes nothing. With --fix it makes the repairs that are
safe: it delivers sent messages, creates missing folders and status files, and removes
leftovers. The exit status is 1 if errors remain; warnings do not count.`,
		Flags: append([]cli.Flag{
			&cli.BoolFlag{Name: "fix", Usage: "make the repairs that are safe", Destination: &o.fix},
			&cli.StringFlag{Name: "output", Category: command.Rare, Aliases: []string{"o"}, Usage: "also write the report to `FILE`", Destination: &o.output},
			command.JSONFlag(&o.json),
		}, o.workspace.Flags()...),
		Action: o.workspace.OfProject(func(c *cli.Context) error {
			return runDoctor(c.Context, o, s)
		}),
	}
}

func runDoctor(ctx context.Context, o doctorOptions, s *command.Streams) error {
	ctx, stop := command.UntilSignal(ctx)
	defer stop()
	report := doctor.Report{Fixed: []string{}}
	for _, finding := range doctor.InspectMachine(ctx) {
		report.Add(finding)
	}
	if err := o.inspect(ctx, s, &report); err != nil {
		return err
	}
	if err := context.Cause(ctx); err != nil {
		return err
	}
	if err := o.print(&report, s); err != nil {
		return err
	}
	if report.HasErrors {
		return failure.ErrReported
	}
	return nil
}

// inspect inspects the workspace, and with --fix repairs it and inspects it again. The machine can
// be checked without a workspace.
func (o doctorOptions) inspect(ctx context.Context, s *command.Streams, report *doctor.Report) error {
	_, err := o.workspace.Place(s).Find()
	if errors.Is(err, project.ErrUnmarked) {
		o.workspace.Dir, err = o.workspace.Place(s).Unmarked(), nil
	}
	var unknown *project.UnknownProjectError
	switch missing := (doctor.Finding{Category: doctor.Categories[0]}); {
	case errors.Is(err, mailbox.ErrNoWorkspace):
		missing.Name, missing.Severity, missing.Message, missing.Hint = "workspace", doctor.SeveritySkipped, err.Error(), failure.Of(err).Hint
		report.Add(missing)
		return nil
	case errors.As(err, &unknown):
		missing.Name, missing.Severity, missing.Message, missing.Hint = "project-dir", doctor.SeverityError, err.Error(), failure.Of(err).Hint
		report.Add(missing)
		return nil
	}
	return o.workspace.With(s, nil, func(w *mailbox.Workspace) error {
		report.Workspace = w.Dir()
		enclosing, err := enclosingOf(s.Dir, w.Dir())
		if err != nil {
			return err
		}
		options := doctor.Options{
			Now: s.Now(), ProjectFolders: o.workspace.Project != "", Autonomy: autonomyOf, Contract: command.ContractProgram(), Enclosing: enclosing,
		}
		var findings []doctor.Finding
		if o.fix {
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
		report.Add(setup.Inspect(setup.Options{Workspace: w, Getenv: s.Getenv}, s.Dir)...)
		sessions, err := setup.InspectSessions(w, s.Now())
		report.Add(sessions...)
		return err
	})
}

// autonomyOf returns whether oacp run holds the messages of an agent, or why it cannot run.
func autonomyOf(w *mailbox.Workspace, name schema.AgentName) (project.Autonomy, error) {
	settings, err := turn.LoadSettings(w, name)
	return settings.Autonomy, err
}

// print prints the report, and writes it to the file of --output.
func (o doctorOptions) print(r *doctor.Report, s *command.Streams) error {
	if err := s.Answer(o.json, r, func() { writeReport(r, s) }); err != nil {
		return err
	}
	if o.output == "" {
		return nil
	}
	path, err := project.ExpandHome(o.output)
	if err != nil {
		return err
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(s.Dir, path)
	}
	var text bytes.Buffer
	file := *s
	file.Out, file.OutTerminal = bufio.NewWriter(&text), false // no colours
	err = errors.Join(file.Answer(o.json, r, func() { writeReport(r, &file) }), file.Out.Flush(), os.MkdirAll(filepath.Dir(path), 0o755))
	if err == nil {
		err = os.WriteFile(path, text.Bytes(), 0o644)
	}
	if err == nil {
		_, _ = fmt.Fprintf(s.Err, "oacp: the report is in %s\n", visible.Line(path))
	}
	return err
}

func writeReport(r *doctor.Report, s *command.Streams) {
	marks := map[doctor.Severity]colors{
		doctor.SeverityOK: {color.FgGreen}, doctor.SeverityWarning: {color.FgYellow},
		doctor.SeverityError: {color.FgRed, color.Bold}, doctor.SeveritySkipped: {color.Faint},
	}
	for _, c := range r.Categories {
		if len(c.Results) == 0 {
			continue
		}
		fmt.Fprintln(s.Out, paint(s, colors{color.Bold}, c.Name))
		for _, f := range c.Results {
			mark := paint(s, marks[f.Severity], fmt.Sprintf("%-5s", f.Severity))
			fmt.Fprintf(s.Out, "  %s  %s: %s\n", mark, visible.Line(f.Name), visible.Line(f.Message))
			if f.Hint != "" && f.Severity != doctor.SeverityOK {
				fmt.Fprintf(s.Out, "         hint: %s\n", visible.Line(f.Hint))
			}
		}
	}
	for _, done := range r.Fixed {
		fmt.Fprintf(s.Out, "fixed: %s\n", visible.Line(done))
	}
}
