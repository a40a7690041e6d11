package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/fatih/color"
	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/machine"
	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/live"
	"github.com/oacp-go/oacp/live/setup"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/doctor"
	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn"
)

func newDoctorCommand(s *command.Streams) *cli.Command {
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
		Flags: flagsWith(
			&cli.BoolFlag{Name: "fix", Usage: "make the repairs that are safe"},
			&cli.StringFlag{Name: "output", Category: command.Rare, Aliases: []string{"o"}, Usage: "also write the report to `FILE`"}),
		Action: ofProject(s, runDoctor),
	}
}

func runDoctor(c *call) error {
	defer c.catchSignals()()
	report := doctor.Report{Fixed: []string{}}
	versions := make(map[live.Program]string)
	for _, check := range machine.Inspect(c.ctx) {
		report.Add(machineFinding(check))
		if program := live.Program(check.Name); check.Status == machine.Good && slices.Contains(live.Programs(), program) {
			versions[program] = check.Detail
		}
	}
	if err := inspect(c, &report); err != nil {
		return err
	}
	report.Add(setup.InspectVersions(versions)...)
	if err := context.Cause(c.ctx); err != nil {
		return err
	}
	if err := printReport(c, &report); err != nil {
		return err
	}
	if report.HasErrors {
		return failure.ErrReported
	}
	return nil
}

// inspect inspects the workspace, and with --fix repairs it and inspects it again. The machine can
// be checked without a workspace.
func inspect(c *call, report *doctor.Report) error {
	place := c.place.Place(c.Streams)
	_, err := place.Find()
	if errors.Is(err, project.ErrUnmarked) {
		c.place.Dir, err = place.Unmarked(), nil
	}
	missing := doctor.Finding{Category: doctor.Categories[0]}
	_, isUnknown := errors.AsType[*project.UnknownProjectError](err)
	switch {
	case errors.Is(err, mailbox.ErrNoWorkspace):
		missing.Name, missing.Severity = "workspace", doctor.SeveritySkipped
	case isUnknown:
		missing.Name, missing.Severity = "project-dir", doctor.SeverityError
	default:
		return c.open(func(c *call, w *mailbox.Workspace) error { return inspectWorkspace(c, w, report) })
	}
	missing.Message, missing.Hint = err.Error(), failure.Of(err).Hint
	report.Add(missing)
	return nil
}

func inspectWorkspace(c *call, w *mailbox.Workspace, report *doctor.Report) error {
	report.Workspace = w.Dir()
	enclosing, err := enclosingOf(c.Dir, w.Dir())
	if err != nil {
		return err
	}
	options := doctor.Options{
		Now: c.Now(), ProjectFolders: c.place.Project != "", Autonomy: autonomyOf, Contract: command.ContractProgram(), Enclosing: enclosing,
	}
	var findings []doctor.Finding
	if c.isOn("fix") {
		report.Fixed, findings, err = doctor.Repair(c.ctx, w, options)
	} else {
		findings, err = doctor.Inspect(c.ctx, w, options)
	}
	for _, category := range doctor.Categories {
		report.Group(category)
	}
	report.Add(findings...)
	if err != nil {
		return err
	}
	report.Add(setup.Inspect(setup.Options{Workspace: w, Getenv: c.Getenv}, c.Dir)...)
	sessions, err := setup.InspectSessions(w, c.Now())
	report.Add(sessions...)
	return err
}

// autonomyOf returns whether oacp run holds the messages of an agent, or why it cannot run.
func autonomyOf(w *mailbox.Workspace, name schema.AgentName) (project.Autonomy, error) {
	settings, err := turn.LoadSettings(w, name)
	return settings.Autonomy, err
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

// printReport prints the report, and writes it to the file of --output.
func printReport(c *call, r *doctor.Report) error {
	if err := c.answer(r, func() { writeReport(r, c.Streams) }); err != nil || c.text("output") == "" {
		return err
	}
	path, err := project.ExpandHome(c.text("output"))
	if err != nil {
		return err
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(c.Dir, path)
	}
	var text bytes.Buffer
	file := *c.Streams
	file.Out, file.OutTerminal = bufio.NewWriter(&text), false // no colours
	err = errors.Join(file.Answer(c.json(), r, func() { writeReport(r, &file) }), file.Out.Flush(), os.MkdirAll(filepath.Dir(path), 0o755))
	if err == nil {
		err = os.WriteFile(path, text.Bytes(), 0o644)
	}
	if err == nil {
		_, _ = fmt.Fprintf(c.Err, "oacp: the report is in %s\n", visible.Line(path))
	}
	return err
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
		fmt.Fprintln(s.Out, paint(s, bold, c.Name))
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
